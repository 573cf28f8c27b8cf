//! The configuration of the server under investigation, as the server's program resolves it for one
//! request.
//!
//! Input: a process of that program, and the request's address, port, host and URI. Output: the
//! value of every directive that may explain a finding, the file and line that set it, and the
//! certainty of that value. This module does not interpret the effect of a value on the request's
//! time.
//!
//! nginx has a module of its own; [`program`] covers the programs whose files have one directive on
//! each line, and [`launch`] those that are configured when they are started. Files are read through
//! `/proc/PID/root`, as the program sees them. Their contents are treated as hostile: sizes, counts
//! and nesting are bounded. If a file cannot be understood completely, the part before the problem is
//! used.

pub mod launch;
pub mod nginx;
pub mod program;

mod apache;
mod by_line;
pub(crate) mod files;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod glob;
mod haproxy;
#[cfg(feature = "fuzzing")]
mod parts;
pub(crate) mod process;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;

/// The certainty that the program itself has this configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// The program, running on these files, has exactly this configuration.
    Exact,
    /// Something that affects the result is unknown. Contains the reasons.
    Ambiguous(String),
}

impl Certainty {
    /// Returns `Exact` if there are no doubts, and otherwise `Ambiguous` with the first few doubts
    /// in full and the number of the others.
    pub(crate) fn from_doubts(doubts: &[String]) -> Self {
        const SPELLED_OUT: usize = 4;
        let more = doubts.len().saturating_sub(SPELLED_OUT);
        let reason = doubts[..doubts.len() - more].join("; ");
        match (doubts, more) {
            ([], _) => Self::Exact,
            (_, 0) => Self::Ambiguous(reason),
            _ => Self::Ambiguous(format!("{reason}; and {more} more")),
        }
    }

    /// The reason for doubt, if there is one.
    pub fn doubt(&self) -> Option<&str> {
        match self {
            Self::Exact => None,
            Self::Ambiguous(reason) => Some(reason),
        }
    }
}

/// A reason why no configuration could be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file below `/proc/PID` could not be read: the process has ended, or reading needs
    /// `CAP_SYS_PTRACE` or the same user.
    #[error("cannot read {name} of process {pid}")]
    Process {
        /// The process.
        pid: u32,
        /// The file's name below `/proc/PID`.
        name: &'static str,
        /// The error from the kernel.
        source: io::Error,
    },
    /// The process does not run the expected program.
    #[error("process {pid} is not an nginx process: {title:?}")]
    NotNginx {
        /// The process.
        pid: u32,
        /// The process's command line.
        title: String,
    },
    /// The process has no parent: its master has ended.
    #[error("the master of nginx process {pid} has ended")]
    NoMaster {
        /// The requested process.
        pid: u32,
    },
    /// The program runs in a file system that may not be read.
    #[error("the file system of process {pid} is not ours and may not be read")]
    ForeignRoot {
        /// The process.
        pid: u32,
        /// The error from the kernel.
        source: io::Error,
    },
    /// The program's main configuration file could not be read.
    #[error("cannot read configuration file {}", path.display())]
    Unreadable {
        /// The file, as the program names it.
        path: PathBuf,
        /// The error from the kernel.
        source: io::Error,
    },
}
