//! The command `lagtrace route`, which traces the route to a host hop by hop.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use lagtrace_core::observed::route::RouteMethod;
use lagtrace_sources::origin;
use lagtrace_sources::trace::{
    Dress, MAX_PATHS, MAX_SIZE, MAX_UNKNOWN, Rounds, TracePlan, UDP_PORT,
};

use crate::console::Console;
use crate::duration;
use crate::exit::Outcome;
use crate::failure::Result;
use crate::lookup;

mod follow;
mod live;
mod owners;
mod refusal;

/// The default port of TCP probes, as in traceroute -T.
const TCP_PORT: u16 = 80;
/// The time between two probes to one hop.
const INTERVAL: Duration = Duration::from_millis(100);
/// The time from one round to the next.
const ROUND: Duration = Duration::from_secs(1);

/// The options of `lagtrace route`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
All hops are probed in parallel. A hop that does not answer is probed again after
more than a second, because most routers limit their answers. A `silent` hop
never answered. A `limited` hop answers sometimes, and later hops lose nothing.
At a `lossy` hop the loss persists to the target. `--help` has examples,
and the flags of traceroute and mtr.")]
#[command(after_long_help = "\
All hops are probed in parallel. A hop that does not answer is probed again after
more than a second, because most routers limit their answers. A `silent` hop
never answered. A `limited` hop answers sometimes, and later hops lose nothing.
At a `lossy` hop the loss persists to the target.

With a port, probes are SYNs to it (raw, or by connect(2) without CAP_NET_RAW).
Without a port, they are UDP datagrams of one flow. Kernel timestamps measure
all of them.

--format csv prints one line per hop, with times in milliseconds: target, port,
method, outcome, hop, address, name, asn, as_name, state, loss_percent, sent,
received, last_ms, avg_ms, best_ms, worst_ms, stdev_ms, p50_ms, p99_ms, kept_ms
(the part of best_ms that later hops show too).

Examples:
  lagtrace route shop.example              # UDP, one flow
  lagtrace route shop.example:443          # TCP, like the service's own packets
  lagtrace route shop.example --method icmp -n
  lagtrace route shop.example --method dublin         # finds NAT
  lagtrace route shop.example:443 --method in-connection    # through stateful firewalls
  lagtrace route shop.example:443 --continuous        # until Ctrl-C, like mtr
  lagtrace route shop.example:443 -c 100 --format json -o route.json
  lagtrace route shop.example:443 --paths 16          # parallel paths (ECMP)
  lagtrace route shop.example --mtu                   # where packets become too big

Coming from          traceroute        tcptraceroute   mtr             here
  TCP to a port      -T -p PORT        HOST PORT       -T -P PORT      HOST:PORT, -T -p PORT
  ICMP               -I                                (default)       -I
  UDP, new ports     (default)                         -u              -u
  UDP, one flow      -U                                                --method paris
  UDP, NAT shown     (dublin-traceroute)                               --method dublin
  in a connection    (0trace)                                          --method in-connection
  no names           -n                -n              -n              -n
  first, last hop    -f -m             -f -m           -f -m           -f -m
  silent hops in a row                                 -U              --max-unknown
  routing table      -r (bypass)                                       --bypass-routing
  probes per hop     -q N              -q N                            --probes N
  timeout            -w                -w              -Z              -w
  interval           -z                                -i              -z
  rounds                                               -c N            -c N
  live table                                           (default)       --continuous
  report at the end                                    -r              -c N
  source, interface  -s -i             -s -i           -a -I           -s -i
  bytes              LEN               LEN             -s              --size
  source port        --sport           -S              -L              --source-port
  firewall mark      --fwmark                          -M              --mark
  type of service    -t                                -Q              --tos
  owner of hops      -A                                -z, -y          --asn FILE
  for scripts                                          -j, -C, -l      --format json, csv, ndjson
  path MTU           --mtu                                             --mtu
  MPLS labels        -e                                -e              (always)
