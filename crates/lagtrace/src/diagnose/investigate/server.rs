//! The target's program, if it runs on this host.

use std::net::TcpStream;

use lagtrace_core::observed::flow::Endpoint;
use lagtrace_sources::privilege::{HostError, NetworkNamespace};
use lagtrace_sources::socket::foreign::{Search, Server, find_server, find_server_in};

use super::{Investigation, Site};
use crate::diagnose::{Host, Options};
use crate::failure::{Failure, Result};

/// The step's name.
const STEP: &str = "server";

impl Investigation<'_> {
    /// Searches for the targets' programs on this host.
    pub(super) fn find_servers(&mut self) -> Result<()> {
        for index in 0..self.sites.len() {
            let site = &self.sites[index];
            let connection = connect(site, self.options.load.timeout);
            let target = site.target.endpoint();
            let search = search(&self.options.host, target, connection.as_ref())?;
            drop(connection);
            let id = site.target.id;
            match &search.server {
                Some(server) => self.say(STEP, id, &describe(server)),
                None => self.say(STEP, id, &nowhere(&self.options.host)),
            }
            for note in search.notes {
                self.console.detail(&note.text);
                self.feed.note(note);
            }
            self.sites[index].server = search.server;
        }
        Ok(())
    }
}

/// Returns an error, before anything is measured, if the namespace that the user specified does not
/// exist.
pub(super) fn check_place(options: &Options) -> Result<()> {
    named(&options.host).map(|_| ())
}

/// Returns the namespace that the user specified, if any.
fn named(host: &Host) -> Result<Option<NetworkNamespace>> {
    let refused = |error: HostError, hint: &str| Failure::from(error).hint(hint);
    if let Some(place) = &host.server_netns {
        let hint = "`ip netns list` lists the names; a path looks like /proc/PID/ns/net";
        let namespace = NetworkNamespace::at(place);
        return namespace.map(Some).map_err(|error| refused(error, hint));
    }
    let Some(pid) = host.server_pid else {
        return Ok(None);
    };
    let hint = "use the PID in this host's own namespace, from `pgrep NAME`";
    let namespace = NetworkNamespace::of(pid);
    namespace.map(Some).map_err(|error| refused(error, hint))
}

fn search(host: &Host, target: Endpoint, connection: Option<&TcpStream>) -> Result<Search> {
    Ok(match named(host)? {
        Some(namespace) => find_server_in(namespace, target, connection),
        None => find_server(target, connection),
    })
}

/// Explains that the remote end of the client's connection was not found.
fn nowhere(host: &Host) -> String {
    match (&host.server_netns, host.server_pid) {
        (Some(place), _) => format!("no connection of ours ends in the network namespace {place}"),
        (_, Some(pid)) => {
            format!("no connection of ours ends in process {pid}'s network namespace")
        }
        (None, None) => "not on this host".to_owned(),
    }
}

/// Connects to the site, because a connection makes the search exact. The connection is closed
/// before anything is measured.
fn connect(site: &Site, timeout: std::time::Duration) -> Option<TcpStream> {
    let address = site.is_open.then_some(site.target.address)?;
    TcpStream::connect_timeout(&address, timeout).ok()
}

fn describe(server: &Server) -> String {
    let place = if server.namespace().is_own() {
        "on this host"
    } else {
        "on this host, in another network namespace"
    };
    match server.processes() {
        [] => format!("{place}; its process is not accessible"),
        [first, rest @ ..] => {
            let more = match rest.len() {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            format!("{}[{}]{more}, {place}", first.name, first.pid)
        }
    }
}
