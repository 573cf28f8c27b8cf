//! The limits of open files: of a process (`RLIMIT_NOFILE`), and of the system.
//!
//! At a limit, libraries fail with errors that name other reasons, or go on without what they
//! could not open. So whoever needs many files makes sure first that they can be opened.

use std::io;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

/// The limit that most systems give each process, and that is enough for all but many connections.
const USUAL: u64 = 1024;

/// A limit that leaves too little room for more open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum TooFewFiles {
    /// The limit of this process.
    #[error(
        "the limit of open files is {limit}, which leaves no room for the {needed} more that this needs"
    )]
    OfProcess {
        /// The limit.
        limit: u64,
        /// The number of further files.
        needed: usize,
    },
    /// The limit of the whole system.
    #[error("the system has reached its limit of open files (fs.file-max)")]
    OfSystem,
}

impl TooFewFiles {
    /// Returns advice on how to resolve the error.
    pub fn hint(self) -> &'static str {
        match self {
            Self::OfProcess { .. } => {
                "raise the limit: ulimit -n 1024 (for a service of systemd: LimitNOFILE=1024)"
            }
            Self::OfSystem => "end programs that hold many files, or raise fs.file-max by sysctl",
        }
    }
}

/// Returns advice on an error that says that a limit of open files was reached.
pub fn hint(error: &io::Error) -> Option<&'static str> {
    let errno = Errno::from_io_error(error)?;
    reached(errno, 0, 0).map(TooFewFiles::hint)
}

/// Returns the limit of which an error of the kernel tells.
fn reached(errno: Errno, limit: u64, needed: usize) -> Option<TooFewFiles> {
    match errno {
        Errno::MFILE => Some(TooFewFiles::OfProcess { limit, needed }),
        Errno::NFILE => Some(TooFewFiles::OfSystem),
        _ => None,
    }
}

/// Makes sure that this process can open `needed` more files. Raises its limit if the system allows
/// it.
///
/// # Errors
/// Returns an error if a limit leaves no room for them.
pub fn make_room(needed: usize) -> Result<(), TooFewFiles> {
    // A smaller limit may be enough.
    let limit = raise(USUAL).err().unwrap_or(USUAL);
    let mut opened = Vec::new();
    for _ in 0..needed {
        match eventfd(0, EventfdFlags::CLOEXEC) {
            Ok(file) => opened.push(file),
            // Another reason does not concern the limits.
            Err(errno) => return reached(errno, limit, needed).map_or(Ok(()), Err),
        }
    }
    Ok(())
}

/// Raises this process's limit of open files to at least `wanted`. If the system does not allow it,
/// raises it as far as possible, and returns that limit as the error.
pub(crate) fn raise(wanted: u64) -> Result<(), u64> {
    let limit = getrlimit(Resource::Nofile);
    let Some(current) = limit.current.filter(|&current| current < wanted) else {
        return Ok(());
    };
    let possible = limit.maximum.map_or(wanted, |most| most.min(wanted));
    let raised = Rlimit {
        current: Some(possible),
        maximum: limit.maximum,
    };
    let is_raised = setrlimit(Resource::Nofile, raised).is_ok();
    match if is_raised { possible } else { current } {
        reached if reached < wanted => Err(reached),
        _ => Ok(()),
    }
}
