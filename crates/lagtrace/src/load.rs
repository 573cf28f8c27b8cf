//! `lagtrace load`: concurrent requests, and how long they really took.

mod hdr;
mod steps;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use clap::{ArgAction, Args};
use lagtrace_core::analyzer::Analyzer;
use lagtrace_core::event::{Event, EventBody, Phase, TargetId};
use lagtrace_core::experiment::Experiment;
use lagtrace_core::report::Report;
use lagtrace_sources::load::{
    self, Ending, Lane, LaneSummary, Method, Pace, Plan, Progress, SocketOptions, Summary, Target,
};
use lagtrace_sources::tls::Carried;
use lagtrace_sources::url::Url;

use crate::arguments::tls::{self, Tls};
use crate::arguments::{Format, duration};
use crate::conclusion;
use crate::console::Console;
use crate::delivery::deliver;
use crate::diagnose::DURATION;
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::lookup::{self, Family};
use crate::render;
use crate::words;
use hdr::Seconds;
use steps::Steps;

/// More connections than this take `--heavy`.
const USUAL_CONNECTIONS: u32 = 2_000;
/// So does a higher rate.
const USUAL_RATE: f64 = 20_000.0;
/// Failures before a run may be broken off for them …
const MANY_FAILURES: u64 = 200;
/// … if at least this share of all requests fails.
const FAILING_SHARE: f64 = 0.5;
/// The longest run that ends with a number of requests.
const LONGEST_COUNTED: Duration = Duration::from_secs(3600);
/// Longest request body read from a file.
const MAX_BODY: u64 = 64 * 1024 * 1024;
/// The load warms up for this share of its duration, within bounds.
const WARM_UP_SHARE: f64 = 0.05;

/// What to ask for, and how hard.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Without --rate each connection asks again as soon as it was answered (closed
loop): the slower the service, the fewer requests, and a stall that would have
met a thousand users meets as many requests as there are connections. With
--rate requests are due by the clock, and a request's latency begins when it
was due: that is what users see. Both are printed where they differ.

A timeout counts with its age. Where the generator itself was the limit, the
report says so and judges nothing.

Examples:
  lagtrace load http://shop.example:8080/
  lagtrace load http://10.0.0.5/slow -c 20 -d 30s
  lagtrace load http://10.0.0.5/slow --rate 500 -d 1m
  lagtrace load http://10.0.0.5/api -X POST -H 'Content-Type: application/json' --body order.json
  lagtrace load http://10.0.0.5/ --fresh                 a connection for each request
  lagtrace load http://10.0.0.5/ -n 10000 -c 10          exactly so many requests
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
  -H, -m/-X, -d @FILE            -H, -X, --body FILE")]
pub(crate) struct Options {
    // No doc comment: rustdoc would take the brackets for a link.
    #[arg(help = "The service, http[s]://HOST[:PORT]/PATH")]
    url: String,
    #[command(flatten)]
    load: crate::diagnose::Load,
    /// Not counted at the beginning; without it a twentieth of the duration,
    /// between 100 and 500 ms
    #[arg(long, alias = "warmup", value_name = "TIME", value_parser = duration::parse)]
    warm_up: Option<Duration>,
    /// Write the latencies of each second to FILE as an HdrHistogram log (V2,
    /// compressed)
    #[arg(long, value_name = "FILE")]
    hdr: Option<PathBuf>,
    /// Stop after N requests, answered or failed; none is warm-up, and without
    /// -d it may take up to an hour
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "warm_up")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Allow more than 2,000 connections and 20,000 requests a second
    #[arg(long)]
    heavy: bool,
    /// Go on also when most requests fail
    #[arg(long)]
    keep_going: bool,
    #[command(flatten)]
    steps: Steps,
    #[command(flatten)]
    request: Request,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    tls: Tls,
}

/// The request.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Request")]
struct Request {
    /// The method
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "GET", value_parser = method)]
    method: Method,
    /// A header field; takes the place of lagtrace's own of that name
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = field)]
    headers: Vec<String>,
    /// Send FILE as the body of each request
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
}

