//! The options of `lagtrace load`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};
use lagtrace_sources::load::Method;

use super::steps::Steps;
use super::urls::Urls;
use crate::confinement::Needs;
use crate::duration;
use crate::tls::Tls;

/// The options of `lagtrace load`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Without --rate, each connection sends its next request after each response
(closed loop). A slower service then gets fewer requests, and a stall that
would delay a thousand users delays only one request per connection. With
--rate, requests are due at fixed times, and the latency of a request begins
when it was due: this is what users see. The report prints both if they differ.

A request that times out counts with the time it waited. If the generator
itself was the limit, the report says so and draws no conclusion.

Examples:
  lagtrace load http://shop.example:8080/
  lagtrace load http://10.0.0.5/slow -c 20 -d 30s
  lagtrace load http://10.0.0.5/slow --rate 500 -d 1m
  lagtrace load http://10.0.0.5/api -X POST -H 'Content-Type: application/json' --body order.json
  lagtrace load 8@http://10.0.0.5/ 2@/search?q=x /cart -b 'session=4711'
  lagtrace load http://10.0.0.5/slow --stamps            where does the time go?
  lagtrace load http://10.0.0.5/ --fresh                 a connection for each request
  lagtrace load http://10.0.0.5/ -n 10000 -c 10          exactly 10,000 requests
  lagtrace load http://10.0.0.5/ --pipeline 8
  lagtrace load https://10.0.0.5/ -k --http2 --streams 10 -c 5
  lagtrace load http://10.0.0.5/ --rcvbuf 16384 --source 10.0.0.7,10.0.0.8
  lagtrace load http://localhost/ --unix-socket /run/app.sock
  lagtrace load https://shop.example/ --cacert ca.pem
  lagtrace load https://10.0.0.5/ -k --fresh             a TLS handshake for each request
  lagtrace load http://10.0.0.5/ --sweep 1..256 -d 16s   where is the knee?
  lagtrace load http://10.0.0.5/ --ramp 100..2000 -d 16s
  lagtrace load http://10.0.0.5/ --rate 500 --hdr latencies.hlog
  lagtrace load http://10.0.0.5/ --format json | jq .load.latency_ns.p99

Coming from wrk, wrk2, ab, oha, hey and h2load:
  wrk -t2 -c100 -d10s URL        load URL -t 2 -c 100 -d 10s
  wrk2 -R 500 URL                load URL --rate 500
  ab -k -c 10 -t 10 URL          load URL -c 10 -d 10s
  ab -k -c 10 -n 1000 URL        load URL -c 10 -n 1000
  oha -z 10s -c 50 -q 500 URL    load URL -d 10s -c 50 --rate 500
  hey -z 10s -c 50 URL           load URL -d 10s -c 50
  h2load --h1 -D 10 -c 100 URL   load URL -d 10s -c 100
  --warm-up-time (h2load)        --warm-up
  h2load -n N -c C -m M URL      load URL -n N -c C --http2 --streams M
  -H, -m/-X, -d @FILE            -H, -X, --body FILE
  siege -f FILE, h2load -i FILE  load --urls FILE")]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) urls: Urls,
    #[command(flatten)]
    pub(super) load: crate::diagnose::Load,
    /// Warm-up that does not count; default: a twentieth of the duration, between 100 and 500 ms
    #[arg(long, alias = "warmup", value_name = "TIME", value_parser = duration::parse)]
    pub(super) warm_up: Option<Duration>,
    /// Write the latencies of each second to FILE as an HdrHistogram log (V2,
    /// compressed)
    #[arg(long, value_name = "FILE")]
    pub(super) hdr: Option<PathBuf>,
    /// Stop after N requests, answered or failed; there is no warm-up, and without -d the limit is
    /// one hour
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "warm_up")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) requests: Option<u64>,
    /// Split the request time with the kernel's timestamps: client queue, path, server, response,
    /// client wake-up (HTTP/1.1 in clear text; up to 1,000 requests per second on each thread)
    #[arg(long, conflicts_with_all = ["http2", "pipeline", "unix_socket"])]
    pub(super) stamps: bool,
    /// Allow more than 2,000 connections and more than 20,000 requests per second
    #[arg(long)]
    pub(super) heavy: bool,
    /// Continue even if most requests fail
    #[arg(long)]
    pub(super) keep_going: bool,
    #[command(flatten)]
    pub(super) steps: Steps,
    #[command(flatten)]
    pub(super) request: Request,
    #[command(flatten)]
    pub(super) connection: Connection,
    #[command(flatten)]
    pub(super) tls: Tls,
}

impl Options {
    /// Returns what the load needs although it is confined.
    pub(crate) fn needs(&self) -> Needs {
        let mut needs = Needs::network();
        needs.connect_to(self.urls.ports());
        if let Some(path) = &self.connection.unix_socket {
            // The keeper connects it: its owner may be allowed to use it, and no other user.
            needs.scope.unix_socket = Some(path.clone());
            needs.rules.ports = Some(Vec::new());
        }
        needs
    }
}

