//! The configuration of the server under investigation, as its program
//! resolves it for one request.
//!
//! In: a process of that program, and the request's address, port, host and
//! URI. Out: the value of every directive that bears on latency, with the file
//! and line that set it, and how sure that is. What a value means for a
//! request's time is not known here.
//!
//! One module per program. Files are read as the program sees them, through
//! `/proc/PID/root`, and every byte of them is taken as hostile: sizes, counts
//! and nesting are bounded, and a file that cannot be understood to its end is
//! used as far as it goes.

pub mod nginx;

mod files;
mod glob;
mod process;

use std::io;
use std::path::PathBuf;

/// The certainty that this answer is the program's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// The program, running on these files, does exactly this.
    Exact,
    /// Something that decides is unknown: the reason, in one or more sentences.
    Ambiguous(String),
}

impl Certainty {
    /// Returns exact without doubts, else ambiguous for all of them, with the
    /// first few spelled out.
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
    /// A file below `/proc/PID` could not be read: the process ended, or
    /// reading it needs `CAP_SYS_PTRACE` or the same user.
    #[error("cannot read {name} of process {pid}")]
    Process {
        /// The process.
        pid: u32,
        /// The file's name below `/proc/PID`.
        name: &'static str,
        /// The error from the kernel.
        source: io::Error,
    },
    /// The process does not run the program asked for.
    #[error("process {pid} is no nginx process: {title:?}")]
    NotNginx {
        /// The process.
        pid: u32,
        /// The process's command line.
        title: String,
    },
    /// The process is an orphan: its master has ended.
    #[error("the master of nginx process {pid} has ended")]
    NoMaster {
        /// The process that was asked for.
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
