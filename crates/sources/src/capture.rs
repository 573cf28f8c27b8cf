//! Packets from capture files and from live interfaces.
//!
//! Both yield [`Segment`](lagtrace_core::segment::Segment)s with their
//! payload and end in a
//! [`CaptureSummary`](lagtrace_core::event::CaptureSummary) that says what was
//! lost, cut or damaged. Nothing here knows what a segment means.

mod file;
mod foreign;

pub use file::FileCapture;
pub use foreign::Foreign;

use std::io;

use thiserror::Error;

/// Why a capture could not be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// A capture file could not be opened or its begin not be read.
    #[error("cannot read {name}")]
    Read {
        /// The file's name.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// A file is no capture.
    #[error("{name} is no pcap or pcapng capture: it is {found}")]
    NotCapture {
        /// The file's name.
        name: String,
        /// What it is instead, by its first bytes.
        found: Foreign,
    },
}

impl CaptureError {
    /// What to do about it, where that can be told.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Read { .. } => None,
            Self::NotCapture { name, found } => found.hint(name),
        }
    }
}
