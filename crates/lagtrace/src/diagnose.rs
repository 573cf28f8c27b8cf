//! The command `lagtrace diagnose`: the arguments of the whole investigation.

pub(crate) mod investigate;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};
use lagtrace_sources::keeper::{Observed, Processes};

use crate::confinement::{self, Needs};
use crate::console::Console;
use crate::duration;
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::request;
use crate::tls::Tls;
use crate::words;

/// The options of `lagtrace diagnose`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
This sends load to the service: by default 100 connections for 10 s. Steps that
lack a privilege say what they would have shown and how to allow it; all other
steps still run. Ctrl-C ends the measurement and reports the results so far.

Examples:
  lagtrace diagnose http://shop.example:8080/
  lagtrace diagnose http://shop.example:8080/ --control http://shop.example/
  lagtrace diagnose https://shop.example/ --http2
  lagtrace diagnose https://shop.example/api -u name:password
  lagtrace diagnose https://shop.example/orders --json @order.json --yes
  lagtrace diagnose --from-curl @copied.txt         a request copied from a browser
  lagtrace diagnose https://shop.example/shop.Cart/Get --grpc message.bin --yes
  lagtrace diagnose http://10.0.0.5/slow -c 20 -d 5s --rate 200
  lagtrace diagnose http://10.0.0.5/slow -w evidence.pcap --observations evidence.ndjson
  lagtrace diagnose http://10.0.0.5/slow --server-netns shop
  lagtrace diagnose http://10.0.0.5/slow --format json -o before.json
  lagtrace diagnose http://10.0.0.5/slow --verify before.json
  lagtrace diagnose http://10.0.0.5/slow --html report.html --redact")]
pub(crate) struct Options {
    // No doc comment: rustdoc would take the brackets for a link.
    #[arg(help = "The service, http[s]://HOST[:PORT]/PATH")]
    #[arg(required_unless_present = "from_curl")]
    pub(crate) url: Option<String>,
    /// A healthy service to compare with; both are measured alternately
    #[arg(long, value_name = "URL")]
    pub(crate) control: Option<String>,
    /// Set TCP_NODELAY on the server's socket of one of lagtrace's connections, measure before and
    /// after, and restore it (only for a server on this host)
    #[arg(long)]
    pub(crate) what_if: bool,
    /// Compare with the JSON report of an earlier run: did the fix help, and why?
    #[arg(long, value_name = "BEFORE.json")]
    pub(crate) verify: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) load: Load,
    #[command(flatten)]
    pub(crate) network: Network,
    #[command(flatten)]
    pub(crate) host: Host,
    #[command(flatten)]
    pub(crate) request: request::Options,
    /// Send N requests in all, if they may change something [default: 200]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) requests: Option<u64>,
    #[command(flatten)]
    pub(crate) tls: Tls,
}

/// The default duration of the load.
pub(crate) const DURATION: Duration = Duration::from_secs(10);

/// The default number of connections.
const CONNECTIONS: u32 = 100;
/// Maximum number of requests in parallel without `--heavy`.
const USUAL_AT_ONCE: u64 = 2_000;
/// Maximum rate without `--heavy`, in requests per second.
const USUAL_RATE: f64 = 20_000.0;

/// Options for the load.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct Load {
    // No doc comment: rustdoc would take the brackets for a link.
    #[arg(
        help = "Number of connections kept open [default: 100; diagnose: at most 8 for requests that may change something]"
    )]
    #[arg(short, long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=60_000))]
    connections: Option<u32>,
    // No doc comment: rustdoc would take the brackets for a link.
    #[arg(help = "Duration of the load, warm-up included [default: 10s]")]
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse_load)]
    pub(crate) duration: Option<Duration>,
    /// Number of threads that make the load; 0: automatic
    #[arg(short, long, default_value_t = 0, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=64))]
    pub(crate) threads: u16,
    /// Requests per second, sent at fixed times; without it, each connection sends its next request
    /// after each response
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Time allowed for opening a connection, and for a response
    #[arg(long, default_value = "2s", value_name = "TIME")]
    #[arg(value_parser = duration::parse_positive)]
    pub(crate) timeout: Duration,
    /// Allow more than 2,000 connections and more than 20,000 requests per second
    #[arg(long)]
    heavy: bool,
}

