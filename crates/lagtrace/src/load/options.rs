//! The options of `lagtrace load`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};

use super::steps::Steps;
use super::urls::Urls;
use crate::confinement::Needs;
use crate::duration;
use crate::failure::Result;
use crate::request;
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
  lagtrace load http://10.0.0.5/api --json @order.json --yes -n 500
  lagtrace load http://10.0.0.5/api -G --data-urlencode 'q=two words' -u name:password
  lagtrace load http://10.0.0.5/orders/{rand:1:5000} -H 'Authorization: Bearer …'
  lagtrace load --from-curl @copied.txt          a request copied from a browser
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
  -H, -m/-X, -d, -D FILE         -H, -X, --data, --data-binary @FILE
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
    /// Continue even if most requests fail
    #[arg(long)]
    pub(super) keep_going: bool,
    #[command(flatten)]
    pub(super) steps: Steps,
    #[command(flatten)]
    pub(super) request: request::Options,
    #[command(flatten)]
    pub(super) connection: Connection,
    #[command(flatten)]
    pub(super) tls: Tls,
}

impl Options {
    /// Takes over a curl command, and the credentials in URLs.
    pub(crate) fn adopt(&mut self) -> Result<Vec<String>> {
        self.request.adopt(&mut self.urls.url, &mut self.tls)
    }

    /// Returns what the load needs although it is confined.
    pub(crate) fn needs(&self) -> Needs {
        let mut needs = Needs::network();
        needs.connect_to(self.request.ports(self.urls.ports()));
        needs.scope.inputs = self.request.inputs();
        needs.scope.inputs.extend(self.tls.inputs());
        if let Some(path) = &self.request.way.unix_socket {
            // The keeper connects it: its owner may be allowed to use it, and no other user.
            needs.scope.unix_socket = Some(path.clone());
            needs.rules.ports = Some(Vec::new());
        }
        needs
    }
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
    #[arg(long, conflicts_with = "unix_socket")]
    pub(super) quickack: bool,
    /// Set TCP_NODELAY on lagtrace's side (the default)
    #[arg(long, overrides_with = "nagle", conflicts_with = "unix_socket")]
    pub(super) nodelay: bool,
    /// Leave Nagle's algorithm on at lagtrace's side
    #[arg(long, overrides_with = "nodelay", conflicts_with = "unix_socket")]
    pub(super) nagle: bool,
    /// Send up to N requests on a connection before the first is answered
    /// (HTTP/1.1 pipelining)
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) pipeline: u32,
    /// Store and send the cookies that the server sets, separately for each connection; each begins
    /// with those of --cookie (HTTP/1.1)
    #[arg(long, conflicts_with = "http2")]
    pub(super) cookies: bool,
    /// Concurrent streams per HTTP/2 connection
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        conflicts_with = "pipeline"
    )]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) streams: u32,
    /// Receive buffer of each socket, in bytes (SO_RCVBUF)
    #[arg(long, value_name = "BYTES")]
    pub(super) rcvbuf: Option<u32>,
    /// Send buffer of each socket, in bytes (SO_SNDBUF)
    #[arg(long, value_name = "BYTES")]
    pub(super) sndbuf: Option<u32>,
    /// Connect from each of these local addresses in turn
    #[arg(
        long,
        value_name = "IP,…",
        value_delimiter = ',',
        conflicts_with = "unix_socket"
    )]
    pub(super) source: Vec<IpAddr>,
    /// Connect to IP instead of resolving the URL's host; requests still name that host
    #[arg(long, value_name = "IP", conflicts_with_all = ["ipv4", "ipv6", "unix_socket"])]
    pub(super) address: Option<IpAddr>,
    /// Use IPv4 only
    #[arg(short = '4', action = ArgAction::SetTrue, conflicts_with = "ipv6")]
    pub(super) ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', action = ArgAction::SetTrue)]
    pub(super) ipv6: bool,
}