/// Options for the requests.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Request")]
pub(super) struct Request {
    /// The method
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "GET", value_parser = method)]
    pub(super) method: Method,
    /// A header field; replaces lagtrace's own field of that name
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = field)]
    pub(super) headers: Vec<String>,
    /// Cookies to send with each request, as NAME=VALUE; NAME=VALUE
    #[arg(short = 'b', long, value_name = "COOKIES", value_parser = cookies)]
    pub(super) cookie: Vec<String>,
    /// Store and send the cookies that the server sets, separately for each connection; each begins
    /// with those of --cookie (HTTP/1.1)
    #[arg(long, conflicts_with = "http2")]
    pub(super) cookies: bool,
    /// Send FILE as the body of each request
    #[arg(long, value_name = "FILE")]
    pub(super) body: Option<PathBuf>,
}

/// Options for the connections.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connections")]
pub(super) struct Connection {
    /// Open a new connection for each request
    #[arg(long, conflicts_with_all = ["think", "quickack", "pipeline", "streams"])]
    pub(super) fresh: bool,
    /// Pause on each connection between a response and the next request
    #[arg(long, value_name = "TIME", value_parser = duration::parse_positive)]
    #[arg(conflicts_with_all = ["quickack", "pipeline", "streams"])]
    pub(super) think: Option<Duration>,
    /// Acknowledge without delay (TCP_QUICKACK)
    #[arg(long)]
    pub(super) quickack: bool,
    /// Set TCP_NODELAY on lagtrace's side (the default)
    #[arg(long, overrides_with = "nagle")]
    pub(super) nodelay: bool,
    /// Leave Nagle's algorithm on at lagtrace's side
    #[arg(long, overrides_with = "nodelay")]
    pub(super) nagle: bool,
    /// Send up to N requests on a connection before the first is answered
    /// (HTTP/1.1 pipelining)
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) pipeline: u32,
    /// Use HTTP/2: with prior knowledge, or with ALPN over TLS
    #[arg(long, conflicts_with = "pipeline")]
    pub(super) http2: bool,
    /// Concurrent streams per HTTP/2 connection
    #[arg(long, value_name = "N", default_value_t = 1, requires = "http2")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) streams: u32,
    /// Receive buffer of each socket, in bytes (SO_RCVBUF)
    #[arg(long, value_name = "BYTES")]
    pub(super) rcvbuf: Option<u32>,
    /// Send buffer of each socket, in bytes (SO_SNDBUF)
    #[arg(long, value_name = "BYTES")]
    pub(super) sndbuf: Option<u32>,
    /// Connect from each of these local addresses in turn
    #[arg(long, value_name = "IP,…", value_delimiter = ',')]
    pub(super) source: Vec<IpAddr>,
    /// Connect to the Unix socket PATH; the URL's host appears only in the requests
    #[arg(long, value_name = "PATH", conflicts_with_all = ["address", "source", "ipv4", "ipv6"])]
    #[arg(conflicts_with_all = ["quickack", "nagle", "nodelay"])]
    pub(super) unix_socket: Option<PathBuf>,
    /// Connect to IP instead of resolving the URL's host; requests still name that host
    #[arg(long, value_name = "IP", conflicts_with_all = ["ipv4", "ipv6"])]
    pub(super) address: Option<IpAddr>,
    /// Use IPv4 only
    #[arg(short = '4', action = ArgAction::SetTrue, conflicts_with = "ipv6")]
    pub(super) ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', action = ArgAction::SetTrue)]
    pub(super) ipv6: bool,
}

fn method(text: &str) -> std::result::Result<Method, String> {
    Method::of(text).ok_or_else(|| {
        let known: Vec<&str> = Method::ALL.iter().map(|method| method.as_str()).collect();
        format!(
            "`{text}` is not a method that lagtrace sends: {}",
            known.join(", ")
        )
    })
}

fn cookies(text: &str) -> std::result::Result<String, String> {
    let is_pair = |pair: &str| {
        let name = pair.split_once('=').map_or("", |(name, _)| name.trim());
        !name.is_empty() && !pair.bytes().any(|byte| byte.is_ascii_control())
    };
    if text.split(';').all(is_pair) {
        Ok(text.trim().to_owned())
    } else {
        Err(format!(
            "`{text}` contains no cookies: write them as NAME=VALUE; NAME=VALUE"
        ))
    }
}

fn field(text: &str) -> std::result::Result<String, String> {
    let is_token = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    let is_plain = !text
        .bytes()
        .any(|byte| byte.is_ascii_control() && byte != b'\t');
    match text.split_once(':') {
        Some((name, value)) if is_token(name) && is_plain => {
            Ok(format!("{name}: {}", value.trim()))
        }
        _ => Err(format!(
            "`{text}` is not a header field: write it as NAME: VALUE"
        )),
    }
}