/// The connections.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connections")]
struct Connection {
    /// Open a connection for each request
    #[arg(long, conflicts_with_all = ["think", "quickack", "pipeline", "streams"])]
    fresh: bool,
    /// Pause on a connection between a response and its next request
    #[arg(long, value_name = "TIME", value_parser = duration::parse_positive)]
    #[arg(conflicts_with_all = ["quickack", "pipeline", "streams"])]
    think: Option<Duration>,
    /// Acknowledge at once (TCP_QUICKACK)
    #[arg(long)]
    quickack: bool,
    /// Set TCP_NODELAY on our side, which is the default
    #[arg(long, overrides_with = "nagle")]
    nodelay: bool,
    /// Leave Nagle's algorithm on, on our side
    #[arg(long, overrides_with = "nodelay")]
    nagle: bool,
    /// Send up to N requests on a connection before the first is answered
    /// (HTTP/1.1 pipelining)
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pipeline: u32,
    /// Speak HTTP/2: by prior knowledge, over TLS as agreed by ALPN
    #[arg(long, conflicts_with = "pipeline")]
    http2: bool,
    /// Streams that a connection of HTTP/2 may have open at once
    #[arg(long, value_name = "N", default_value_t = 1, requires = "http2")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    streams: u32,
    /// Receive buffer of each socket, in bytes (SO_RCVBUF)
    #[arg(long, value_name = "BYTES")]
    rcvbuf: Option<u32>,
    /// Send buffer of each socket, in bytes (SO_SNDBUF)
    #[arg(long, value_name = "BYTES")]
    sndbuf: Option<u32>,
    /// Connect from these addresses of this host in turn
    #[arg(long, value_name = "IP,…", value_delimiter = ',')]
    source: Vec<IpAddr>,
    /// Connect to the Unix socket PATH; the URL's host is only asked for
    #[arg(long, value_name = "PATH", conflicts_with_all = ["address", "source", "ipv4", "ipv6"])]
    #[arg(conflicts_with_all = ["quickack", "nagle", "nodelay"])]
    unix_socket: Option<PathBuf>,
    /// Connect to IP instead of resolving the URL's host, which is still asked for
    #[arg(long, value_name = "IP", conflicts_with_all = ["ipv4", "ipv6"])]
    address: Option<IpAddr>,
    /// Use IPv4 only
    #[arg(short = '4', action = ArgAction::SetTrue, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', action = ArgAction::SetTrue)]
    ipv6: bool,
}

/// Loads the service and says how long its answers took.
pub(crate) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    options.check()?;
    let mut events = Vec::new();
    let plan = options.plan(console, &mut events)?;
    let run = Run {
        options,
        console,
        interrupt: &interrupt,
        events,
    };
    let report = match options.steps.plans(&plan, options.warm_up)? {
        None => run.once("load", &plan)?,
        Some((over, plans)) => run.in_steps(over, &plans)?,
    };
    match report {
        Some(report) => conclude(&report, console),
        None => Ok(Outcome::Interrupted),
    }
}

/// What all loads of a call have in common.
struct Run<'a> {
    options: &'a Options,
    console: &'a Console,
    interrupt: &'a Interrupt,
    /// What was learned before the first.
    events: Vec<Event>,
}

impl Run<'_> {
    /// Carries out one plan; `None` if it was interrupted before anything was
    /// measured.
    fn once(&self, name: &str, plan: &Plan) -> Result<Option<Report>> {
        let started = conclusion::now();
        let targets = plan.lanes.iter().map(|lane| &lane.target);
        let targets = targets.map(|target| (target.id, target.endpoint()));
        let mut analyzer = Analyzer::new(conclusion::options(targets.collect()));
        for event in &self.events {
            analyzer.observe(event.clone());
        }
        let (summary, is_failing) = self.measure(name, plan, &mut analyzer)?;
        let is_empty = |lane: &LaneSummary| lane.responses() + lane.failed() == 0;
        if summary.lanes.iter().all(is_empty) && self.interrupt.is_requested() {
            return Ok(None);
        }
        if let Some((id, text)) = remarks(&summary, is_failing, self.interrupt) {
            analyzer.observe(conclusion::note(id, text));
        }
        let mut report = analyzer.finish();
        "load".clone_into(&mut report.command);
        report.subject.clone_from(&self.options.url);
        report.started = conclusion::started(Some(started.as_nanos()));
        Ok(Some(report))
    }

    /// Carries out ascending plans, to the first that is no use.
    fn in_steps(&self, over: &str, plans: &[Plan]) -> Result<Option<Report>> {
        let mut reports: Vec<Report> = Vec::new();
        for (number, plan) in (1..).zip(plans) {
            let name = format!("step {number}/{}", plans.len());
            let Some(report) = self.once(&name, plan)? else {
                break;
            };
            let answers = report.load.as_ref().is_some_and(|load| load.responses > 0);
            reports.push(report);
            if self.interrupt.is_requested() || !answers {
                break;
            }
        }
        Ok(steps::join(over, reports))
    }

    /// Runs the plan; also whether it was broken off because most requests failed.
    fn measure(&self, name: &str, plan: &Plan, analyzer: &mut Analyzer) -> Result<(Summary, bool)> {
        let bar = self.console.timed(name, plan.warm_up + plan.duration);
        let is_failing = AtomicBool::new(false);
        let progress = |now: Progress| {
            let passed = match plan.requests {
                Some(all) => now.of.mul_f64((now.requests as f64 / all as f64).min(1.0)),
                None => now.elapsed,
            };
            bar.set_position(u64::try_from(passed.as_millis()).unwrap_or(u64::MAX));
            bar.set_message(live(&now));
            let share = now.failures as f64 / now.requests.max(1) as f64;
            // What the end cuts off is no failure of the service.
            let is_under_way = now.elapsed < now.of;
            let fails = now.failures >= MANY_FAILURES && share >= FAILING_SHARE;
            if fails && is_under_way && !self.options.keep_going {
                is_failing.store(true, Ordering::Relaxed);
                self.interrupt.request();
            }
        };
        let mut seconds = Seconds::default();
        let summary = load::run(plan, &progress, self.interrupt.flag(), |event| {
            seconds.observe(&event);
            // Which flow belongs to which phase matters to packets only, and a run
            // of fresh connections has more of them than anybody wants to remember.
            if !matches!(event.body, EventBody::FlowPhase(_)) {
                analyzer.observe(event);
            }
        });
        bar.finish_and_clear();
        let summary = summary?;
        if let Some(path) = &self.options.hdr {
            let begun = u64::try_from(summary.counted_from.as_nanos()).unwrap_or(0);
            seconds.save(path, SystemTime::UNIX_EPOCH + Duration::from_nanos(begun))?;
        }
        Ok((summary, is_failing.into_inner()))
    }
}

