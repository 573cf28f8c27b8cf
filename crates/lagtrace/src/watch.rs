//! The command `lagtrace watch`: live requests as the kernel sees them.
//!
//! The kernel provides two kinds of data. Segments at the edge of its network stack form exchanges,
//! as in a capture. Turns are the times at which a program reads a request and writes its response,
//! and at which TCP holds data back. The analysis joins them as in `diagnose`. A request with only
//! one kind of data cannot be joined: turns that `--slow` adds to the sample have no segments, and
//! requests that a watched program sends to other services have no turns. On connections with
//! HTTP/2, requests overtake each other: there, segments alone show the requests, and the kernel
//! reports when which of their bytes were read, written and sent.

mod browser;
mod conclusions;
mod counted;
mod editor;
mod ends;
mod keys;
mod listeners;
mod live;
mod place;
mod recent;
mod serving;
mod session;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use lagtrace_core::analyzer::{self, Analyzer, Sink};
use lagtrace_core::observed::event::CaptureSummary;
use lagtrace_core::observed::time::Timestamp;
use lagtrace_core::report::{Picture, Report};
use lagtrace_core::views::picture::Keeps;
use lagtrace_sources::keeper::{Observed, ObservedCalls, Processes};
use lagtrace_sources::kernel::{KernelError, Watch, WatchOptions};
use lagtrace_sources::privilege::NetworkNamespace;
use lagtrace_sources::socket::cgroup::{Group, Groups};
use lagtrace_sources::socket::survey::Choice;

use crate::analyze::listing::Listing;
use crate::analyze::show;
use crate::call_trace::CallTrace;
use crate::clock;
use crate::conclusion;
use crate::confinement::Needs;
use crate::console::Console;
use crate::delivery;
use crate::duration;
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::page;
use crate::probe::{Ports, parse_ports};
use crate::render::html;
use crate::view::serve;
use conclusions::Conclusions;
use counted::ServerCounters;
use editor::Editor;
use ends::ProcessEnds;
pub(crate) use keys::restore as restore_terminal;
use live::Live;
use serving::Serving;
use session::Session;

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
of a response leave the kernel, the segments of HTTP/2 in clear text, in which
frames begin anywhere, and those of TLS handshakes, with the first response; or
none with --no-payload.

On a terminal, a live page shows the rate, how long requests take and in which
stage, the slowest requests so far, and the findings as the evidence grows.
Enter lists single requests: the latest and the slowest. There, Enter opens one
with its waits, / selects by a condition as of `analyze --where`, s saves as
JSON lines into the current folder, Esc goes back. q ends the watch.
--format ndjson prints each exchange as it completes, one JSON object per line
(schema: exchange-1.json, with the documentation), and the lines of the report
at the end.

--serve shows the same page as --html in a browser, while the watch runs: it
follows the figures and can be paused. The URL is printed at the start. The page
ends with the watch; --html FILE keeps it. It is served at a path that cannot be
guessed, and on this host only, unless ADDR says otherwise.

Examples:
  sudo lagtrace watch -p 8080                 until Ctrl-C
  sudo lagtrace watch -p 80,443 -d 10s
  sudo lagtrace watch --pid 4711 -d 3s --format json
  sudo lagtrace watch -p 8080 --format ndjson | jq 'select(.status == 500)'
  sudo lagtrace watch --cgroup /system.slice/nginx.service -p 80
  sudo lagtrace watch -p 8080 --serve --html kept.html
  sudo lagtrace watch -p 80 --netns shop      if several namespaces have the same address

Coming from other tools:
  strace -f -tt -e network -p PID      watch --pid PID
  tcpdump -i any port 8080             watch -p 8080
  bpftrace tcplife, tcprtt, nettrace   watch -p 8080";

/// The folder into which the browser of exchanges saves.
const SAVED_IN: &str = ".";

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
    /// Serve the page of the figures so far at ADDR [default: a free port of 127.0.0.1]
    #[arg(
        long,
        value_name = "ADDR",
        num_args = 0..=1,
        require_equals = true,
        value_parser = serve::parse_address
    )]
    serve: Option<Option<SocketAddr>>,
}

impl Options {
    /// Returns what the watch needs although it is confined.
    pub(crate) fn needs(&self) -> Needs {
        let mut needs = Needs::network();
        let wanted = self.wanted();
        let names_any = !wanted.ports.is_empty() || self.pid.is_some() || self.cgroup.is_some();
        needs.scope.observed = Observed::Named {
            calls: names_any.then(|| ObservedCalls {
                ports: wanted.ports.clone(),
                pids: self.pid.into_iter().collect(),
                groups: self.group().into_iter().collect(),
                has_accepts: true,
            }),
            watch: Some(Box::new(wanted)),
        };
        let pid = self.netns.as_deref().and_then(|place| place.parse().ok());
        needs.scope.processes = match (pid, self.pid) {
            (Some(pid), _) => Processes::NamespaceOf(pid),
            (None, Some(pid)) => Processes::Sockets(vec![pid]),
            (None, None) => Processes::Servers(self.wanted().ports),
        };
        needs.scope.namespace = self.netns.clone();
        needs.scope.saves_in = Some(SAVED_IN.into());
        needs.rules.ports = Some(Vec::new());
        needs.scope.serves_at = self.serve.map(|address| address.unwrap_or(serve::DEFAULT));
        needs
    }
}

