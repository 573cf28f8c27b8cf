//! The servers that share the address at which a request arrives, and the `listen` directive that
//! created the accepting socket.
//!
//! Implemented after nginx's `ngx_http_core_listen()` (`src/http/ngx_http_core_module.c`) and
//! `ngx_http_add_listen()` (`src/http/ngx_http.c`).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use super::tree::Directive;

/// The port of a `listen` that does not specify one.
const DEFAULT_PORT: u16 = 80;

/// The address that a `listen` binds to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListenAddress {
    /// TCP addresses and ports.
    Inet {
        host: ListenHost,
        ports: RangeInclusive<u16>,
    },
    /// A Unix socket, or UDP for QUIC. No TCP connection arrives there.
    Other,
    /// Text that nginx would reject.
    Invalid,
}

/// The host part of a `listen`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListenHost {
    /// An IP address. The unspecified address means all addresses of its family.
    Address(IpAddr),
    /// A name that nginx resolved when it started.
    Name(String),
}

/// Reads the arguments of `listen`.
pub(crate) fn parse(directive: &Directive) -> ListenAddress {
    let Some(first) = directive.args.first() else {
        return ListenAddress::Invalid;
    };
    let text = first.text();
    if text.starts_with("unix:") || has_option(directive, "quic") {
        return ListenAddress::Other;
    }
    parse_inet(&text).map_or(ListenAddress::Invalid, |(host, ports)| {
        ListenAddress::Inet { host, ports }
    })
}

fn parse_inet(text: &str) -> Option<(ListenHost, RangeInclusive<u16>)> {
    let default_ports = DEFAULT_PORT..=DEFAULT_PORT;
    if let Some(bracketed) = text.strip_prefix('[') {
        let (address, rest) = bracketed.split_once(']')?;
        let host = ListenHost::Address(IpAddr::V6(address.parse().ok()?));
        return match rest.strip_prefix(':') {
            Some(ports) => Some((host, parse_ports(ports)?)),
            None => rest.is_empty().then_some((host, default_ports)),
        };
    }
    let any = ListenHost::Address(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    match text.split_once(':') {
        Some((host, ports)) => Some((parse_host(host)?, parse_ports(ports)?)),
        None => match parse_ports(text) {
            Some(ports) => Some((any, ports)),
            None => Some((parse_host(text)?, default_ports)),
        },
    }
}

fn parse_host(text: &str) -> Option<ListenHost> {
    match text {
        "" => None,
        "*" => Some(ListenHost::Address(IpAddr::V4(Ipv4Addr::UNSPECIFIED))),
        _ => Some(text.parse().map_or_else(
            |_| ListenHost::Name(text.to_ascii_lowercase()),
            |address| ListenHost::Address(IpAddr::V4(address)),
        )),
    }
}

fn parse_ports(text: &str) -> Option<RangeInclusive<u16>> {
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port > 0);
    match text.split_once('-') {
        Some((first, last)) => Some(port(first)?..=port(last)?),
        None => port(text).map(|port| port..=port),
    }
}

/// Returns true if `listen` has this option, with or without a value.
pub(crate) fn has_option(directive: &Directive, name: &str) -> bool {
    option(directive, name).is_some()
}

/// Returns the value of a `listen` option; empty for an option without a value.
pub(crate) fn option(directive: &Directive, name: &str) -> Option<String> {
    directive.args.iter().skip(1).find_map(|word| {
        let text = word.text();
        let rest = text.strip_prefix(name)?;
        match rest.strip_prefix('=') {
            Some(value) => Some(value.to_string()),
            None => rest.is_empty().then(String::new),
        }
    })
}

/// The `listen` options that give an address its own socket.
const BINDING_OPTIONS: [&str; 12] = [
    "bind",
    "setfib",
    "fastopen",
    "backlog",
    "rcvbuf",
    "sndbuf",
    "accept_filter",
    "deferred",
    "ipv6only",
    "reuseport",
    "so_keepalive",
    "multipath",
];

/// An address at one port, with the servers that listen there.
#[derive(Clone, Debug)]
pub(crate) struct Address<'c> {
    pub(crate) ip: IpAddr,
    /// Indices of the servers in order of declaration.
    pub(crate) servers: Vec<usize>,
    /// The server for hosts that match no server's name.
    pub(crate) default_server: usize,
    /// The `listen` whose options apply; `None` if the servers here have no `listen`.
    pub(crate) options: Option<&'c Directive>,
    /// All `listen` directives of this address.
    pub(crate) listens: Vec<&'c Directive>,
    /// True if one of the `listen` directives sets socket options, which gives the address its own
    /// socket.
    has_own_socket: bool,
}

