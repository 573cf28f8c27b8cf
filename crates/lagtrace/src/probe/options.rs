//! The options of `lagtrace probe`.

use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use lagtrace_sources::probe::LEAST_INTERVAL;
use lagtrace_sources::tls::Carried;
use lagtrace_sources::url::{Host, Url};

use super::loaded::Loaded;
use super::packet::{Packet, RequestPath};
use super::values::{self, Ports};
use crate::confinement::Needs;
use crate::duration;
use crate::failure::Result;
use crate::request::{self, Place};
use crate::tls::Tls;

/// The options of `lagtrace probe`.
#[derive(Clone, Debug, Args)]
#[command(mut_arg("head", |head| head.short(None)))]
#[command(after_help = "\
A SYN from a raw socket (CAP_NET_RAW) is the most precise probe: the kernel
timestamps the SYN and its answer, so the time is right even if this host is
busy. Without CAP_NET_RAW, lagtrace uses connect(2), whose round trip the
kernel measures too. A target without a port is probed with ICMP echo,
or with UDP to port 33434 where ICMP is not permitted.

An answer that comes after --timeout counts as late, not as lost. Handshakes
and requests are sequential, --interval apart, and end at the timeout.

Examples:
  lagtrace probe shop.example:443
  lagtrace probe shop.example -p 80,443,8000-8010 -c 3
  lagtrace probe 10.0.0.5 -c 0 -i 1s                     like ping
  sudo lagtrace probe 10.0.0.5:80 -s 40000-40015 -c 160  every link of a path
  sudo lagtrace probe 10.0.0.5:80 --matrix               is there a filter?
  lagtrace probe 10.0.0.5 --size 1200-1472/8             which sizes get through
  lagtrace probe [2001:db8::7]:53 --method udp --size 12
  lagtrace probe shop.example -m tls                     handshakes, full and resumed
  lagtrace probe https://shop.example/cart -m http       where the time of a request goes
  lagtrace probe --from-curl @copied.txt                 of a request copied from a browser
  lagtrace probe 10.0.0.5:80 --loaded http://10.0.0.5/   where queues are
  lagtrace probe 10.0.0.5:80 --format ndjson | jq .rtt_ns

Coming from hping3 and ping:
  hping3 -S -p 80 HOST     probe HOST:80            -i u10000     -i 10ms
  hping3 -2 -p 53 HOST     probe HOST:53 -m udp     -s 5000 -k    -s 5000
  hping3 -1 HOST, ping     probe HOST               -d, -s (ping) --size
  hping3 -F -P -U -p 80    probe HOST:80 --flags FPU  -y, -M do   --dont-fragment
  nping --tcp-connect      probe HOST:80 -m connect -c, -t, -o    -c, --ttl, --tos")]
pub(crate) struct Options {
    // No doc comment: rustdoc would take the brackets for a link.
    #[arg(help = "Hosts, HOST[:PORT], [IPV6]:PORT or a URL")]
    #[arg(required_unless_present = "from_curl", value_name = "TARGET")]
    pub(super) targets: Vec<String>,
    /// Ports for targets that name none, for example 80,443,8000-8010
    #[arg(short, long, value_name = "PORTS", value_parser = values::parse_ports)]
    pub(super) port: Option<Ports>,
    /// Kind of probe
    #[arg(short, long, value_enum, default_value_t, value_name = "METHOD")]
    pub(super) method: Method,
    /// Probes per target and port; default: 10, or 3 for each value of a sweep; 0: until Ctrl-C
    #[arg(short, long, value_name = "N")]
    pub(super) count: Option<u32>,
    /// Time from one probe to the next, whether answered or not
    #[arg(short, long, default_value = "200ms", value_name = "TIME")]
    #[arg(value_parser = interval)]
    pub(super) interval: Duration,
    /// Time after which an answer counts as late
    #[arg(short = 'W', long, default_value = "2s", value_name = "TIME")]
    #[arg(value_parser = duration::parse_positive)]
    pub(super) timeout: Duration,
    #[command(flatten)]
    pub(super) packet: Packet,
    #[command(flatten)]
    pub(super) path: RequestPath,
    #[command(flatten)]
    pub(super) request: request::Options,
    #[command(flatten)]
    pub(super) queueing: Loaded,
    #[command(flatten)]
    pub(super) tls: Tls,
    /// Use IPv4 only
    #[arg(short = '4', action = ArgAction::SetTrue, conflicts_with = "ipv6")]
    pub(super) ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', action = ArgAction::SetTrue)]
    pub(super) ipv6: bool,
}

/// The kinds of probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Method {
    /// SYN if allowed, otherwise connect; ICMP without a port
    #[default]
    Auto,
    /// A SYN from a raw socket; needs CAP_NET_RAW
    Syn,
    /// connect(2); needs no privilege
    Connect,
    /// ICMP echo
    Icmp,
    /// A UDP datagram; the answer is a datagram or ICMP "port unreachable"
    Udp,
    /// A TLS handshake on a new connection; every second one may resume the session
    Tls,
    /// An HTTP request on a new connection, over TLS for https URLs
    Http,
}

impl Options {
    /// Takes over a curl command, and the credentials in URLs.
    pub(crate) fn adopt(&mut self) -> Result<Vec<String>> {
        let unused = self.request.adopt(&mut self.targets, &mut self.tls)?;
        if self.request.is_curl() && self.method == Method::Auto {
            self.method = Method::Http;
        }
        Ok(unused)
    }

    /// Returns the place to connect to for a target that is a URL.
    pub(super) fn place(&self, text: &str) -> Result<Option<Place>> {
        let is_request = matches!(self.method, Method::Http | Method::Tls);
        if is_request && text.contains("://") {
            Ok(Some(self.request.way.place(&text.parse()?)?))
        } else {
            Ok(None)
        }
    }

    /// Returns the protocol within TLS.
    pub(super) fn carried(&self) -> Carried {
        self.request.carried()
    }

    /// Returns what the probes need although they are confined.
    pub(crate) fn needs(&self) -> Needs {
        let mut needs = Needs::probes();
        needs.scope.inputs = self.request.inputs();
        needs.scope.inputs.extend(self.tls.inputs());
        needs
            .scope
            .unix_socket
            .clone_from(&self.request.way.unix_socket);
        needs
    }

    /// Returns the target's URL, if the target is probed with a request or a handshake.
    pub(super) fn url(&self, text: &str, host: &Host, port: Option<u16>) -> Result<Option<Url>> {
        let is_url = text.contains("://");
        let (scheme, path) = match self.method {
            Method::Http if is_url => return Ok(Some(text.parse()?)),
            Method::Http => ("http", self.path.path.as_str()),
            Method::Tls => ("https", "/"),
            _ => return Ok(None),
        };
        let port = port.map_or_else(String::new, |port| format!(":{port}"));
        Ok(Some(format!("{scheme}://{host}{port}{path}").parse()?))
    }
}

fn interval(text: &str) -> std::result::Result<Duration, String> {
    match duration::parse(text)? {
        short if short < LEAST_INTERVAL => Err("must be at least 100us".to_owned()),
        interval => Ok(interval),
    }
}