Source routes (-g), flow labels (-l), files of targets (-F) and patterns (-B)
are not supported: lagtrace says what to do instead.")]
pub(crate) struct Options {
    // No doc comment: rustdoc would take the brackets for a link.
    #[arg(
        value_name = "HOST[:PORT]",
        help = "The target; IPv6 with a port: [ADDRESS]:PORT"
    )]
    target: String,
    /// Use IPv4 only
    #[arg(short = '4', action = ArgAction::SetTrue, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', action = ArgAction::SetTrue)]
    ipv6: bool,
    /// Do not look up names
    #[arg(short = 'n', long)]
    no_names: bool,
    #[command(flatten)]
    probes: Probes,
    #[command(flatten)]
    look: Look,
}

/// Options for sending the probes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Probes")]
struct Probes {
    /// Kind of probes; auto: tcp with a port (tcp-connect without CAP_NET_RAW), otherwise paris
    #[arg(long, value_enum, default_value_t, value_name = "METHOD")]
    method: Method,
    #[command(flatten)]
    short: Short,
    /// The port, if it is not given with the host; with udp the first port
    #[arg(short, long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// The first hop
    #[arg(
        short,
        long,
        visible_alias = "first",
        default_value_t = 1,
        value_name = "N"
    )]
    #[arg(value_parser = clap::value_parser!(u8).range(1..))]
    first_ttl: u8,
    /// The last hop
    #[arg(short, long, visible_aliases = ["max-ttl", "max"], default_value_t = 30, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..))]
    max_hops: u8,
    /// Number of answers to get from each hop
    #[arg(long, visible_alias = "queries", default_value_t = 3, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    probes: u32,
    /// Number of silent hops in a row that end the trace
    #[arg(long, default_value_t = MAX_UNKNOWN, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..))]
    max_unknown: u8,
    /// Time after which a probe counts as lost
    #[arg(short = 'w', long, default_value = "3s", value_name = "TIME")]
    #[arg(value_parser = duration::parse_positive)]
    timeout: Duration,
    /// Time between two probes to one hop [default: 100ms, in rounds 1s]
    #[arg(short = 'z', long, value_name = "TIME", value_parser = duration::parse_positive)]
    interval: Option<Duration>,
    #[command(flatten)]
    packets: Packets,
}

/// Options for the packets of the probes.
#[derive(Clone, Debug, Args)]
struct Packets {
    /// The source address
    #[arg(short, long, value_name = "IP")]
    source: Option<IpAddr>,
    /// The interface to send on, instead of the one that the kernel's route uses
    #[arg(short, long, value_name = "IF")]
    interface: Option<String>,
    /// The source port, instead of one that the kernel chooses; flows of --paths use the next ports
    /// (tcp, udp, paris, dublin)
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    source_port: Option<u16>,
    /// Firewall mark of the packets (SO_MARK); needs CAP_NET_ADMIN or CAP_NET_RAW
    #[arg(long, value_name = "MARK")]
    mark: Option<u32>,
    /// Bypass the routing table and send only to directly connected hosts (IPv4)
    #[arg(long)]
    bypass_routing: bool,
    /// Bytes of each packet, IP header included
    #[arg(long, value_name = "BYTES")]
    #[arg(value_parser = clap::value_parser!(u16).range(28..=i64::from(MAX_SIZE)))]
    size: Option<u16>,
    /// Type of service or traffic class
    #[arg(long, value_name = "TOS", value_parser = clap::value_parser!(u8))]
    tos: Option<u8>,
}

/// Shorthands for methods, with the option letters of traceroute.
#[derive(Clone, Copy, Debug, Args)]
#[group(multiple = false, conflicts_with = "method")]
struct Short {
    /// Shorthand for --method tcp
    #[arg(short = 'T', long)]
    tcp: bool,
    /// Shorthand for --method icmp
    #[arg(short = 'I', long)]
    icmp: bool,
    /// Shorthand for --method udp
    #[arg(short = 'u', long)]
    udp: bool,
}

/// Options for the properties of the route to measure.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "What to look for")]
struct Look {
    /// Repeat in rounds until Ctrl-C, then report loss and delays of each hop
    #[arg(long, conflicts_with_all = ["paths", "mtu", "probes"])]
    continuous: bool,
    /// Number of rounds
    #[arg(short, long, value_name = "N", conflicts_with = "probes", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Try N flows in parallel, to find parallel hops
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_PATHS)))]
    paths: u16,
    /// Show the owner of each hop, from a table of ranges (TSV of iptoasn.com) or prefixes
    /// (prefix,AS number,name), plain or compressed
    #[arg(long, value_name = "FILE")]
    asn: Option<PathBuf>,
    /// Find the largest packet that gets through, and the hops at which the MTU shrinks
    #[arg(long)]
    mtu: bool,
}

