//! Errors of opening, running and writing captures.

use std::io;

use lagtrace_core::decode::{Fault, LinkType};
use thiserror::Error;

use super::Foreign;

/// A reason why packets could not be read, captured or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// A capture file could not be opened, or its beginning could not be read.
    #[error("cannot read {name}")]
    Read {
        /// The file's name.
        name: String,
        /// The error from the operating system.
        source: io::Error,
    },
    /// The file is not a capture.
    #[error("{name} is not a pcap, pcapng or snoop capture: it is {found}")]
    NotCapture {
        /// The file's name.
        name: String,
        /// The kind of the file, recognized by its first bytes.
        found: Foreign,
    },
    /// The file is a capture of an unsupported kind.
    #[error("{name} cannot be read: {fault}")]
    Unsupported {
        /// The file's name.
        name: String,
        /// The reason why the file is not read.
        fault: Fault,
    },
    /// The process may not capture.
    #[error("no permission to capture on {interface}")]
    NotPermitted {
        /// The interface.
        interface: String,
        /// The error from libpcap.
        source: pcap::Error,
    },
    /// There is no such interface in this network namespace.
    #[error("there is no interface {interface}")]
    NoSuchInterface {
        /// The requested name.
        interface: String,
        /// The names of the interfaces that exist.
        known: Vec<String>,
    },
    /// The interface could not be opened: it is down, or of an unsupported kind.
    #[error("cannot capture on {interface}")]
    Interface {
        /// The interface.
        interface: String,
        /// The error from libpcap.
        source: pcap::Error,
    },
    /// The filter is not valid in libpcap's language, or tests something that this link type does
    /// not have.
    #[error("the filter \"{filter}\" cannot be used on {interface}")]
    Filter {
        /// The filter expression.
        filter: String,
        /// The interface that the filter was compiled for.
        interface: String,
        /// The error from libpcap.
        source: pcap::Error,
    },
    /// The packets have several link types, which a pcap file cannot hold.
    #[error("packets of link types {} and {} do not fit into one pcap file", .0.0, .1.0)]
    MixedLinkTypes(LinkType, LinkType),
    /// The output file could not be created.
    #[error("cannot create {name}")]
    Create {
        /// The file's name.
        name: String,
        /// The error from the operating system.
        source: io::Error,
    },
    /// Packets could not be written, for example because the disk is full. The packets in the file
    /// are complete.
    #[error("cannot write to {name} beyond {packets} packets")]
    Write {
        /// The file's name.
        name: String,
        /// The number of packets in the file.
        packets: u64,
        /// The error from the operating system.
        source: io::Error,
    },
    /// The file system failed to store packets that it had taken.
    #[error("{name} may lack packets")]
    Store {
        /// The file's name.
        name: String,
        /// The error from the operating system.
        source: io::Error,
    },
    /// The capture thread could not be started.
    #[error("cannot start the capturing thread")]
    Thread(#[source] io::Error),
}

impl CaptureError {
    /// Returns advice on how to resolve the error, if there is any.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotCapture { name, found } => found.hint(name),
            Self::Unsupported { name, .. } => {
                Some(format!("editcap {name} {name}.pcapng may convert it"))
            }
            Self::NotPermitted { .. } => Some(
                "capturing needs CAP_NET_RAW: run it with sudo, or allow it with \
                 `sudo setcap cap_net_raw+ep $(command -v lagtrace)`"
                    .into(),
            ),
            Self::NoSuchInterface { known, .. } => Some(format!(
                "available: {}, and `any` for all of them",
                known.join(", ")
            )),
            Self::Filter { .. } => Some("man pcap-filter describes the language".into()),
            Self::MixedLinkTypes(..) => {
                Some("capture on the interface any, or into a file for each".into())
            }
            Self::Read { .. }
            | Self::Interface { .. }
            | Self::Create { .. }
            | Self::Write { .. }
            | Self::Store { .. }
            | Self::Thread(_) => None,
        }
    }
}