/// The subject and the start of a watch, for its report.
#[derive(Clone, Debug)]
struct WatchedSubject {
    subject: String,
    started: String,
}

/// Watches until the user or the duration ends the watch; then prints the report.
pub(crate) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let about = options.about(clock::now());
    // The namespace is held open, so that no later namespace gets its number.
    let place = options.netns.as_deref().map(place::named).transpose()?;
    let wanted = WatchOptions {
        namespace: place.as_ref().map(NetworkNamespace::id),
        ..options.wanted()
    };
    // Attaching takes a while, in which nobody would read what the watch records.
    let calls = CallTrace::start(options.called()?);
    let watch = Watch::start(&wanted).map_err(refused)?;
    let listeners = listeners::listeners(options);
    let remark = listeners
        .as_deref()
        .and_then(|all| listeners::remark(options, all));
    if let Some(remark) = remark {
        console.note(&remark);
    }
    let counters = ServerCounters::begin(options, listeners.as_deref());
    let ends = ProcessEnds::new(options, &listeners.unwrap_or_default());
    let serving = options.serving(&about, console)?;
    let lines = match console.output().form.encoder() {
        Some(encoder) => Some(Listing::of_watch(delivery::open(console, true)?, encoder)),
        None => None,
    };
    let mut live = Live::new(console);
    let sink = live.sink(lines.as_ref().map(Listing::sink));
    let is_drawn = console.output().is_drawn() || serving.is_some();
    let mut session = Session {
        missing: watch.missing().to_vec(),
        calls: Some(calls),
        ends,
        counters,
        namespace: wanted.namespace,
        analyzer: options.analyzer(sink, is_drawn),
        lines,
        seen: CaptureSummary {
            name: "kernel".to_owned(),
            ..CaptureSummary::default()
        },
        conclusions: conclusions(&live, serving.as_ref()),
    };
    let began = Instant::now();
    let end = options.duration.map(|duration| began + duration);
    let standing = session.follow(watch, &interrupt, end, &mut live, console);
    live.end();
    let has_seen = standing.records > 0 || !standing.tally.latency.is_empty();
    let is_empty = !has_seen && interrupt.is_requested();
    session.tell_copies(console);
    let lines = session.lines.take();
    let (mut report, picture) = session.report(standing);
    about.name(&mut report);
    report.took_ns = u64::try_from(began.elapsed().as_nanos()).ok();
    if let Some(serving) = &serving {
        serving.editor().publish_last(&report, picture.clone());
    }
    let outcome = conclude(&report, picture, lines, console);
    if let Some(serving) = serving {
        serving.end(&interrupt, console)?;
    }
    match outcome {
        Ok(_) if is_empty => Ok(Outcome::Interrupted),
        outcome => outcome,
    }
}

/// Returns the conclusions that the page of a terminal and the page of a browser need.
fn conclusions(live: &Live<'_>, serving: Option<&Serving>) -> Conclusions {
    let editor = serving.map(|serving| Arc::clone(serving.editor()));
    let pause = (editor.is_some() || live.is_shown()).then_some(live::REDRAW);
    Conclusions::new(pause, editor)
}

/// Prints the report, after the lines of single exchanges if they are printed.
fn conclude(
    report: &Report,
    mut picture: Option<Picture>,
    lines: Option<Listing>,
    console: &Console,
) -> Result<Outcome> {
    let Some(lines) = lines else {
        return conclusion::conclude(report, picture, console);
    };
    let passed_on = show::passed_on(picture.as_mut());
    let shown = || html::Document::of_report(report, picture);
    page::beside(console, shown, || {
        show::listed(lines.finish(), report, &passed_on, console)
    })?;
    Ok(Outcome::of(report))
}

impl WatchedSubject {
    /// Names the report after the watch.
    fn name(&self, report: &mut Report) {
        "watch".clone_into(&mut report.command);
        self.subject.clone_into(&mut report.subject);
        self.started.clone_into(&mut report.started);
    }
}

impl Options {
    /// Returns true if the page is served.
    pub(crate) fn is_served(&self) -> bool {
        self.serve.is_some()
    }

    fn about(&self, started: Timestamp) -> WatchedSubject {
        WatchedSubject {
            subject: self.subject(),
            started: clock::started(Some(started.as_nanos())),
        }
    }

    /// Starts to serve the page, if that is requested.
    fn serving(&self, about: &WatchedSubject, console: &Console) -> Result<Option<Serving>> {
        let Some(address) = self.serve else {
            return Ok(None);
        };
        let nothing = self.analyzer(None, false).finish();
        let editor = Editor::new(about.clone(), page::redaction(console.output()), nothing);
        let address = address.unwrap_or(serve::DEFAULT);
        Serving::start(address, Arc::new(editor), console).map(Some)
    }

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

    fn group(&self) -> Option<Group> {
        let path = self.cgroup.as_ref()?;
        Some(Group::Cgroup(path.display().to_string()))
    }

    /// Returns the sockets whose system calls are traced.
    fn called(&self) -> Result<Choice> {
        let groups = self.group().map(|group| Groups::find(&[group]));
        let groups = groups.transpose().map_err(Failure::from)?;
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
        let analyzer = conclusion::live_analyzer(options, is_drawn, Keeps::Latest);
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
