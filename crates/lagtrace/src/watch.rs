//! The command `lagtrace watch`: live requests as the kernel sees them.
//!
//! The kernel provides two kinds of data. Segments at the edge of its network stack form exchanges,
//! as in a capture. Turns are the times at which a program reads a request and writes its response,
//! and at which TCP holds data back. The analysis joins them as in `diagnose`. A request with only
//! one kind of data cannot be joined: turns that `--slow` adds to the sample have no segments, and
//! requests that a watched program sends to other services have no turns.

mod browser;
mod keys;
mod live;
mod place;
mod recent;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use lagtrace_core::analyzer::{self, Analyzer, Sink};
use lagtrace_core::decode::Packet;
use lagtrace_core::observed::event::{CaptureSummary, Event, EventBody, Phase};
use lagtrace_core::report::{Picture, Report};
use lagtrace_sources::kernel::{KernelError, Sighting, Standing, Watch, WatchOptions};
use lagtrace_sources::privilege::{NetworkNamespace, namespace_id};
use lagtrace_sources::socket::cgroup::{Group, Groups};
use lagtrace_sources::socket::survey::Choice;

use crate::analyze::listing::Listing;
use crate::analyze::show;
use crate::call_trace::CallTrace;
use crate::clock;
use crate::conclusion;
use crate::console::Console;
use crate::delivery;
use crate::duration;
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::page;
use crate::probe::{Ports, parse_ports};
use crate::render::html;
use browser::Effect;
use live::Live;

/// Maximum time for which observations wait in the kernel.
const PATIENCE: Duration = Duration::from_millis(20);

const AFTER_HELP: &str = "\
Shows where a live server's requests spend their time, without a restart, a
capture or a pause. BPF programs in the kernel record when each request
arrives, is read, answered, held back and sent, and the analysis is the same as
for a capture. Every request is timed in the kernel. At very high rates, only a
sample is examined in detail: one fortieth of the time (more if requests take
long), and with --slow every slow request.

This needs a kernel 5.11 or later with type information (BTF), CAP_BPF and
CAP_PERFMON. Nothing is changed, and the BPF programs disappear when the
command ends in any way. Only the first 64 bytes of a request and the first 16
of a response leave the kernel, or none with --no-payload.

On a terminal, a live page shows the rate, how long requests take and in which
stage, the slowest requests so far, and the findings as the evidence grows.
Enter lists single requests: the latest and the slowest. There, Enter opens one
with its waits, / selects by a condition as of `analyze --where`, s saves as
JSON lines into the current folder, Esc goes back. q ends the watch.
--format ndjson prints each exchange as it completes, one JSON object per line
(schema/exchange-1.json), and the lines of the report at the end.

Examples:
  sudo lagtrace watch -p 8080                 until Ctrl-C
  sudo lagtrace watch -p 80,443 -d 10s
  sudo lagtrace watch --pid 4711 -d 3s --format json
  sudo lagtrace watch -p 8080 --format ndjson | jq 'select(.status == 500)'
  sudo lagtrace watch --cgroup /system.slice/nginx.service -p 80
  sudo lagtrace watch -p 80 --netns shop      if several namespaces have the same address

Coming from other tools:
  strace -f -tt -e network -p PID      watch --pid PID
  tcpdump -i any port 8080             watch -p 8080
  bpftrace tcplife, tcprtt, nettrace   watch -p 8080";

/// The options of `lagtrace watch`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Services at these local ports: 80,443,8000-8010
    #[arg(short, long, value_name = "PORTS", value_parser = parse_ports)]
    port: Option<Ports>,
    /// Only connections that process PID reads or writes
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Only connections that processes of this cgroup (version 2) read or write
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    /// Only connections in this network namespace: a name of `ip netns`, a path, or the namespace
    /// of process PID
    #[arg(long, value_name = "NAME|PATH|PID")]
    netns: Option<String>,
    /// End after this long
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse_positive)]
    duration: Option<Duration>,
    /// Examine every request that takes at least this long, even if other requests are only sampled
    #[arg(long, value_name = "TIME", value_parser = duration::parse_positive)]
    slow: Option<Duration>,
    /// Keep all payload in the kernel: requests are recognised only by alternating directions
    #[arg(long)]
    no_payload: bool,
}

