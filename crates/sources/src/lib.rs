//! Sources of observations: captures, probes, load, sockets, counters, configuration.
//!
//! Each source does I/O of one kind and hands out the core's vocabulary:
//! [`Segment`](lagtrace_core::observed::segment::Segment)s and
//! [`Event`](lagtrace_core::observed::event::Event)s. None of them judges: connections,
//! exchanges, waits, causes and reports are not known here. Whatever needs a
//! privilege is asked for in one small place of its source and refused with an
//! error that names the capability.

pub mod capture;
mod checksum;
mod clock;
pub mod config;
pub mod counter;
pub mod firewall;
mod headers;
mod http;
pub mod kernel;
pub mod load;
pub mod netlink;
pub mod origin;
pub mod privilege;
pub mod probe;
pub mod resolve;
pub mod route;
pub mod socket;
mod stamped;
pub mod timer;
pub mod tls;
pub mod trace;
pub mod url;
