//! `lagtrace probe`: round trips to targets, by the kernel's stamps.

mod line;
mod targets;

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use clap::{ArgAction, Args, ValueEnum};
use lagtrace_core::analyzer::Analyzer;
use lagtrace_core::event::{Event, EventBody, ProbeAnswer, TargetId};
use lagtrace_core::report::{Probe, Report};
use lagtrace_core::segment::TcpFlags;
use lagtrace_sources::probe::{
    LEAST_INTERVAL, PacketPlan, ProbeError, Sizes, SourcePorts, SteadyMethod, SteadyPlan, Turn,
    steady,
};

use crate::arguments::{Format, duration};
use crate::conclusion;
use crate::console::Console;
use crate::delivery;
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::render;
use targets::{Flags, Ports, Target};

/// Series at a time: each has a thread of its own.
const MAX_SERIES: usize = 256;
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
    targets: Vec<String>,
    /// Ports of targets that name none: 80,443,8000-8010
    #[arg(short, long, value_name = "PORTS", value_parser = targets::parse_ports)]
    port: Option<Ports>,
    /// How to ask
    #[arg(short, long, value_enum, default_value_t, value_name = "METHOD")]
    method: Method,
    /// Probes of each target and port: 10, or 3 of each value of a sweep; 0 goes
    /// on until Ctrl-C
    #[arg(short, long, value_name = "N")]
    count: Option<u32>,
    /// From one probe to the next, whether it was answered or not
    #[arg(short, long, default_value = "200ms", value_name = "TIME")]
    #[arg(value_parser = interval)]
    interval: Duration,
    /// How long an answer may take before it is late
    #[arg(short = 'W', long, default_value = "2s", value_name = "TIME")]
    #[arg(value_parser = duration::parse_positive)]
    timeout: Duration,
    #[command(flatten)]
    packet: Packet,
    /// Use IPv4 only
    #[arg(short = '4', action = ArgAction::SetTrue, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', action = ArgAction::SetTrue)]
    ipv6: bool,
}

/// What the probes' packets look like.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Packets")]
struct Packet {
    /// Send from PORT, or from each of FIRST-LAST in turn, instead of from a
    /// new port each time
    #[arg(short, long, value_name = "PORT", value_parser = targets::parse_source_ports)]
    source_port: Option<SourcePorts>,
    /// Send over this interface instead of the one that the kernel routes over
    #[arg(short = 'I', long, value_name = "IF")]
    interface: Option<String>,
    /// Payload bytes, or a sweep of them as FIRST-LAST/STEP; ICMP has 56 unless
    /// told otherwise
    #[arg(long, value_name = "BYTES", value_parser = targets::parse_sizes)]
    size: Option<Sizes>,
    /// Have no packet fragmented, whatever is known of the path; a sweep of sizes
    /// never is
    #[arg(long)]
    dont_fragment: bool,
    /// Send segments with these control bits, in turn, instead of SYNs: S, A, FA,
    /// FPU, 0 for none. Needs CAP_NET_RAW
    #[arg(long, value_name = "FLAGS,…", value_parser = targets::parse_flags)]
    flags: Option<Flags>,
    /// The same for S,A,SA,F,FA,FPU,0: what they are answered with tells which
    /// filter stands before a port
    #[arg(long, conflicts_with = "flags")]
    matrix: bool,
    /// Time to live, or hop limit
    #[arg(long, value_name = "HOPS", value_parser = clap::value_parser!(u8).range(1..))]
    ttl: Option<u8>,
    /// Type of service, or traffic class: 0 to 255
    #[arg(long, value_name = "BYTE")]
    tos: Option<u8>,
    /// Maximum segment size that a SYN offers
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(1..))]
    mss: Option<u16>,
}

impl Packet {
    fn flags(&self) -> Vec<TcpFlags> {
        match (&self.flags, self.matrix) {
            (Some(Flags(flags)), _) => flags.clone(),
            (None, true) => MATRIX.to_vec(),
            (None, false) => Vec::new(),
        }
    }
}

