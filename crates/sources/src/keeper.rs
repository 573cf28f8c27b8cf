//! The keeper: the process that keeps the privileges of a run.
//!
//! lagtrace runs as two processes. The *worker* decodes packets, speaks protocols, analyses and
//! prints. It has no capabilities and is confined by the module `sandbox`. The *keeper* is its
//! child. It opens sockets and files, enters network namespaces, loads eBPF programs and restores
//! what the what-if changed. It parses nothing from the network. The worker asks for one operation
//! at a time over a socket pair (`privilege::message`), and the keeper checks each request against
//! the [`Scope`], which the command line determined before the processes separated. The keeper
//! ends when the worker ends, for any reason, and the worker ends when the keeper does.

mod answer;
mod configuration;
mod named;
mod observed;
mod page;
mod process;
mod raw_sockets;
mod scope;
mod servers;
mod service;
#[cfg(test)]
mod tests;
mod undo;
mod worker;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

pub use observed::{Observed, ObservedCalls};
pub use process::{Kept, start};
pub use scope::{Desktop, Page, Processes, Scope};

use crate::privilege::client;
use crate::privilege::message::{Reply, Request};

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

/// Answers encoded requests, one after the other, as a keeper whose command line names nothing.
#[cfg(feature = "fuzzing")]
pub(crate) fn ask_for_nothing(mut bytes: &[u8]) {
    use crate::privilege::channel::Channel;

    let Ok((_, theirs)) = Channel::pair() else {
        return;
    };
    let worker = worker::Worker::new(rustix::process::getpid());
    let undo = undo::Undo::default();
    let mut service = service::Service::new(Scope::default(), theirs, worker, undo);
    while let Ok((request, rest)) = postcard::take_from_bytes::<Request>(bytes) {
        if let Ok((reply, descriptors)) = service.decide(request, None) {
            assert!(descriptors.is_empty(), "{reply:?}");
        }
        if rest.len() == bytes.len() {
            return;
        }
        bytes = rest;
    }
}

/// Has the keeper create the private file of a page, which it removes unless it is kept; `None`
/// without a keeper.
pub fn create_page() -> Option<io::Result<(File, PathBuf)>> {
    let answer = client::keeper()?.ask(&Request::Page);
    Some(match answer {
        Ok((Reply::Bytes(path), mut descriptors)) => match descriptors.pop() {
            Some(file) => Ok((file.into(), OsString::from_vec(path).into())),
            None => Err(client::unexpected().into()),
        },
        Ok(_) => Err(client::unexpected().into()),
        Err(error) => Err(error.into()),
    })
}

/// Has the keeper keep the file of the page.
///
/// # Errors
/// Returns an error if there is none.
pub fn keep_page() -> io::Result<()> {
    let keeper = client::keeper().ok_or(io::ErrorKind::NotConnected)?;
    keeper.ask(&Request::KeepPage)?;
    Ok(())
}

/// Has the keeper listen at the address at which the command line has a page served; `None` without
/// a keeper.
pub fn listen() -> Option<io::Result<TcpListener>> {
    let listener = client::keeper()?.descriptor(&Request::Listen);
    Some(listener.map(TcpListener::from).map_err(io::Error::from))
}

/// Has the keeper show the page in the user's browser; returns the reason if it does not. `None`
/// without a keeper.
pub fn show(page: Page<'_>) -> Option<Result<(), String>> {
    let url = match page {
        Page::File(_) => None,
        Page::Url(url) => Some(url.to_owned()),
    };
    Some(match client::keeper()?.ask(&Request::Show(url)) {
        Ok((Reply::Bytes(reason), _)) if reason.is_empty() => Ok(()),
        Ok((Reply::Bytes(reason), _)) => Err(String::from_utf8_lossy(&reason).into_owned()),
        Ok(_) => Err(client::unexpected().to_string()),
        Err(error) => Err(error.to_string()),
    })
}
