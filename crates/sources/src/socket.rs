//! Live sockets of this host, as the kernel reports them.
//!
//! - [`diag`] queries the state of sockets by `sock_diag`, which needs no privilege.
//! - [`foreign`] finds the sockets of a target that runs on this host, in any network namespace.
//! - [`option`] reads the options of these sockets, and can set an option on a connection of the
//!   load.
//! - [`sampler`] reads states and options repeatedly while the load runs.
//! - [`survey`] lists all sockets of the host.
//!
//! This module does not interpret the values.

pub mod cgroup;
mod choice;
pub mod diag;
pub mod foreign;
mod found;
mod info;
pub mod limits;
mod namespaces;
pub mod option;
pub(crate) mod options;
mod owner;
pub(crate) mod process;
pub mod record;
mod reservoir;
pub mod sampler;
pub mod survey;
pub mod unix;
mod watch;

pub use process::name as process_name;
