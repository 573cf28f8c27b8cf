//! The addresses and ports to probe.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use lagtrace_core::observed::event::{Event, EventBody};
use lagtrace_sources::url::{Host, Url};

use super::options::{Method, Options};
use super::values::Ports;
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::lookup::{self, Family};

/// The first port of `traceroute`, on which hosts rarely listen.
const UDP_PORT: u16 = 33_434;

/// An address to probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    /// True if the user specified the port.
    pub(super) has_port: bool,
    /// The URL, if the target is probed with a request or a handshake.
    pub(super) url: Option<Url>,
    /// The time that resolving the target's name took.
    pub(super) resolved: Option<Duration>,
}

/// Returns the targets in the options, and the events of their resolution.
pub(super) fn find(options: &Options, console: &Console) -> Result<(Vec<Target>, Vec<Event>)> {
    let mut targets = Vec::new();
    let mut events = Vec::new();
    for text in &options.targets {
        let (host, port) = lookup::parse(text)?;
        let family = Family {
            ipv4: options.ipv4,
            ipv6: options.ipv6,
        };
        let place = options.place(text)?;
        let is_local = options.request.way.unix_socket.is_some();
        let address = match (&place, is_local) {
            (_, true) => Ipv4Addr::LOCALHOST.into(),
            (Some(place), _) => lookup::address(&place.host, family, &mut events)?,
            (None, _) => lookup::address(&host, family, &mut events)?,
        };
        let resolved = events.last().and_then(|event| match &event.body {
            EventBody::Resolution(it) => Some(it.took),
            _ => None,
        });
        if let Host::Name(name) = &host {
            console.outcome("resolve", &format!("{name} is {address}"));
        }
        let ports: Vec<Option<u16>> = match (port, &options.port) {
            (Some(port), _) => vec![Some(port)],
            (None, Some(Ports(ports))) => ports.iter().copied().map(Some).collect(),
            (None, None) => vec![None],
        };
        for port in ports {
            let needs_port = matches!(options.method, Method::Syn | Method::Connect)
                || options.packet.has_flags();
            if port.is_none() && needs_port {
                let told = format!("`{text}` has no port, and TCP needs one");
                return Err(Failure::new(told).hint("give HOST:PORT, or -p PORT"));
            }
            // ICMP echo has no ports.
            let port = port.filter(|_| options.method != Method::Icmp);
            let url = options.url(text, &host, port)?;
            let port = url.as_ref().map(Url::port).or(port);
            let target = Target {
                address: SocketAddr::new(
                    address,
                    place
                        .as_ref()
                        .map(|place| place.port)
                        .or(port)
                        .unwrap_or(UDP_PORT),
                ),
                has_port: port.is_some(),
                url,
                resolved: resolved.filter(|_| matches!(host, Host::Name(_))),
            };
            // A target given twice is probed once, because the answers to the two series could not
            // be distinguished.
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
    }
    Ok((targets, events))
}