/// How to ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Method {
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

/// Probes, shows each answer as it comes, and sums up.
pub(crate) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let (targets, events) = targets::find(options, console)?;
    let plans: Vec<SteadyPlan> = targets.iter().map(|target| options.plan(target)).collect();
    if plans.len() > MAX_SERIES {
        let told = format!(
            "{} series at a time are too many: at most {MAX_SERIES}",
            plans.len()
        );
        return Err(Failure::new(told).hint("name fewer targets or ports"));
    }
    let started = conclusion::now();
    let mut session = Session::begin(options, console)?;
    events
        .into_iter()
        .for_each(|event| session.analyzer.observe(event));
    session.measure(plans, &interrupt)?;
    if !session.has_measured {
        return Ok(Outcome::Interrupted);
    }
    if interrupt.is_requested() {
        let text = "Interrupted: what was under way then counts nowhere.".to_owned();
        session
            .analyzer
            .observe(conclusion::note("interrupted", text));
    }
    let mut report = session.analyzer.finish();
    "probe".clone_into(&mut report.command);
    report.subject = options.targets.join(" ");
    report.started = conclusion::started(Some(started.as_nanos()));
    conclude(&report, console, session.lines)
}

/// Shows the summary behind the lines, where there are any.
fn conclude(
    report: &Report,
    console: &Console,
    mut lines: Box<dyn Write + Send>,
) -> Result<Outcome> {
    let document = match console.output().format {
        Format::Text => render::probes(report, &console.style()),
        Format::Json => render::json(report),
        Format::Ndjson => render::ndjson(report),
    };
    lines
        .write_all(document.as_bytes())
        .and_then(|()| lines.flush())
        .context("write the report")?;
    match report.probes.iter().any(is_faulty) {
        true => Ok(Outcome::Found),
        false => Ok(Outcome::Clean),
    }
}

/// Whether something was lost or refused. To segments with odd flags silence is
/// a right answer: there the SYN's counts, or whether any was answered.
fn is_faulty(probe: &Probe) -> bool {
    if probe.method == "tcp-flags" {
        let syn = probe.steps.iter().find(|step| step.value == "SYN");
        return syn.map_or(probe.received == 0, |syn| syn.answer != "open");
    }
    let mut answers = probe.answers.iter();
    probe.received < probe.sent || answers.any(|answer| answer.status == "refused")
}

impl Options {
    fn plan(&self, target: &Target) -> SteadyPlan {
        let flags = self.packet.flags();
        let method = match (self.method, target.has_port) {
            _ if !flags.is_empty() => SteadyMethod::Syn,
            (Method::Auto, false) | (Method::Icmp, _) => SteadyMethod::Icmp,
            (Method::Auto, true) | (Method::Syn, _) => SteadyMethod::Syn,
            (Method::Connect, _) => SteadyMethod::Connect,
            (Method::Udp, _) => SteadyMethod::Udp,
        };
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
                flags,
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

/// What the series have to tell.
enum Told {
    Event(Box<Event>),
    Ended(std::result::Result<(), ProbeError>),
}

/// Probing under way.
struct Session<'a> {
    options: &'a Options,
    console: &'a Console,
    analyzer: Analyzer,
    lines: Box<dyn Write + Send>,
    has_measured: bool,
    /// Whether several series share the lines.
    is_crowd: bool,
}

impl<'a> Session<'a> {
    fn begin(options: &'a Options, console: &'a Console) -> Result<Self> {
        Ok(Self {
            options,
            console,
            analyzer: Analyzer::new(conclusion::options(Vec::new())),
            lines: delivery::open(console)?,
            has_measured: false,
            is_crowd: false,
        })
    }

