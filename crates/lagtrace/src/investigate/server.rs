//! The target's program, where it runs on this host.

use std::net::TcpStream;

use lagtrace_core::flow::Endpoint;
use lagtrace_sources::socket::foreign::{OwnFlow, Server, find_server};

use super::{Investigation, Site};
use crate::failure::Result;

/// The step's name.
const STEP: &str = "server";

impl Investigation<'_> {
    /// Looks for the targets' programs on this host.
    pub(super) fn find_servers(&mut self) -> Result<()> {
        for index in 0..self.sites.len() {
            let site = &self.sites[index];
            let (connection, flow) = connect(site, self.options.load.timeout);
            let search = find_server(site.target.endpoint(), flow);
            drop(connection);
            let id = site.target.id;
            match &search.server {
                Some(server) => self.say(STEP, id, &describe(server)),
                None => self.say(STEP, id, "not on this host"),
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

/// A connection makes the search exact. It is closed before anything is measured.
fn connect(site: &Site, timeout: std::time::Duration) -> (Option<TcpStream>, Option<OwnFlow>) {
    if !site.is_open {
        return (None, None);
    }
    let stream = TcpStream::connect_timeout(&site.target.address, timeout).ok();
    let flow = stream.as_ref().and_then(|stream| {
        Some(OwnFlow {
            local: Endpoint::from(stream.local_addr().ok()?),
            remote: Endpoint::from(stream.peer_addr().ok()?),
        })
    });
    (stream, flow)
}

fn describe(server: &Server) -> String {
    let place = if server.namespace().is_own() {
        "on this host"
    } else {
        "on this host, in another network namespace"
    };
    match server.processes() {
        [] => format!("{place}; its process may not be looked into"),
        [first, rest @ ..] => {
            let more = match rest.len() {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            format!("{}[{}]{more}, {place}", first.name, first.pid)
        }
    }
}
