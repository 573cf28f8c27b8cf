//! What to probe, and how, as it was told.

use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use lagtrace_core::event::TargetId;
use lagtrace_core::segment::TcpFlags;
use lagtrace_sources::probe::{
    LEAST_INTERVAL, PacketPlan, Sizes, SourcePorts, SteadyMethod, SteadyPlan, Turn,
};

use super::targets::{self, Flags, Ports, Target};
use crate::arguments::duration;
use crate::failure::{Failure, Result};

/// Probes where none are told: of a series, and of each value of a sweep.
const USUAL_COUNT: u32 = 10;
const EACH_STEP: u32 = 3;
/// What open and closed ports answer differently, and filters let pass or not:
/// `nmap`'s SYN, ACK, FIN, Maimon, Xmas and NULL scans, and SYN/ACK.
const MATRIX: [TcpFlags; 7] = [
    TcpFlags::SYN,
    TcpFlags::ACK,
    TcpFlags::SYN.with(TcpFlags::ACK),
    TcpFlags::FIN,
    TcpFlags::FIN.with(TcpFlags::ACK),
    TcpFlags::FIN.with(TcpFlags::PSH).with(TcpFlags::URG),
    TcpFlags(0),
];
/// What `ping` sends.
const ECHO_SIZE: u16 = 56;

/// What to probe, and how.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
A SYN from a raw socket (CAP_NET_RAW) is the sharpest way to ask: the kernel
stamps it as it leaves and its answer as it comes, so that the time is right
also while this host is busy. Without that right `connect` asks, whose round
trip the kernel measures too. A target without a port is asked by ICMP echo.

An answer that comes after --timeout counts as late, not as lost.

Examples:
  lagtrace probe shop.example:443
  lagtrace probe shop.example -p 80,443,8000-8010 -c 3
  lagtrace probe 10.0.0.5 -c 0 -i 1s                     like ping
  sudo lagtrace probe 10.0.0.5:80 -s 40000-40015 -c 160  a path's members
  sudo lagtrace probe 10.0.0.5:80 --matrix               which filter is there
  lagtrace probe 10.0.0.5 --size 1200-1472/8             which sizes pass
  lagtrace probe [2001:db8::7]:53 --method udp --size 12
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
    #[arg(required = true, value_name = "TARGET")]
    pub(super) targets: Vec<String>,
    /// Ports of targets that name none: 80,443,8000-8010
    #[arg(short, long, value_name = "PORTS", value_parser = targets::parse_ports)]
    pub(super) port: Option<Ports>,
    /// How to ask
    #[arg(short, long, value_enum, default_value_t, value_name = "METHOD")]
    pub(super) method: Method,
    /// Probes of each target and port: 10, or 3 of each value of a sweep; 0 goes
    /// on until Ctrl-C
    #[arg(short, long, value_name = "N")]
    pub(super) count: Option<u32>,
    /// From one probe to the next, whether it was answered or not
    #[arg(short, long, default_value = "200ms", value_name = "TIME")]
    #[arg(value_parser = interval)]
    pub(super) interval: Duration,
    /// How long an answer may take before it is late
    #[arg(short = 'W', long, default_value = "2s", value_name = "TIME")]
    #[arg(value_parser = duration::parse_positive)]
    pub(super) timeout: Duration,
    #[command(flatten)]
    pub(super) packet: Packet,
    /// Use IPv4 only
    #[arg(short = '4', action = ArgAction::SetTrue, conflicts_with = "ipv6")]
    pub(super) ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', action = ArgAction::SetTrue)]
    pub(super) ipv6: bool,
}

/// What the probes' packets look like.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Packets")]
pub(super) struct Packet {
    /// Send from PORT, or from each of FIRST-LAST in turn, instead of from a
    /// new port each time
    #[arg(short, long, value_name = "PORT", value_parser = targets::parse_source_ports)]
    pub(super) source_port: Option<SourcePorts>,
    /// Send over this interface instead of the one that the kernel routes over
    #[arg(short = 'I', long, value_name = "IF")]
    pub(super) interface: Option<String>,
    /// Payload bytes, or a sweep of them as FIRST-LAST/STEP; ICMP has 56 unless
    /// told otherwise
    #[arg(long, value_name = "BYTES", value_parser = targets::parse_sizes)]
    pub(super) size: Option<Sizes>,
    /// Have no packet fragmented, whatever is known of the path; a sweep of sizes
    /// never is
    #[arg(long)]
    pub(super) dont_fragment: bool,
    /// Send segments with these control bits, in turn, instead of SYNs: S, A, FA,
    /// FPU, 0 for none. Needs CAP_NET_RAW
    #[arg(long, value_name = "FLAGS,…", value_parser = targets::parse_flags)]
    pub(super) flags: Option<Flags>,
    /// The same for S,A,SA,F,FA,FPU,0: what they are answered with tells which
    /// filter stands before a port
    #[arg(long, conflicts_with = "flags")]
    pub(super) matrix: bool,
    /// Time to live, or hop limit
    #[arg(long, value_name = "HOPS", value_parser = clap::value_parser!(u8).range(1..))]
    pub(super) ttl: Option<u8>,
    /// Type of service, or traffic class: 0 to 255
    #[arg(long, value_name = "BYTE")]
    pub(super) tos: Option<u8>,
    /// Maximum segment size that a SYN offers
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) mss: Option<u16>,
}

