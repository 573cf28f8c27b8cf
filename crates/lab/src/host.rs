//! The lab's hosts: their addresses, and ways to run programs on them.

pub(crate) mod address;
pub(crate) mod files;
pub(crate) mod firewall;
pub(crate) mod link;
mod spec;

use std::ffi::OsStr;
use std::io;
use std::net::IpAddr;
use std::process::Command;

use self::address::Addresses;
pub use self::spec::{HostSpec, Shaper};
use crate::error::Error;
use crate::machine::namespace::{Namespace, before_exec};
use crate::machine::tool;
use crate::path::PathSpec;
use crate::side::{Family, Side};
use rustix::process::Signal;

/// A host of the lab: a network namespace with its own loopback, device, addresses and ports.
/// Processes and files are those of the machine, except the files that the scenario gives to the
/// host: see [`Host::command`].
#[derive(Clone, Debug)]
pub struct Host {
    side: Side,
    namespace: Namespace,
    addresses: Addresses,
    interface: &'static str,
}

impl Host {
    /// Returns one side of a path. On loopback, both sides are one host under two names.
    pub(crate) fn new(side: Side, namespace: Namespace, path: &PathSpec) -> Self {
        Self {
            side,
            namespace,
            addresses: Addresses::of(path, side),
            interface: link::interface(path),
        }
    }

    /// Returns the side of the path that the host is on.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Returns the name of the host's network namespace, for `ip netns exec`.
    pub fn namespace(&self) -> &str {
        self.namespace.name()
    }

    /// Returns the name of the host's device towards the other host.
    pub fn interface(&self) -> &'static str {
        self.interface
    }

    /// Returns the host's address.
    pub fn address(&self, family: Family) -> IpAddr {
        match family {
            Family::V4 => self.addresses.v4.into(),
            Family::V6 => self.addresses.v6.into(),
        }
    }

    /// Returns a command that will run on this host. A bare name is searched in `PATH` and in the
    /// system's folders. The command sees the host's own files (such as `/etc/resolv.conf`) in
    /// place of the machine's. Its process gets SIGTERM when the thread that starts it ends.
    ///
    /// # Errors
    /// [`Error::Namespace`] if the lab is down.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command, Error> {
        let mut command = match program.as_ref().to_str() {
            Some(name) if !name.contains('/') => tool::command(name),
            _ => Command::new(program),
        };
        self.place(&mut command)?;
        Ok(command)
    }

    /// Makes a command run on this host and end with the thread that starts it.
    pub(crate) fn place(&self, command: &mut Command) -> Result<(), Error> {
        self.namespace.enter(command)?;
        before_exec::die_with_parent(command, Signal::TERM);
        Ok(())
    }

    /// Runs `work` on this host, on a separate thread. Sockets that `work` opens belong to the
    /// host, even after they are returned. Files are those of the machine, so names may be resolved
    /// differently than by commands on the host.
    ///
    /// # Errors
    /// [`Error::Namespace`], with the cause if `work` failed.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> Result<T, Error> {
        self.namespace.within("run something", work)
    }
}
