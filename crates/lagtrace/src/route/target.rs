//! From what the user names to an address.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use lagtrace_core::event::Event;
use lagtrace_sources::resolve::resolve;
use lagtrace_sources::url::{Host, Url};

use super::Options;
use crate::failure::{Failure, Result};

/// How long the system's resolver may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reads `HOST`, `HOST:PORT`, `ADDRESS` or `[ADDRESS]:PORT`.
pub(super) fn parse(text: &str) -> Result<(Host, Option<u16>)> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok((Host::Address(address), None));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok((Host::Address(address.ip()), Some(address.port())));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') => (host, Some(port)),
        _ => (text, None),
    };
    let no_target = || {
        let told = format!("`{text}` names no target");
        Failure::new(told).hint("give a host or an address, with :PORT if you like")
    };
    let is_plain = !host.contains(['/', '?', '#', '@']);
    let url: Option<Url> = is_plain
        .then(|| format!("http://{host}/").parse().ok())
        .flatten();
    let url = url.ok_or_else(no_target)?;
    let port = port.map(|port| port.parse().ok().filter(|&port: &u16| port > 0));
    match port {
        Some(None) => Err(no_target()),
        Some(port) => Ok((url.host().clone(), port)),
        None => Ok((url.host().clone(), None)),
    }
}

/// The address to trace, of the family asked for.
pub(super) fn address(options: &Options, host: &Host, sink: impl FnMut(Event)) -> Result<IpAddr> {
    let resolution = resolve(host, TIMEOUT, sink);
    if let Some(why) = &resolution.failure {
        let told = format!("cannot resolve `{}`: {why}", resolution.name);
        let hint = "check the name's spelling, and the resolver with `getent ahosts NAME`";
        return Err(Failure::new(told).hint(hint));
    }
    let is_meant = |address: &&IpAddr| match address {
        IpAddr::V4(_) => !options.ipv6,
        IpAddr::V6(_) => !options.ipv4,
    };
    resolution
        .addresses
        .iter()
        .find(is_meant)
        .copied()
        .ok_or_else(|| {
            let told = format!(
                "`{}` has no address of the version of IP asked for",
                resolution.name
            );
            Failure::new(told).hint("leave out -4 and -6")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_with_and_without_ports() {
        for (text, host, port) in [
            ("shop.example", "shop.example", None),
            ("shop.example:443", "shop.example", Some(443)),
            ("192.0.2.1", "192.0.2.1", None),
            ("192.0.2.1:80", "192.0.2.1", Some(80)),
            ("2001:db8::1", "2001:db8::1", None),
            ("[2001:db8::1]:443", "2001:db8::1", Some(443)),
        ] {
            let (found, its) = parse(text).expect(text);
            let found = found.to_string();
            assert_eq!(
                (found.trim_matches(['[', ']']), its),
                (host, port),
                "{text}"
            );
        }
        for text in [
            "",
            ":80",
            "a:0",
            "a:70000",
            "a:b",
            "http://a/",
            "a/b",
            "a b",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
