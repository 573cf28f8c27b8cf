//! What can go wrong before and beside capturing.

use std::io;

use lagtrace_core::decode::{Fault, LinkType};
use thiserror::Error;

use super::Foreign;

/// Why packets could not be had or kept.
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
    #[error("{name} is no pcap, pcapng or snoop capture: it is {found}")]
    NotCapture {
        /// The file's name.
        name: String,
        /// What it is instead, by its first bytes.
        found: Foreign,
    },
    /// A capture of a kind that is not read.
    #[error("{name} cannot be read: {fault}")]
    Unsupported {
        /// The file's name.
        name: String,
        /// The reason why it is not read.
        fault: Fault,
    },
    /// The process may not capture.
    #[error("no permission to capture on {interface}")]
    NotPermitted {
        /// The interface.
        interface: String,
        /// What libpcap said.
        source: pcap::Error,
    },
    /// There is no such interface in this network namespace.
    #[error("there is no interface {interface}")]
    NoSuchInterface {
        /// The name asked for.
        interface: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// An interface could not be opened: it is down, or of a strange kind.
    #[error("cannot capture on {interface}")]
    Interface {
        /// The interface.
        interface: String,
        /// What libpcap said.
        source: pcap::Error,
    },
    /// A filter is not of libpcap's language, or asks what this link cannot tell.
    #[error("the filter \"{filter}\" cannot be used on {interface}")]
    Filter {
        /// The filter expression.
        filter: String,
        /// The interface it was compiled for.
        interface: String,
        /// What libpcap said.
        source: pcap::Error,
    },
    /// One pcap file cannot hold packets of several link types.
    #[error("packets of link types {} and {} do not fit into one pcap file", .0.0, .1.0)]
    MixedLinkTypes(LinkType, LinkType),
    /// A file for packets could not be created.
    #[error("cannot create {name}")]
    Create {
        /// The file's name.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// Packets could not be written, to a full disk for example. What stands in
    /// the file is whole.
    #[error("cannot write to {name} beyond {packets} packets")]
    Write {
        /// The file's name.
        name: String,
        /// The packets that are in the file.
        packets: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The system would not start a thread to capture in.
    #[error("cannot start the capturing thread")]
    Thread(#[source] io::Error),
}

impl CaptureError {
    /// What to do about it, where that can be told.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotCapture { name, found } => found.hint(name),
            Self::Unsupported { name, .. } => {
                Some(format!("editcap {name} {name}.pcapng may convert it"))
            }
            Self::NotPermitted { .. } => Some(
                "capturing needs CAP_NET_RAW: run it with sudo, or allow it once with \
                 'sudo setcap cap_net_raw+ep' on the lagtrace binary"
                    .into(),
            ),
            Self::NoSuchInterface { known, .. } => {
                Some(format!("there are: {}, and any for all", known.join(", ")))
            }
            Self::Filter { .. } => Some("man pcap-filter describes the language".into()),
            Self::MixedLinkTypes(..) => {
                Some("capture on the interface any, or into a file for each".into())
            }
            Self::Read { .. }
            | Self::Interface { .. }
            | Self::Create { .. }
            | Self::Write { .. }
            | Self::Thread(_) => None,
        }
    }
}
