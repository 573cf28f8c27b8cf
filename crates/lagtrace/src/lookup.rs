//! Resolution of the target that the user specifies to an address.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use lagtrace_core::observed::event::Event;
use lagtrace_sources::resolve::resolve;
use lagtrace_sources::url::{Host, Url};

use crate::failure::{Failure, Result};

/// The timeout of the system's resolver for a name.
const RESOLVER_TIMEOUT: Duration = Duration::from_secs(5);

/// The versions of IP that may be used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family {
    /// True for IPv4 only.
    pub(crate) ipv4: bool,
    /// True for IPv6 only.
    pub(crate) ipv6: bool,
}

/// Returns the host's first address of the family, and adds the events of the lookup to `events`.
pub(crate) fn address(host: &Host, family: Family, events: &mut Vec<Event>) -> Result<IpAddr> {
    let is_wanted = |address: &IpAddr| match address {
        IpAddr::V4(_) => !family.ipv6,
        IpAddr::V6(_) => !family.ipv4,
    };
    let found = addresses(host, events)?.into_iter().find(is_wanted);
    found.ok_or_else(|| {
        let told = format!("`{host}` has no address of the requested IP version");
        Failure::new(told).hint("leave out -4 and -6")
    })
}

/// Returns all of the host's addresses.
pub(crate) fn addresses(host: &Host, events: &mut Vec<Event>) -> Result<Vec<IpAddr>> {
    let resolution = resolve(host, RESOLVER_TIMEOUT, |event| events.push(event));
    if let Some(why) = resolution.failure {
        let told = format!("cannot resolve `{}`: {why}", resolution.name);
        let hint = "check the name's spelling, and the resolver with `getent ahosts NAME`";
        return Err(Failure::new(told).hint(hint));
    }
    Ok(resolution.addresses)
}

/// Parses `HOST`, `HOST:PORT`, `ADDRESS`, `[ADDRESS]:PORT` or a URL, whose path is ignored.
pub(crate) fn parse(text: &str) -> Result<(Host, Option<u16>)> {
    read(text).ok_or_else(|| {
        let told = format!("`{text}` is not a target");
        Failure::new(told).hint("give it as HOST, HOST:PORT, [IPV6]:PORT or a URL")
    })
}

fn read(text: &str) -> Option<(Host, Option<u16>)> {
    let (default, rest) = match text.split_once("://") {
        Some(("http", rest)) => (Some(80), rest),
        Some(("https", rest)) => (Some(443), rest),
        Some(_) => return None,
        None => (None, text),
    };
    let authority = rest.split(['/', '?', '#']).next()?;
    if let Ok(address) = authority.parse::<IpAddr>() {
        return Some((Host::Address(address), default));
    }
    if let Ok(address) = authority.parse::<SocketAddr>() {
        let port = Some(address.port()).filter(|port| *port > 0)?;
        return Some((Host::Address(address.ip()), Some(port)));
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => (host, Some(port.parse::<u16>().ok()?)),
        _ => (authority, default),
    };
    if host.contains('@') || port == Some(0) {
        return None;
    }
    let url: Url = format!("http://{host}/").parse().ok()?;
    Some((url.host().clone(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_told_apart() {
        for (text, host, port) in [
            ("10.0.0.5", "10.0.0.5", None),
            ("10.0.0.5:80", "10.0.0.5", Some(80)),
            ("::1", "::1", None),
            ("[::1]", "::1", None),
            ("[::1]:53", "::1", Some(53)),
            ("shop.example", "shop.example", None),
            ("shop.example:8080", "shop.example", Some(8080)),
            ("shop.example:8080/path:9", "shop.example", Some(8080)),
            ("http://shop.example/", "shop.example", Some(80)),
            ("https://shop.example", "shop.example", Some(443)),
            ("https://shop.example:8443/a?b", "shop.example", Some(8443)),
            ("https://[::1]/", "::1", Some(443)),
        ] {
            let (found, its) = parse(text).expect(text);
            let found = found.to_string();
            let found = found.trim_matches(['[', ']']);
            assert_eq!((found, its), (host, port), "{text}");
        }
    }

    #[test]
    fn what_names_no_target_is_refused() {
        for text in [
            "", ":80", "a:0", "a:70000", "a:b", "a b", "ftp://a/", "me@a", "[::1]:0",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