/// The last second in words.
fn live(now: &Progress) -> String {
    let recent = &now.recent;
    let mut text = format!("{}/s", words::rate(recent.rate));
    for (name, value) in [("p50", recent.p50), ("p99", recent.p99)] {
        if let Some(value) = value {
            text.push_str(&format!(" {name} {}", words::time(value)));
        }
    }
    match (recent.failures, now.failures) {
        (_, 0) => {}
        (recent, all) => text.push_str(&format!(
            ", {} failed, {} in all",
            words::count(recent),
            words::count(all)
        )),
    }
    text
}

/// How long a load that lasts so long warms up.
fn warm_up(whole: Duration) -> Duration {
    let share = whole.mul_f64(WARM_UP_SHARE);
    share.clamp(Duration::from_millis(100), Duration::from_millis(500))
}

fn conclude(report: &Report, console: &Console) -> Result<Outcome> {
    let document = match console.output().format {
        Format::Text => render::load(report, &console.style()),
        Format::Json => render::json(report),
        Format::Ndjson => render::ndjson(report),
    };
    deliver(console, &document)?;
    let is_bad = |status: &str| status.parse::<u16>().map_or(true, |status| status >= 400);
    let fails = report.load.as_ref().is_none_or(|load| {
        load.responses == 0 || load.outcomes.iter().any(|outcome| is_bad(&outcome.status))
    });
    Ok(if fails {
        Outcome::Found
    } else {
        Outcome::Clean
    })
}

impl Options {
    fn check(&self) -> Result<()> {
        if self.heavy {
            return Ok(());
        }
        let hint = "add --heavy if the service may be loaded so hard";
        let (connections, rate) = self.steps.heaviest();
        let connections = connections.unwrap_or(self.load.connections);
        if connections > USUAL_CONNECTIONS {
            let told = format!(
                "{} connections are more than {}",
                words::count(connections.into()),
                words::count(USUAL_CONNECTIONS.into())
            );
            return Err(Failure::new(told).hint(hint));
        }
        match rate.or(self.load.rate) {
            Some(rate) if rate > USUAL_RATE => {
                let told = format!(
                    "{} requests a second are more than {}",
                    words::rate(rate),
                    words::rate(USUAL_RATE)
                );
                Err(Failure::new(told).hint(hint))
            }
            _ => Ok(()),
        }
    }