/// Watches until the user or the duration ends the watch; then prints the report.
pub(crate) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let started = clock::now();
    // The namespace is held open, so that no later namespace gets its number.
    let place = options.netns.as_deref().map(place::named).transpose()?;
    let wanted = WatchOptions {
        namespace: place.as_ref().map(NetworkNamespace::id),
        ..options.wanted()
    };
    // Attaching takes a while, in which nobody would read what the watch records.
    let calls = CallTrace::start(options.called()?);
    let watch = Watch::start(&wanted).map_err(refused)?;
    let lines = match console.output().form.encoder() {
        Some(encoder) => Some(Listing::of_watch(delivery::open(console)?, encoder)),
        None => None,
    };
    let mut live = Live::new(console);
    let sink = live.sink(lines.as_ref().map(Listing::sink));
    let mut session = Session {
        missing: watch.missing().to_vec(),
        calls: Some(calls),
        namespace: wanted.namespace,
        analyzer: options.analyzer(sink, console.output().is_drawn()),
        lines,
        seen: CaptureSummary {
            name: "kernel".to_owned(),
            ..CaptureSummary::default()
        },
    };
    let end = options.duration.map(|duration| Instant::now() + duration);
    let standing = session.follow(watch, &interrupt, end, &mut live);
    live.end();
    if standing.records == 0 && standing.tally.latency.is_empty() && interrupt.is_requested() {
        return Ok(Outcome::Interrupted);
    }
    let lines = session.lines.take();
    let (mut report, mut picture) = session.report(standing);
    "watch".clone_into(&mut report.command);
    report.subject = options.subject();
    report.started = clock::started(Some(started.as_nanos()));
    let Some(lines) = lines else {
        return conclusion::conclude(&report, picture, console);
    };
    let passed_on = show::passed_on(picture.as_mut());
    let shown = || html::Document::of_report(&report, picture);
    page::beside(console, shown, || {
        show::listed(lines.finish(), &report, &passed_on, console)
    })?;
    Ok(Outcome::of(&report))
}

impl Options {
    fn wanted(&self) -> WatchOptions {
        WatchOptions {
            ports: self.port.clone().map(|ports| ports.0).unwrap_or_default(),
            pid: self.pid,
            cgroup: self.cgroup.clone(),
            keeps_payload: !self.no_payload,
            slow_from: self.slow,
            ..WatchOptions::default()
        }
    }

    /// Returns the sockets whose system calls are traced.
    fn called(&self) -> Result<Choice> {
        let group = self.cgroup.iter().map(|path| path.display().to_string());
        let groups: Vec<Group> = group.map(Group::Cgroup).collect();
        let groups = if groups.is_empty() {
            None
        } else {
            Some(Groups::find(&groups).map_err(Failure::from)?)
        };
        Ok(Choice {
            ports: self.wanted().ports,
            pids: self.pid.into_iter().collect(),
            groups,
            ..Choice::default()
        })
    }

    /// Returns the analyzer for the watched requests, which passes each exchange to `sink`.
    fn analyzer(&self, sink: Option<Sink>, is_drawn: bool) -> Analyzer {
        let options = analyzer::Options {
            service_ports: self.wanted().ports,
            ..conclusion::options(Vec::new())
        };
        let analyzer = conclusion::analyzer(options, is_drawn);
        match sink {
            Some(sink) => analyzer.with_sink(sink),
            None => analyzer,
        }
    }

