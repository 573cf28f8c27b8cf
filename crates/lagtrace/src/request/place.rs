//! The place to connect to, if it is not that of the URL, and the protocol to speak there.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use lagtrace_sources::url::{Host, Url};

use crate::failure::{Failure, Result};

/// Options for the way to the service.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Request")]
#[group(skip)]
pub(crate) struct Way {
    /// Connect to ADDRESS for this host and port of a URL
    #[arg(long, value_name = "HOST:PORT:ADDRESS")]
    pub(super) resolve: Vec<String>,
    /// Connect to HOST2:PORT2 for this host and port of a URL; each may be empty
    #[arg(long, value_name = "HOST1:PORT1:HOST2:PORT2")]
    pub(super) connect_to: Vec<String>,
    /// Connect to the Unix socket PATH; the URL's host appears only in the requests
    #[arg(long, value_name = "PATH", conflicts_with_all = ["ipv4", "ipv6", "resolve", "connect_to"])]
    pub(crate) unix_socket: Option<PathBuf>,
    /// Use HTTP/2: negotiated within TLS (ALPN), or with prior knowledge in clear text
    #[arg(long, alias = "http2-prior-knowledge")]
    pub(crate) http2: bool,
    /// Refuses the option by name.
    #[arg(short = 'x', long, hide = true, value_name = "URL")]
    pub(super) proxy: Option<String>,
}

/// The place to connect to for a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) host: Host,
    pub(crate) port: u16,
}

impl Way {
    /// Returns true if the request is sent by HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        self.http2
    }

    /// Returns the ports that are connected to, in addition to those of URLs.
    pub(super) fn ports(&self) -> impl Iterator<Item = u16> {
        let last = |text: &String| split(text).last().and_then(|port| port.parse().ok());
        self.connect_to.iter().filter_map(last)
    }

    /// Returns the place to connect to for `url`.
    ///
    /// # Errors
    /// The option that is not in its notation.
    pub(crate) fn place(&self, url: &Url) -> Result<Place> {
        if self.proxy.is_some() {
            let told = "--proxy (-x) is not supported: lagtrace measures the path to the service";
            let hint = "measure without the proxy, or give the proxy's own URL";
            return Err(Failure::new(told).hint(hint));
        }
        let mut place = Place {
            host: url.host().clone(),
            port: url.port(),
        };
        for text in &self.connect_to {
            let wrong = || {
                let told = format!("`{text}` of --connect-to is not HOST1:PORT1:HOST2:PORT2");
                Failure::new(told)
                    .hint("leave a part empty for any host, any port, or the same one")
            };
            let parts = split(text);
            let [host, port, to_host, to_port] = parts.as_slice() else {
                return Err(wrong());
            };
            if !is_meant(url, host, port) {
                continue;
            }
            if !to_host.is_empty() {
                place.host = host_of(to_host).ok_or_else(wrong)?;
            }
            if !to_port.is_empty() {
                place.port = to_port
                    .parse()
                    .ok()
                    .filter(|port| *port > 0)
                    .ok_or_else(wrong)?;
            }
            return Ok(place);
        }
        for text in &self.resolve {
            let wrong = || {
                let told = format!("`{text}` of --resolve is not HOST:PORT:ADDRESS");
                Failure::new(told).hint("give an IP address, as in shop.example:443:10.0.0.5")
            };
            let mut parts = text.trim_start_matches('+').splitn(3, ':');
            let (host, port) = (parts.next(), parts.next());
            let (Some(host), Some(port), Some(addresses)) = (host, port, parts.next()) else {
                return Err(wrong());
            };
            let first = addresses.split(',').next().unwrap_or_default();
            let address: IpAddr = first
                .trim_matches(['[', ']'])
                .parse()
                .map_err(|_| wrong())?;
            if is_meant(url, host, port) {
                place.host = Host::Address(address);
            }
        }
        Ok(place)
    }
}

/// Returns true if a host and a port are those of `url`; an empty one, and `*`, stand for any.
fn is_meant(url: &Url, host: &str, port: &str) -> bool {
    let own = url.host().to_string();
    let own = own.trim_matches(['[', ']']);
    let is_host = host.is_empty() || host == "*" || host.eq_ignore_ascii_case(own);
    is_host && (port.is_empty() || port.parse() == Ok(url.port()))
}

/// Splits at colons outside of brackets.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    text.split(|c: char| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ':' && depth == 0
    })
    .map(|part| part.trim_matches(['[', ']']))
    .collect()
}

fn host_of(text: &str) -> Option<Host> {
    if let Ok(address) = text.parse() {
        return Some(Host::Address(address));
    }
    let url: Url = format!("http://{text}/").parse().ok()?;
    Some(url.host().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str, resolve: &[&str], connect_to: &[&str]) -> Result<String> {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let way = Way {
            resolve: texts(resolve),
            connect_to: texts(connect_to),
            ..Way::default()
        };
        let place = way.place(&url.parse().expect("a URL"))?;
        Ok(format!("{} {}", place.host, place.port))
    }

    #[test]
    fn places_are_those_of_curl() {
        let url = "https://shop.example/";
        for (resolve, connect_to, want) in [
            (&[][..], &[][..], "shop.example 443"),
            (&["shop.example:443:10.0.0.5"], &[], "10.0.0.5 443"),
            (&["+*:443:[2001:db8::1],10.0.0.1"], &[], "[2001:db8::1] 443"),
            (
                &["shop.example:80:10.0.0.5", "other:443:10.0.0.6"],
                &[],
                "shop.example 443",
            ),
            (&[], &["::back.example:8443"], "back.example 8443"),
            (&[], &["shop.example:443::8443"], "shop.example 8443"),
            (&[], &["::[::1]:"], "[::1] 443"),
            (&[], &["other::x:1", "SHOP.example::y:2"], "y 2"),
        ] {
            assert_eq!(place(url, resolve, connect_to).expect(want), want);
        }
        for (resolve, connect_to) in [
            (&["shop.example:443"][..], &[][..]),
            (&["shop.example:443:name"], &[]),
            (&[], &["a:b:c"]),
            (&[], &["::x:70000"]),
        ] {
            assert!(
                place(url, resolve, connect_to).is_err(),
                "{resolve:?} {connect_to:?}"
            );
        }
    }
}
