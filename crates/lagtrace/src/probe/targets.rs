//! Which addresses and ports to probe.

use std::net::SocketAddr;

use lagtrace_core::event::Event;
use lagtrace_sources::probe::SourcePorts;
use lagtrace_sources::url::Host;

use super::{Method, Options};
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::lookup::{self, Family};

/// Ports of a list.
const MAX_PORTS: usize = 1024;
/// Where `traceroute` begins: hardly anybody listens there.
const UDP_PORT: u16 = 33_434;

/// An address to probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    /// Whether somebody named the port.
    pub(super) has_port: bool,
}

/// A list of ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ports(Vec<u16>);

/// The targets that the options name, and what was observed on the way.
pub(super) fn find(options: &Options, console: &Console) -> Result<(Vec<Target>, Vec<Event>)> {
    let mut targets = Vec::new();
    let mut events = Vec::new();
    for text in &options.targets {
        let (host, port) = lookup::parse(text)?;
        let family = Family {
            ipv4: options.ipv4,
            ipv6: options.ipv6,
        };
        let address = lookup::address(&host, family, &mut events)?;
        if let Host::Name(name) = &host {
            console.outcome("resolve", &format!("{name} is {address}"));
        }
        let ports: Vec<Option<u16>> = match (port, &options.port) {
            (Some(port), _) => vec![Some(port)],
            (None, Some(Ports(ports))) => ports.iter().copied().map(Some).collect(),
            (None, None) => vec![None],
        };
        for port in ports {
            let needs_port = matches!(options.method, Method::Syn | Method::Connect);
            if port.is_none() && needs_port {
                let told = format!("`{text}` names no port, and TCP has to have one");
                return Err(Failure::new(told).hint("give it as HOST:PORT or with -p"));
            }
            targets.push(Target {
                address: SocketAddr::new(address, port.unwrap_or(UDP_PORT)),
                has_port: port.is_some(),
            });
        }
    }
    Ok((targets, events))
}

/// Reads a list of ports and ranges of them.
pub(super) fn parse_ports(text: &str) -> std::result::Result<Ports, String> {
    let mut ports = Vec::new();
    for part in text.split(',') {
        let (first, last) = range(part)?;
        ports.extend(first..=last);
        if ports.len() > MAX_PORTS {
            return Err(format!("names more than {MAX_PORTS} ports"));
        }
    }
    Ok(Ports(ports))
}

/// Reads a port to send from, or a range of them.
pub(super) fn parse_source_ports(text: &str) -> std::result::Result<SourcePorts, String> {
    let (first, last) = range(text)?;
    Ok(SourcePorts::Range { first, last })
}

fn range(text: &str) -> std::result::Result<(u16, u16), String> {
    let port = |text: &str| {
        let port = text.trim().parse::<u16>().ok();
        port.filter(|port| *port > 0)
            .ok_or_else(|| format!("`{text}` is no port: give 1 to 65535, or FIRST-LAST"))
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (port(first)?, port(last)?) {
        (first, last) if first > last => Err(format!("`{text}` ends before it begins")),
        ends => Ok(ends),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_ports_are_read() {
        let ports = |text| parse_ports(text).map(|Ports(ports)| ports);
        assert_eq!(
            ports("80,443,8000-8002"),
            Ok(vec![80, 443, 8000, 8001, 8002])
        );
        for wrong in ["", "80,", "0", "65536", "9-8", "http", "1-2000"] {
            assert!(ports(wrong).is_err(), "{wrong}");
        }
        let expected = SourcePorts::Range { first: 7, last: 9 };
        assert_eq!(parse_source_ports("7-9"), Ok(expected));
    }
}
