//! Live sockets of this host, as the kernel reports them.
//!
//! [`diag`] queries `sock_diag` for the state of sockets, which needs no privilege; [`foreign`]
//! finds the target's own sockets if the target runs on this host, including in another network
//! namespace; [`option`] reads their options and can set one on a connection of ours; [`sampler`]
//! does both repeatedly while the load runs; [`survey`] lists all sockets of the host. The samples
//! are interpreted elsewhere.

pub mod cgroup;
mod choice;
pub mod diag;
pub mod foreign;
mod found;
mod info;
pub mod limits;
mod namespaces;
pub mod option;
mod options;
mod owner;
mod process;
pub mod record;
mod reservoir;
pub mod sampler;
pub mod survey;
pub mod unix;
mod watch;