    fn plan(&self, console: &Console, events: &mut Vec<Event>) -> Result<Plan> {
        let url: Url = self
            .url
            .parse()
            .map_err(|error| Failure::from(error).hint("give it as http[s]://HOST[:PORT]/PATH"))?;
        let carried = match self.connection.http2 {
            true => Carried::Http2,
            false => Carried::Http1,
        };
        let tls = self.tls.client([&url], carried)?;
        let unix = self.connection.unix_socket.as_ref();
        let address = match self.connection.address {
            Some(address) => address,
            None if unix.is_some() => Ipv4Addr::LOCALHOST.into(),
            None => {
                let family = Family {
                    ipv4: self.connection.ipv4,
                    ipv6: self.connection.ipv6,
                };
                lookup::address(url.host(), family, events)?
            }
        };
        console.detail(&match unix {
            Some(path) => format!("connecting to {}", path.display()),
            None => format!("connecting to {address}, port {}", url.port()),
        });
        let mut plan = Plan::new(vec![Lane {
            target: Target {
                id: TargetId::Subject,
                address: SocketAddr::new(address, url.port()),
                url,
                method: self.request.method,
                fields: self.request.headers.clone(),
                body: self.body()?,
            },
            phase: Phase::Baseline,
            experiment: self.connection.manner(),
            connections: self.connections(),
        }]);
        plan.pace = self.load.rate.map_or(Pace::ClosedLoop, Pace::Rate);
        plan.timeout = self.load.timeout;
        plan.threads = self.load.threads.into();
        plan.nodelay = !self.connection.nagle;
        plan.tls = tls;
        plan.http2 = self.connection.http2;
        plan.at_once = match plan.http2 {
            true => self.connection.streams,
            false => self.connection.pipeline,
        };
        plan.sockets = self.connection.sockets();
        plan.requests = self.requests;
        let whole = match (self.requests, self.load.duration) {
            (Some(_), None) => LONGEST_COUNTED,
            (_, duration) => duration.unwrap_or(DURATION),
        };
        plan.warm_up = self.warm_up.unwrap_or(match self.requests {
            Some(_) => Duration::ZERO,
            None => warm_up(whole),
        });
        plan.duration = whole
            .checked_sub(plan.warm_up)
            .filter(|left| !left.is_zero())
            .ok_or_else(|| {
                Failure::new("the warm-up takes the whole duration").hint("make -d longer")
            })?;
        Ok(plan)
    }

    /// No more than there are requests for.
    fn connections(&self) -> u32 {
        let most = u32::try_from(self.requests.unwrap_or(u64::MAX)).unwrap_or(u32::MAX);
        self.load.connections.min(most)
    }

    fn body(&self) -> Result<Vec<u8>> {
        let Some(path) = &self.request.body else {
            return Ok(Vec::new());
        };
        let name = path.display();
        let length = std::fs::metadata(path)
            .with_context(|| format!("read {name}"))?
            .len();
        if length > MAX_BODY {
            return Err(Failure::new(format!("{name} is longer than 64 MiB")));
        }
        Ok(std::fs::read(path).with_context(|| format!("read {name}"))?)
    }
}

impl Connection {
    fn sockets(&self) -> SocketOptions {
        let bytes = |bytes: Option<u32>| bytes.map(|bytes| bytes as usize);
        SocketOptions {
            unix: self.unix_socket.clone(),
            sources: self.source.clone(),
            receive_buffer: bytes(self.rcvbuf),
            send_buffer: bytes(self.sndbuf),
        }
    }

    /// What is different about its connections.
    fn manner(&self) -> Option<Experiment> {
        match (self.fresh, self.think, self.quickack) {
            (true, ..) => Some(Experiment::FreshConnection),
            (_, Some(pause), _) => Some(Experiment::ThinkTime { pause }),
            (.., true) => Some(Experiment::QuickAck),
            _ => None,
        }
    }
}

/// What must be known to read the figures.
fn remarks(
    summary: &Summary,
    is_failing: bool,
    interrupt: &Interrupt,
) -> Option<(&'static str, String)> {
    if let Some(fault) = &summary.tls_fault {
        return Some(("tls-failed", tls::sentence(fault)));
    }
    if let Ending::NothingConnected(failure) = summary.ending {
        let text = format!(
            "No connection could be made at all ({}): the load ended early.",
            failure.name()
        );
        return Some(("nothing-connected", text));
    }
    if is_failing {
        let text = "Broken off: most requests failed, and more of them would only do harm. \
                    --keep-going goes on all the same.";
        return Some(("load-broken-off", text.to_owned()));
    }
    interrupt.is_requested().then(|| {
        let text = "Interrupted: the figures are of what was measured until then.";
        ("interrupted", text.to_owned())
    })
}

fn method(text: &str) -> std::result::Result<Method, String> {
    Method::of(text).ok_or_else(|| {
        let known: Vec<&str> = Method::ALL.iter().map(|method| method.as_str()).collect();
        format!(
            "`{text}` is no method that lagtrace sends: {}",
            known.join(", ")
        )
    })
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
            "`{text}` is no header field: write it as NAME: VALUE"
        )),
    }
}