/// The kinds of probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Method {
    /// Depends on the target and the privileges
    #[default]
    Auto,
    /// SYNs to the port, as one flow; needs CAP_NET_RAW
    Tcp,
    /// connect(2) to the port, each as a separate flow; needs no privilege
    TcpConnect,
    /// UDP datagrams to changing ports, as in traceroute; needs no privilege
    Udp,
    /// UDP datagrams of one flow
    Paris,
    /// UDP datagrams of one flow that reveal NAT on the path, as in dublin-traceroute; needs
    /// CAP_NET_RAW
    Dublin,
    /// Keep-alives within an open connection, which pass stateful firewalls; needs an open port and
    /// CAP_NET_RAW
    InConnection,
    /// ICMP echo requests of one flow; needs CAP_NET_RAW or net.ipv4.ping_group_range
    Icmp,
}

impl Probes {
    fn method(&self) -> Method {
        match self.short {
            Short { tcp: true, .. } => Method::Tcp,
            Short { icmp: true, .. } => Method::Icmp,
            Short { udp: true, .. } => Method::Udp,
            _ => self.method,
        }
    }
}

/// Traces the route and prints the report.
pub(crate) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let (host, port) = lookup::parse(&options.target)?;
    let port = port.or(options.probes.port);
    refusal::check(options, port)?;
    if let Some(path) = &options.look.asn {
        // Checks that the file is a table before anything is sent.
        origin::find(path, &BTreeSet::new())?;
    }
    follow::run(options, (&host, port), console)
}

impl Options {
    /// Returns the methods to try, the best first; true for those that use raw sockets. If a method
    /// is not permitted, the next one is tried.
    fn ways(&self, has_port: bool) -> Vec<(RouteMethod, bool)> {
        use RouteMethod::{Dublin, Icmp, InConnection, Paris, TcpConnect, TcpSyn, Udp};
        match self.probes.method() {
            Method::Auto if has_port && self.needs_packets() => vec![(TcpSyn, true)],
            Method::Auto if has_port => vec![(TcpSyn, true), (TcpConnect, false)],
            Method::Auto | Method::Paris => vec![(Paris, true), (Paris, false)],
            Method::Tcp => vec![(TcpSyn, true)],
            Method::TcpConnect => vec![(TcpConnect, false)],
            Method::Udp => vec![(Udp, false)],
            Method::Dublin => vec![(Dublin, true)],
            Method::InConnection => vec![(InConnection, true)],
            Method::Icmp => vec![(Icmp, true), (Icmp, false)],
        }
    }

    /// Returns true if an option is given that probes by connect(2) do not support.
    fn needs_packets(&self) -> bool {
        let probes = &self.probes;
        probes.packets.size.is_some() || probes.packets.source_port.is_some() || self.look.paths > 1
    }

    fn plan(&self, address: IpAddr, port: Option<u16>, way: (RouteMethod, bool)) -> TracePlan {
        let (method, is_raw) = way;
        let default = match method {
            method if method.is_tcp() => TCP_PORT,
            _ => UDP_PORT,
        };
        let target = SocketAddr::new(address, port.unwrap_or(default));
        let (probes, look) = (&self.probes, &self.look);
        let rounds = (look.continuous || look.count.is_some()).then_some(Rounds {
            count: look.count,
            interval: probes.interval.unwrap_or(ROUND),
        });
        TracePlan {
            is_raw,
            first_ttl: probes.first_ttl,
            max_ttl: probes.max_hops,
            max_unknown: probes.max_unknown,
            probes: probes.probes,
            timeout: probes.timeout,
            interval: probes.interval.unwrap_or(INTERVAL),
            rounds,
            paths: look.paths,
            mtu: look.mtu,
            dress: Dress {
                size: probes.packets.size,
                tos: probes.packets.tos,
                source: probes.packets.source,
                interface: probes.packets.interface.clone(),
                source_port: probes.packets.source_port,
                mark: probes.packets.mark,
                bypasses_routing: probes.packets.bypass_routing,
            },
            ..TracePlan::new(target, method)
        }
    }
}