/// The addresses that have a listening socket at one port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Port<'c> {
    pub(crate) addresses: Vec<Address<'c>>,
    /// The `listen` directives whose host name could not be resolved.
    pub(crate) unresolved: Vec<&'c Directive>,
    /// Index of each IP address in `addresses`.
    places: HashMap<IpAddr, usize>,
}

impl<'c> Port<'c> {
    /// Collects the `listen` directives of all servers for a port. `resolve` returns the addresses
    /// of a host name. `implied` is the port of a server without `listen`.
    pub(crate) fn collect(
        servers: &[&'c Directive],
        port: u16,
        implied: u16,
        resolve: &dyn Fn(&str) -> Vec<IpAddr>,
    ) -> Self {
        let mut found = Self::default();
        for (index, server) in servers.iter().enumerate() {
            let mut has_listen = false;
            for listen in server.lines("listen") {
                has_listen = true;
                match parse(listen) {
                    ListenAddress::Inet { host, ports } if ports.contains(&port) => {
                        found.add_host(index, listen, &host, resolve);
                    }
                    _ => {}
                }
            }
            if !has_listen && port == implied {
                found.add(index, None, IpAddr::V4(Ipv4Addr::UNSPECIFIED));
            }
        }
        found
    }

    fn add_host(
        &mut self,
        server: usize,
        listen: &'c Directive,
        host: &ListenHost,
        resolve: &dyn Fn(&str) -> Vec<IpAddr>,
    ) {
        match host {
            ListenHost::Address(ip) => self.add(server, Some(listen), *ip),
            ListenHost::Name(name) => {
                let addresses = resolve(name);
                if addresses.is_empty() {
                    self.unresolved.push(listen);
                }
                for ip in addresses {
                    self.add(server, Some(listen), ip);
                }
            }
        }
    }

    fn add(&mut self, server: usize, listen: Option<&'c Directive>, ip: IpAddr) {
        let sets_options = listen.is_some_and(|listen| {
            BINDING_OPTIONS
                .iter()
                .any(|option| has_option(listen, option))
        });
        let is_default = listen.is_some_and(|listen| {
            has_option(listen, "default_server") || has_option(listen, "default")
        });
        let place = *self.places.entry(ip).or_insert(self.addresses.len());
        if place == self.addresses.len() {
            self.addresses.push(Address {
                ip,
                servers: Vec::new(),
                default_server: server,
                options: listen,
                listens: Vec::new(),
                has_own_socket: false,
            });
        }
        let known = &mut self.addresses[place];
        known.listens.extend(listen);
        if known.servers.last() != Some(&server) {
            known.servers.push(server);
        }
        if is_default {
            known.default_server = server;
        }
        if sets_options {
            known.options = listen;
            known.has_own_socket = true;
        }
    }

    /// Returns the address that accepts a connection to `ip`. The order of precedence is: the exact
    /// address, the wildcard of the address family, an IPv6 wildcard that also accepts IPv4
    /// (`ipv6only=off`).
    pub(crate) fn address(&self, ip: IpAddr) -> Option<&Address<'c>> {
        let ip = ip.to_canonical();
        self.exactly(ip)
            .or_else(|| self.exactly(wildcard_of(ip)))
            .or_else(|| {
                let both = self.exactly(IpAddr::V6(Ipv6Addr::UNSPECIFIED))?;
                let takes_ipv4 = both
                    .options
                    .and_then(|listen| option(listen, "ipv6only"))
                    .is_some_and(|value| value == "off");
                takes_ipv4.then_some(both)
            })
    }

    /// Returns the `listen` whose options apply to the accepting socket. An address without socket
    /// options of its own shares the wildcard's socket.
    pub(crate) fn socket(&self, address: &Address<'c>) -> Option<&'c Directive> {
        let wildcard = self.exactly(wildcard_of(address.ip));
        match wildcard {
            Some(wildcard) if !address.has_own_socket => wildcard.options,
            _ => address.options,
        }
    }

    fn exactly(&self, ip: IpAddr) -> Option<&Address<'c>> {
        self.addresses.get(*self.places.get(&ip)?)
    }
}

fn wildcard_of(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}