    /// Returns the selection of connections in words, for the report.
    fn subject(&self) -> String {
        let ports = self.port.iter().flat_map(|ports| &ports.0);
        let words = ports
            .map(|port| format!(":{port}"))
            .chain(self.pid.map(|pid| format!("[{pid}]")))
            .chain(self.cgroup.iter().map(|path| path.display().to_string()))
            .chain(self.netns.iter().map(|place| format!("in {place}")));
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Converts the error to a failure with advice on how to resolve it.
pub(crate) fn refused(error: KernelError) -> Failure {
    let hint = error.hint();
    let failure = Failure::from(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// A watch that is running.
struct Session {
    analyzer: Analyzer,
    /// The output of single exchanges.
    lines: Option<Listing>,
    /// The summary of the segments from the kernel, as for a capture.
    seen: CaptureSummary,
    /// The features that are missing in this kernel.
    missing: Vec<String>,
    /// The calls on the watched sockets.
    calls: Option<CallTrace>,
    /// The network namespace that is watched; `None` for all.
    namespace: Option<u64>,
}

impl Session {
    fn follow(
        &mut self,
        mut watch: Watch,
        interrupt: &Interrupt,
        end: Option<Instant>,
        live: &mut Live<'_>,
    ) -> Standing {
        let is_over = || end.is_some_and(|end| Instant::now() >= end);
        while !interrupt.is_requested() && !is_over() && !self.is_unread() {
            thread::sleep(PATIENCE);
            watch.take(|sighting| self.take(&sighting));
            self.calls.iter_mut().for_each(CallTrace::take);
            if let Some(lines) = &self.lines {
                lines.flush();
            }
            let shown = live.show(&mut self.analyzer, || watch.standing().tally);
            if shown == Effect::Ends {
                interrupt.request();
            }
        }
        watch.finish(|sighting| self.take(&sighting))
    }

    /// Returns true if the output's reader has exited.
    fn is_unread(&self) -> bool {
        self.lines.as_ref().is_some_and(Listing::has_failed)
    }

    fn take(&mut self, sighting: &Sighting<'_>) {
        match sighting {
            Sighting::Packet(packet) => {
                self.seen.packets += 1;
                match packet {
                    Packet::Tcp(segment, _) => self.seen.bytes += u64::from(segment.payload_len),
                    _ => self.seen.undecoded += 1,
                }
                self.analyzer.packet(packet);
            }
            Sighting::Turn(turn) => {
                let body = EventBody::Turn(Box::new((*turn).clone()));
                let event = Event::here(turn.sent_last, Phase::Baseline, body);
                self.analyzer.observe(event);
            }
        }
    }

    /// Passes the traced calls to the analysis, or notes why there are none.
    fn tell_calls(&mut self) {
        let Some(calls) = self.calls.take() else {
            return;
        };
        let mut traced = calls.finish();
        if let Some(refusal) = traced.refusal.take() {
            let text = format!(
                "Not measured: the system calls on these sockets, which would show who set \
                 TCP_NODELAY, TCP_CORK or a buffer's size: {refusal}."
            );
            let note = conclusion::note("not-measured-calls", text);
            self.analyzer.observe(note);
        }
        let own = namespace_id(std::process::id()).ok();
        traced.calls.retain(|call| {
            let of = call.socket.as_ref().and_then(|socket| socket.namespace);
            self.namespace.is_none_or(|id| of.or(own) == Some(id))
        });
        for event in traced.events() {
            self.analyzer.observe(event);
        }
    }

    fn report(mut self, standing: Standing) -> (Report, Option<Picture>) {
        self.tell_calls();
        let mut observe = |body| {
            let event = Event::here(clock::now(), Phase::Baseline, body);
            self.analyzer.observe(event);
        };
        self.seen.dropped = Some(standing.tally.lost_records);
        observe(EventBody::Watched(standing.tally));
        observe(EventBody::Capture(self.seen));
        for missing in self.missing {
            let text = format!("This kernel does not offer {missing}.");
            self.analyzer
                .observe(conclusion::note("watch-missing", text));
        }
        self.analyzer.finish_with_picture()
    }
}
