//! The keeper: the process that keeps the privileges of a run.
//!
//! lagtrace runs as two processes. The *worker* decodes packets, speaks protocols, analyses and
//! prints. It has no capabilities and is confined by the module `sandbox`. The *keeper* is its
//! child. It opens sockets and files, enters network namespaces, loads eBPF programs and restores
//! what the what-if changed. It parses nothing from the network. The worker asks for one operation
//! at a time over a socket pair (`privilege::message`), and the keeper checks each request against
//! the [`Scope`], which the command line determined before the processes separated. The keeper
//! ends when the worker ends, for any reason, and the worker ends when the keeper does.

mod process;
mod raw_sockets;
mod scope;
mod service;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

pub use process::{Kept, start};
pub use scope::Scope;

use crate::privilege::client;
use crate::privilege::message::Request;

/// Lets the keeper open the packet sockets and raw sockets of this process. The kernel then asks
/// the keeper instead of this process's capabilities.
///
/// # Errors
/// Returns an error if the kernel has no such notifications (before 5.9), or if another program
/// already answers those of this process.
pub fn delegate_raw_sockets() -> io::Result<()> {
    let keeper = client::keeper().ok_or(io::ErrorKind::NotConnected)?;
    let listener: OwnedFd = raw_sockets::delegate()?;
    keeper.ask_with(&Request::Answer, &[listener.as_fd()])?;
    Ok(())
}
