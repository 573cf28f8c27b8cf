//! `lagtrace watch`: live requests from the kernel's view.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;
use lagtrace_core::analyzer::Analyzer;
use lagtrace_core::decode::Packet;
use lagtrace_core::event::{CaptureSummary, Event, EventBody, Phase};
use lagtrace_core::histogram::Distribution;
use lagtrace_core::report::Report;
use lagtrace_sources::kernel::{KernelError, Sighting, Standing, Watch, WatchOptions};

use crate::arguments::duration;
use crate::conclusion;
use crate::console::Console;
use crate::exit::Outcome;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::probe::{Ports, parse_ports};
use crate::words;

/// How long observations may wait in the kernel.
const PATIENCE: Duration = Duration::from_millis(20);
/// How often progress is told.
const TOLD_EVERY: Duration = Duration::from_secs(1);

const AFTER_HELP: &str = "\
Where a live server's requests spend their time, without a restart, a capture or
a stop: programs in the kernel time when each request arrived, was read,
answered, held back and sent, and the same analysis as of a capture says why.
Every request is timed in the kernel; only a sample of the connections and the
slow ones are looked at one by one where very many come.

Needs a kernel from 5.11 on that describes its types (BTF), and CAP_BPF and
CAP_PERFMON. Nothing is changed; the programs go when the command ends, however
it ends. Of the payload only the first 64 bytes of a request and 16 of a
response leave the kernel, or none with --no-payload.

Examples:
  sudo lagtrace watch -p 8080                 until Ctrl-C
  sudo lagtrace watch -p 80,443 -d 10s
  sudo lagtrace watch --pid 4711 -d 3s --format json
  sudo lagtrace watch --cgroup /system.slice/nginx.service -p 80

Coming from other tools:
  strace -f -tt -e network -p PID      watch --pid PID
  tcpdump -i any port 8080             watch -p 8080
  bpftrace tcplife, tcprtt, nettrace   watch -p 8080";

/// What to watch.
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
    /// End after this long
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse_positive)]
    duration: Option<Duration>,
    /// Look at each request that takes this long, also where only a sample is looked at
    #[arg(long, value_name = "TIME", value_parser = duration::parse_positive)]
    slow: Option<Duration>,
    /// Let no payload leave the kernel: requests are told apart by turns alone
    #[arg(long)]
    no_payload: bool,
}

/// Watches until the user or the time ends it; then reports.
pub(crate) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let interrupt = Interrupt::listen()?;
    let started = conclusion::now();
    let watch = Watch::start(&options.wanted()).map_err(refused)?;
    let mut session = Session {
        missing: watch.missing().to_vec(),
        analyzer: Analyzer::new(conclusion::options(Vec::new())),
        seen: CaptureSummary {
            name: "kernel".to_owned(),
            ..CaptureSummary::default()
        },
    };
    let end = options.duration.map(|duration| Instant::now() + duration);
    let progress = match options.duration {
        Some(duration) => console.timed("watching", duration),
        None => console.spinner("watching"),
    };
    let standing = session.follow(watch, &interrupt, end, &progress);
    progress.finish_and_clear();
    if standing.records == 0 && standing.tally.latency.is_empty() && interrupt.is_requested() {
        return Ok(Outcome::Interrupted);
    }
    let mut report = session.report(standing);
    "watch".clone_into(&mut report.command);
    report.subject = options.subject();
    report.started = conclusion::started(Some(started.as_nanos()));
    conclusion::conclude(&report, console)
}

impl Options {
    fn wanted(&self) -> WatchOptions {
        WatchOptions {
            ports: self.port.clone().map(|ports| ports.0).unwrap_or_default(),
            pid: self.pid,
            cgroup: self.cgroup.clone(),
            keeps_payload: !self.no_payload,
            slow_from: self.slow,
            without: Vec::new(),
        }
    }

    /// The same in words, for the report.
    fn subject(&self) -> String {
        let ports = self.port.iter().flat_map(|ports| &ports.0);
        let words = ports
            .map(|port| format!(":{port}"))
            .chain(self.pid.map(|pid| format!("[{pid}]")))
            .chain(self.cgroup.iter().map(|path| path.display().to_string()));
        words.collect::<Vec<_>>().join(" ")
    }
}

fn refused(error: KernelError) -> Failure {
    let hint = error.hint();
    let failure = Failure::from(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Watching under way.
struct Session {
    analyzer: Analyzer,
    /// The segments that were handed up, as of a capture.
    seen: CaptureSummary,
    /// What this kernel does not have.
    missing: Vec<String>,
}

impl Session {
    fn follow(
        &mut self,
        mut watch: Watch,
        interrupt: &Interrupt,
        end: Option<Instant>,
        progress: &ProgressBar,
    ) -> Standing {
        let begun = Instant::now();
        let (mut told, mut before) = (begun, Distribution::default());
        while !interrupt.is_requested() && end.is_none_or(|end| Instant::now() < end) {
            thread::sleep(PATIENCE);
            watch.take(|sighting| self.take(&sighting));
            let millis = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            progress.set_position(millis);
            if told.elapsed() >= TOLD_EVERY && !progress.is_hidden() {
                let now = watch.standing().tally.latency;
                progress.set_message(latest(&now, &before, told.elapsed()));
                (told, before) = (Instant::now(), now);
            }
        }
        watch.finish(|sighting| self.take(&sighting))
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

    fn report(mut self, standing: Standing) -> Report {
        let mut observe = |body| {
            let event = Event::here(conclusion::now(), Phase::Baseline, body);
            self.analyzer.observe(event);
        };
        self.seen.dropped = Some(standing.tally.lost_records);
        observe(EventBody::Watched(standing.tally));
        observe(EventBody::Capture(self.seen));
        for missing in self.missing {
            let text = format!("This kernel lacks {missing}.");
            self.analyzer
                .observe(conclusion::note("watch-missing", text));
        }
        self.analyzer.finish()
    }
}

/// What came since it was told last.
fn latest(now: &Distribution, before: &Distribution, passed: Duration) -> String {
    let mut latest = now.clone();
    latest.subtract(before);
    let quantile = |of| words::time(latest.quantile(of).unwrap_or_default());
    match latest.is_empty() {
        true => "no requests".to_owned(),
        false => format!(
            "{}, p50 {}, p99 {}",
            words::rate(latest.count() as f64 / passed.as_secs_f64()),
            quantile(0.5),
            quantile(0.99)
        ),
    }
}
