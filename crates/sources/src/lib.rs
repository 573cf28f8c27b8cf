//! Sources of observations: captures, probes, load, sockets, counters, configuration.
//!
//! Each source performs one kind of I/O and returns types of the core:
//! [`Segment`](lagtrace_core::observed::segment::Segment)s and
//! [`Event`](lagtrace_core::observed::event::Event)s. Sources do not interpret what they observe:
//! they know nothing of waits, causes and reports. Each operation that needs a privilege is in one
//! small part of its source. Without the privilege, the operation fails with an error that names
//! the missing capability.

pub mod capture;
mod checksum;
mod clock;
pub mod command_line;
pub mod config;
pub mod counter;
pub mod files;
pub mod firewall;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod headers;
mod http;
mod http2;
pub mod inherited;
pub mod keeper;
pub mod kernel;
pub mod load;
pub mod netlink;
pub mod open_files;
pub mod origin;
pub mod privilege;
pub mod probe;
pub mod processors;
pub mod request;
pub mod resolve;
pub mod route;
pub mod sandbox;
pub mod socket;
mod stamped;
pub mod timer;
pub mod tls;
pub mod trace;
mod unix;
pub mod url;