    fn measure(&mut self, plans: Vec<SteadyPlan>, interrupt: &Interrupt) -> Result<()> {
        self.is_crowd = plans.len() > 1;
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let (sender, told) = channel();
            for plan in &plans {
                let (sender, stop) = (sender.clone(), &stop);
                let is_auto = self.options.method == Method::Auto;
                scope.spawn(move || series(plan, is_auto, stop, &sender));
            }
            drop(sender);
            let outcome = self.listen(&told, interrupt, &stop);
            stop.store(true, Ordering::Relaxed);
            outcome
        })
    }

    fn listen(
        &mut self,
        told: &Receiver<Told>,
        interrupt: &Interrupt,
        stop: &AtomicBool,
    ) -> Result<()> {
        let patience = Duration::from_millis(50);
        loop {
            if interrupt.is_requested() {
                stop.store(true, Ordering::Relaxed);
            }
            match told.recv_timeout(patience) {
                Ok(Told::Event(event)) => self.take(*event)?,
                Ok(Told::Ended(Ok(()))) | Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
                Ok(Told::Ended(Err(error))) => return Err(failure(error)),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    fn take(&mut self, event: Event) -> Result<()> {
        let output = self.console.output();
        if let EventBody::Probe(sample) = &event.body {
            self.has_measured = true;
            let line = match output.format {
                Format::Text if output.quiet => None,
                Format::Text => Some(line::text(sample, self.is_crowd)),
                Format::Ndjson => Some(line::json(sample, event.at)),
                Format::Json => None,
            };
            if let Some(line) = line {
                writeln!(self.lines, "{line}")
                    .and_then(|()| self.lines.flush())
                    .context("write an answer")?;
            }
        }
        self.analyzer.observe(event);
        Ok(())
    }
}

/// One target's series, on a thread of its own.
fn series(plan: &SteadyPlan, is_auto: bool, stop: &AtomicBool, sender: &Sender<Told>) {
    // Nobody listens any more after a failure.
    let send = |event| {
        let _ = sender.send(Told::Event(Box::new(event)));
    };
    let mut outcome = steady(plan, stop, send);
    if let (Err(ProbeError::NotPermitted { needs, .. }), true) = (&outcome, is_auto) {
        let (plan, text) = without_privilege(plan, needs);
        send(conclusion::note("probe-without-privilege", text));
        outcome = steady(&plan, stop, send);
    }
    let _ = sender.send(Told::Ended(outcome));
}

/// How to ask where the best way needs a privilege that is missing.
fn without_privilege(plan: &SteadyPlan, needs: &str) -> (SteadyPlan, String) {
    let mut plan = plan.clone();
    let text = if plan.method == SteadyMethod::Icmp {
        plan.method = SteadyMethod::Udp;
        format!(
            "Asked by UDP to port {}, which a host answers by ICMP where nobody listens: an echo \
             needs {needs}, or this group in net.ipv4.ping_group_range.",
            plan.address.port()
        )
    } else {
        plan.method = SteadyMethod::Connect;
        format!(
            "Asked by connect: a SYN of our own, whose times would be sharper, needs {needs}. \
             The round trips are the kernel's own measure of the handshake."
        )
    };
    (plan, text)
}

fn failure(error: ProbeError) -> Failure {
    match &error {
        ProbeError::NotPermitted { needs, .. } => {
            let hint = format!(
                "run it as root, give the program the right (`setcap {}+ep`), or ask by \
                 `--method connect`",
                needs.to_lowercase()
            );
            Failure::from(error).hint(hint)
        }
        ProbeError::Socket { .. } => error.into(),
    }
}

fn interval(text: &str) -> std::result::Result<Duration, String> {
    match duration::parse(text)? {
        short if short < LEAST_INTERVAL => Err("must be at least 100us".to_owned()),
        interval => Ok(interval),
    }
}

/// Whether the answer is what was asked for.
fn is_good(answer: ProbeAnswer) -> bool {
    matches!(
        answer,
        ProbeAnswer::Open | ProbeAnswer::Echo | ProbeAnswer::Datagram
    )
}