impl Load {
    /// Returns an error for a heavy load to which the user did not agree: so many requests `at_once`,
    /// which the message calls `what`, or so many per second.
    pub(crate) fn check(&self, at_once: u64, what: &str, rate: Option<f64>) -> Result<()> {
        let told = match rate {
            _ if self.heavy => return Ok(()),
            _ if at_once > USUAL_AT_ONCE => {
                let [many, most] = [at_once, USUAL_AT_ONCE].map(words::count);
                format!("{many} {what} are more than {most}")
            }
            Some(rate) if rate > USUAL_RATE => {
                let [rate, most] = [rate, USUAL_RATE].map(words::rate);
                format!("{rate} requests per second are more than {most}")
            }
            _ => return Ok(()),
        };
        let hint = "add --heavy if you may put such a load on the service";
        Err(Failure::new(told).hint(hint))
    }

    /// Returns the number of connections.
    pub(crate) fn connections(&self) -> u32 {
        self.connections.unwrap_or(CONNECTIONS)
    }

    /// Returns true if the user set the number of connections.
    pub(crate) fn sets_connections(&self) -> bool {
        self.connections.is_some()
    }
}

/// Options for addresses and packets.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct Network {
    /// Capture on this interface instead of the one that the kernel's route uses
    #[arg(short, long, value_name = "IF")]
    pub(crate) interface: Option<String>,
    /// Write the captured packets to FILE: those of the targets and of the upstreams that they call
    #[arg(short, long, value_name = "FILE", conflicts_with = "no_capture")]
    pub(crate) write: Option<PathBuf>,
    /// Write all other observations to FILE, as lines of JSON; together with the packets (--write),
    /// these are all inputs of the report
    #[arg(long, value_name = "FILE")]
    pub(crate) observations: Option<PathBuf>,
    /// Capture no packets
    #[arg(long, conflicts_with = "interface")]
    pub(crate) no_capture: bool,
    /// Connect to IP instead of resolving the URL's host; requests still name that host
    #[arg(long, value_name = "IP", conflicts_with_all = ["ipv4", "ipv6"])]
    pub(crate) address: Option<IpAddr>,
    /// Trace the route even if the path takes only a small part of the request time
    #[arg(long)]
    pub(crate) route: bool,
    /// Use IPv4 only
    #[arg(short = '4', action = ArgAction::SetTrue, conflicts_with = "ipv6")]
    pub(crate) ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', action = ArgAction::SetTrue)]
    pub(crate) ipv6: bool,
}

/// Options for a server on this host.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server on this host")]
pub(crate) struct Host {
    /// Look for the server in this network namespace only: a name of `ip netns`, or a path
    #[arg(long, value_name = "NAME|PATH", conflicts_with = "server_pid")]
    pub(crate) server_netns: Option<String>,
    /// Look for the server in the network namespace of process PID only
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) server_pid: Option<u32>,
    /// Do not watch the requests in the server's kernel
    #[arg(long)]
    pub(crate) no_watch: bool,
}

impl Options {
    /// Takes over a curl command, and the credentials in URLs.
    pub(crate) fn adopt(&mut self) -> Result<Vec<String>> {
        let mut urls: Vec<String> = self.url.take().into_iter().collect();
        let unused = self.request.adopt(&mut urls, &mut self.tls)?;
        let mut control: Vec<String> = self.control.take().into_iter().collect();
        self.request.adopt(&mut control, &mut self.tls)?;
        (self.url, self.control) = (urls.pop(), control.pop());
        Ok(unused)
    }

    /// Returns the URL of the service.
    pub(crate) fn subject(&self) -> &str {
        self.url.as_deref().unwrap_or_default()
    }

    /// Returns what the investigation needs although it is confined.
    pub(crate) fn needs(&self) -> Needs {
        let mut needs = Needs::probes();
        let urls = [&self.url, &self.control];
        let ports = confinement::ports(urls.into_iter().flatten().map(String::as_str));
        let ports = self.request.ports(ports);
        let scope = &mut needs.scope;
        scope.inputs = self.request.inputs();
        scope.inputs.extend(self.tls.inputs());
        scope.unix_socket.clone_from(&self.request.way.unix_socket);
        scope.packets = !self.network.no_capture;
        scope.processes = Processes::Servers(ports.clone().unwrap_or_default());
        scope.filters = true;
        if !self.host.no_watch {
            scope.observed = Observed::Servers;
        }
        scope.namespace = self.host.server_netns.clone();
        scope.what_if = self.what_if;
        needs.connect_to(ports);
        needs
    }
}

/// Investigates and reports.
pub(crate) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let load = &options.load;
    load.check(load.connections().into(), "connections", load.rate)?;
    investigate::run(options, console)
}

fn rate(text: &str) -> std::result::Result<f64, String> {
    text.parse()
        .ok()
        .filter(|rate: &f64| rate.is_finite() && *rate > 0.0 && *rate <= 1e6)
        .ok_or_else(|| format!("`{text}` is not a rate: give requests per second, up to 1000000"))
}