impl Packet {
    /// Control bits other than a SYN's; none for SYNs only.
    fn flags(&self) -> Vec<TcpFlags> {
        match (&self.flags, self.matrix) {
            (Some(Flags(flags)), _) if flags[..] == [TcpFlags::SYN] => Vec::new(),
            (Some(Flags(flags)), _) => flags.clone(),
            (None, true) => MATRIX.to_vec(),
            (None, false) => Vec::new(),
        }
    }

    /// Whether somebody told which segments to send.
    pub(super) fn has_flags(&self) -> bool {
        self.matrix || self.flags.is_some()
    }
}

/// How to ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Method {
    /// SYN where that is allowed, else connect; ICMP without a port
    #[default]
    Auto,
    /// A SYN from a raw socket; needs CAP_NET_RAW
    Syn,
    /// connect(2), by anybody
    Connect,
    /// ICMP echo
    Icmp,
    /// A UDP datagram, answered by one or by ICMP port unreachable
    Udp,
}

impl Options {
    /// What the target is asked, and how.
    pub(super) fn plan(&self, target: &Target) -> Result<SteadyPlan> {
        let method = self.method_for(target);
        self.check(method)?;
        let plan = self.plan_by(method, target);
        let swept = [
            (plan.packet.flags.len() > 1, "--flags or --matrix"),
            (plan.packet.sizes.count() > 1, "--size"),
            (
                plan.ports.count().is_some_and(|count| count > 1),
                "--source-port",
            ),
        ];
        let swept: Vec<&str> = swept.iter().filter(|(is, _)| *is).map(|s| s.1).collect();
        if swept.len() > 1 {
            let told = format!("{} cannot be swept at once", swept.join(" and "));
            return Err(Failure::new(told).hint("give one of them several values, the others one"));
        }
        Ok(plan)
    }

    fn method_for(&self, target: &Target) -> SteadyMethod {
        match (self.method, target.has_port) {
            (Method::Auto, _) if self.packet.has_flags() => SteadyMethod::Syn,
            (Method::Auto, false) | (Method::Icmp, _) => SteadyMethod::Icmp,
            (Method::Auto, true) | (Method::Syn, _) => SteadyMethod::Syn,
            (Method::Connect, _) => SteadyMethod::Connect,
            (Method::Udp, _) => SteadyMethod::Udp,
        }
    }

    /// Refuses what a method would leave out without a word.
    fn check(&self, method: SteadyMethod) -> Result<()> {
        let packet = &self.packet;
        let told = match method {
            _ if packet.has_flags() && method != SteadyMethod::Syn => {
                "--flags and --matrix choose segments, and only `--method syn` sends such"
            }
            SteadyMethod::Connect if packet.size.is_some() => {
                "--size has no meaning for `--method connect`: the kernel's SYN carries no payload"
            }
            SteadyMethod::Icmp if packet.source_port.is_some() => {
                "--source-port has no meaning for an echo: ICMP has no ports"
            }
            SteadyMethod::Icmp if self.port.is_some() => {
                "--port has no meaning for `--method icmp`: ICMP has no ports"
            }
            _ => return Ok(()),
        };
        Err(Failure::new(told).hint("leave one of them out, or ask by another method"))
    }

    /// Whether another method may stand in where the best is not permitted: not
    /// where it would not do what was asked for.
    pub(super) fn may_stand_in(&self, plan: &SteadyPlan) -> bool {
        let is_told = self.packet.has_flags() || self.packet.size.is_some();
        self.method == Method::Auto && (plan.method == SteadyMethod::Icmp || !is_told)
    }

    fn plan_by(&self, method: SteadyMethod, target: &Target) -> SteadyPlan {
        let sizes = match method {
            SteadyMethod::Icmp => self.packet.size.unwrap_or(Sizes::one(ECHO_SIZE)),
            _ => self.packet.size.unwrap_or_default(),
        };
        let mut plan = SteadyPlan {
            target: TargetId::Subject,
            address: target.address,
            method,
            turn: Turn::ByTheClock,
            count: None,
            interval: self.interval,
            timeout: self.timeout,
            ports: self.packet.source_port.unwrap_or_default(),
            packet: PacketPlan {
                ttl: self.packet.ttl,
                tos: self.packet.tos,
                dont_fragment: self.packet.dont_fragment || sizes.count() > 1,
                sizes,
                flags: self.packet.flags(),
                mss: self.packet.mss,
                interface: self.packet.interface.clone(),
            },
        };
        let usual = plan
            .steps()
            .map_or(USUAL_COUNT, |steps| steps.saturating_mul(EACH_STEP));
        plan.count = Some(self.count.unwrap_or(usual)).filter(|count| *count > 0);
        plan
    }
}

fn interval(text: &str) -> std::result::Result<Duration, String> {
    match duration::parse(text)? {
        short if short < LEAST_INTERVAL => Err("must be at least 100us".to_owned()),
        interval => Ok(interval),
    }
}
