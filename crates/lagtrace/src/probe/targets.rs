//! The addresses and ports to probe.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use lagtrace_core::observed::event::{Event, EventBody};
use lagtrace_sources::request::Request;
use lagtrace_sources::url::{Host, Url};

use super::options::{Method, Options};
use super::values::Ports;
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::lookup::{self, Family};
use crate::request::redirect::{Follow, Followed};
use crate::words;

/// The first port of `traceroute`, on which hosts rarely listen.
const UDP_PORT: u16 = 33_434;

/// An address to probe.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) address: SocketAddr,
    /// True if the user specified the port.
    pub(super) has_port: bool,
    /// The URL, if the target is probed with a request or a handshake.
    pub(super) url: Option<Url>,
    /// The request, if the target is probed with one.
    pub(super) request: Option<Request>,
    /// The time that resolving the target's name took.
    pub(super) resolved: Option<Duration>,
}

impl Options {
    /// Follows redirects from a URL on, if that is asked for; returns the last place and its request.
    ///
    /// # Errors
    /// Returns an error if the request may change something, and the user did not agree to repeat it.
    fn last_place(&self, url: Url, console: &Console) -> Result<Followed> {
        let settled = self.request.settle(self.timeout)?;
        let url = settled.url(url)?;
        let follow = Follow {
            options: &self.request,
            tls: &self.tls,
            family: Family {
                ipv4: self.ipv4,
                ipv6: self.ipv6,
            },
            timeout: self.timeout,
        };
        let consent = self.request.consent();
        let is_repeated = self.requests() > 1;
        if is_repeated || self.request.answer.location {
            consent.check_once(&settled.request, &url)?;
        }
        let followed = follow.from(url, settled.request)?;
        if !followed.steps.is_empty() {
            console.outcome("redirect", &followed.steps.join(", then "));
        }
        let how_often = match self.requests() {
            u32::MAX => "until Ctrl-C".to_owned(),
            count => words::plural(count.into(), "time"),
        };
        if is_repeated {
            consent.check(&followed.request, &followed.url, &how_often, console)?;
        }
        Ok(followed)
    }
}

impl Target {
    fn is_same(&self, other: &Self) -> bool {
        let of = |it: &Self| (it.address, it.has_port, it.url.clone());
        of(self) == of(other)
    }
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
            let mut url = options.url(text, &host, port)?;
            let port = url.as_ref().map(Url::port).or(port);
            let to = place.as_ref().map(|place| place.port).or(port);
            let mut address = SocketAddr::new(address, to.unwrap_or(UDP_PORT));
            let mut request = None;
            if let Some(first) = url.take_if(|_| options.method == Method::Http) {
                let last = options.last_place(first.clone(), console)?;
                if last.url.authority() != first.authority() && !is_local {
                    let place = options.request.way.place(&last.url)?;
                    let host = lookup::address(&place.host, family, &mut events)?;
                    address = SocketAddr::new(host, place.port);
                }
                (url, request) = (Some(last.url), Some(last.request));
            }
            let target = Target {
                address,
                has_port: port.is_some(),
                url,
                request,
                resolved: resolved.filter(|_| matches!(host, Host::Name(_))),
            };
            // A target given twice is probed once, because the answers to the two series could not
            // be distinguished.
            if !targets.iter().any(|other| target.is_same(other)) {
                targets.push(target);
            }
        }
    }
    Ok((targets, events))
}
