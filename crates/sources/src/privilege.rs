//! The operations that need a privilege, separated from all other code.
//!
//! Each operation is small and typed. If this process has a keeper (see the module `keeper`), the
//! operation is a request to it, because the process itself has no privileges; otherwise it is
//! performed here. If the kernel refuses an operation, the error names the capability that would
//! allow it.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};

use lagtrace_core::observed::event::Note;
use serde::{Deserialize, Serialize};

pub(crate) mod channel;
pub(crate) mod client;
pub(crate) mod limits;
pub(crate) mod message;
mod namespace;
mod process;
mod sudo;
mod table;

pub use namespace::{NetworkNamespace, namespace_id};
pub(crate) use process::{FoundFile, find_below, link, open_below, proc_file, program, root};
pub use process::{ProcessHandle, sockets_of};
pub use sudo::{SudoUser, sudo_user, user_behind_sudo};
pub use table::{FilterObject, FilterTable, TableFamily};

/// A capability that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Capability {
    /// Needed to inspect another user's process.
    SysPtrace,
    /// Needed to enter another network namespace.
    SysAdmin,
    /// Needed to read packet filter rules.
    NetAdmin,
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SysPtrace => "CAP_SYS_PTRACE",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::NetAdmin => "CAP_NET_ADMIN",
        })
    }
}

/// A reason why a property of a host could not be observed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The kernel does not allow this user to perform the operation.
    #[error("{operation} is not permitted: needs {needs}")]
    NotPermitted {
        /// The attempted operation, and its object.
        operation: String,
        /// The capability that would allow the operation.
        needs: Capability,
    },
    /// The operation failed.
    #[error("{operation} failed: {source}")]
    Failed {
        /// The attempted operation, and its object.
        operation: String,
        /// The error from the kernel.
        source: io::Error,
    },
    /// The object does not exist, no longer exists, or was replaced by another one.
    #[error("{what}: does not exist, or no longer exists")]
    Gone {
        /// The process, socket or file, or the attempted operation.
        what: String,
    },
    /// The request would affect something that does not belong to lagtrace.
    #[error("{what} is not one of lagtrace's own connections")]
    NotOurs {
        /// The requested flow.
        what: String,
    },
}

impl From<HostError> for io::Error {
    fn from(error: HostError) -> Self {
        if let HostError::Failed { source, .. } = error {
            return source;
        }
        let kind = match &error {
            HostError::NotPermitted { .. } => io::ErrorKind::PermissionDenied,
            HostError::Failed { .. } => io::ErrorKind::Other,
            HostError::Gone { .. } => io::ErrorKind::NotFound,
            HostError::NotOurs { .. } => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, error)
    }
}

impl HostError {
    /// Returns the error of `operation` that corresponds to `source`. `needs` is the capability
    /// that is missing if the kernel did not permit the operation.
    pub(crate) fn new(operation: impl Into<String>, source: io::Error, needs: Capability) -> Self {
        let operation = operation.into();
        let errno = source.raw_os_error();
        if source.kind() == io::ErrorKind::PermissionDenied {
            Self::NotPermitted { operation, needs }
        } else if source.kind() == io::ErrorKind::NotFound || errno == Some(libc::ESRCH) {
            Self::Gone { what: operation }
        } else {
            Self::Failed { operation, source }
        }
    }

    /// Returns the error of an `operation` that needs no privilege.
    pub(crate) fn failed(operation: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Failed {
            operation: operation.into(),
            source: source.into(),
        }
    }

    /// Returns a note for the report: this error, and the measurement that is missing because of
    /// it.
    pub fn note(&self, id: &str, unseen: &str) -> Note {
        Note {
            id: id.to_owned(),
            text: format!("Not measured: {unseen}. {self}."),
        }
    }
}

/// Returns the text of a file, at most `most` bytes. Invalid UTF-8 is replaced.
pub(crate) fn read_bounded(path: &str, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
