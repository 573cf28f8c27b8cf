//! The investigation performed by `lagtrace diagnose`, layer by layer: each step clears or accuses
//! one layer.
//!
//! A step observes through one source, prints its result in a line and passes its observations to
//! the [`Feed`]. Only the analyzer interprets the observations. If a step cannot run, it leaves a
//! remark, and the next step starts.

use std::time::{Duration, Instant};

use lagtrace_core::observed::event::{EventBody, KernelRoute, Note, TargetId, Upstream};
use lagtrace_core::observed::flow::Endpoint;
use lagtrace_core::observed::load_level::SentRequests;
use lagtrace_core::ramp::Load;
use lagtrace_core::report::{Picture, Report};
use lagtrace_sources::load::Target;
use lagtrace_sources::privilege::HostError;
use lagtrace_sources::processors::{ProcessorTimes, UsualUse};
use lagtrace_sources::socket::foreign::Server;
use lagtrace_sources::tls::TlsClient;

use crate::clock;
use crate::conclusion::{self, About};
use crate::console::Console;
use crate::diagnose::Options;
use crate::exit::Outcome;
use crate::failure::Result;
use crate::interrupt::Interrupt;

mod configuration;
mod experiments;
mod feed;
mod keeper;
mod kernel;
mod load;
mod loaded_probes;
mod observation;
mod packets;
mod quota;
mod ramp;
mod recorder;
mod request;
mod resolve;
mod round_trip;
mod route;
mod server;
mod suspects;
mod timers;
mod trace;
mod upstreams;
mod verify;
mod what_if;

use feed::Feed;
use keeper::{Head, Keeper};
use recorder::Recorder;

/// The note on a service that is reached by a Unix socket.
const UNIX_SOCKET: &str = "The service was reached by a Unix socket, which has no packets, no round \
    trip and no acknowledgements: only the times of the requests were measured. `lagtrace watch` \
    shows the server's side.";

/// Runs all steps and prints the report, or with `--verify` its comparison with an earlier report.
pub(crate) fn run(options: &Options, console: &Console) -> Result<Outcome> {
    let before = verify::baseline(options)?;
    server::check_place(options)?;
    let began = clock::now();
    let started = clock::started(Some(began.as_nanos()));
    let Some(mut investigation) = Investigation::begin(options, &started, console)? else {
        let about = About {
            command: "diagnose",
            subject: options.subject(),
            started: began,
        };
        return conclusion::interrupted(about, console);
    };
    investigation.pace.before = before.as_ref().and_then(verify::judged);
    investigation.walk()?;
    let (mut report, picture) = investigation.conclude();
    report.started = started;
    let expected = options.request.answer.check(&mut report);
    let is_whole = report
        .overall
        .as_ref()
        .is_none_or(|overall| !overall.is_interrupted);
    let outcome = match before.filter(|_| is_whole) {
        Some(before) => verify::conclude(&before, &report, console)?,
        None => conclusion::conclude(&report, picture, console)?,
    };
    Ok(match outcome {
        Outcome::Clean if expected == Some(false) => Outcome::Found,
        outcome => outcome,
    })
}

/// The state of the investigation.
struct Investigation<'a> {
    options: &'a Options,
    console: &'a Console,
    interrupt: Interrupt,
    /// The time at which the user started the command.
    begun: Instant,
    feed: Feed,
    /// The service to investigate, then the healthy service to compare with (the control), if there
    /// is one.
    sites: Vec<Site>,
    recorder: Option<Recorder>,
    /// The file that holds the captured packets.
    kept_in: Option<String>,
    /// The client's side of TLS. All steps share it, so later steps resume sessions of earlier
    /// ones.
    tls: Option<TlsClient>,
    /// True once the load has ended as planned: later steps only explain what it measured.
    has_measured: bool,
    /// What the parts of the load go by.
    pace: Pacing,
    /// The requests that were sent so far.
    sent: SentRequests,
    /// The number of requests that the remaining parts of the load may send; `None`: any number.
    quota: Option<u64>,
}

/// What earlier steps showed of the subject, which the parts of the load go by.
struct Pacing {
    /// The median time of single requests to the subject before the load.
    idle: Option<Duration>,
    /// The time for which the service did not answer single requests as it does when it is idle.
    unsettled_for: Duration,
    /// The processor times of all processes at the beginning.
    at_first: Option<ProcessorTimes>,
    /// Who uses the processors apart from the load.
    usual: Option<UsualUse>,
    /// The load that the user asked for in the earlier run that this one verifies, and the load at
    /// which delay was judged then. Other loads cannot be compared.
    before: Option<(Load, Load)>,
    /// The load at which delay is judged.
    judged: Load,
    /// The median response time of the subject, and its responses per second.
    typical: Option<Duration>,
    carries: Option<f64>,
    /// The longest time by which a run of load exceeded its plan, including the time until the last
    /// requests ended.
    overrun: Duration,
}

/// A target and its surroundings.
struct Site {
    target: Target,
    route: Option<KernelRoute>,
    /// The target's program, if it runs on this host.
    server: Option<Server>,
    /// The upstreams that this program calls.
    upstreams: Vec<Upstream>,
    /// True if a connection could be established.
    is_open: bool,
}

impl Site {
    /// Returns the target's address behind NAT of this host, which its packets have; `None` if it is
    /// not translated.
    fn translated(&self) -> Option<Endpoint> {
        let own = self.server.as_ref()?.endpoint();
        (own != self.target.endpoint() && !own.addr.is_unspecified()).then_some(own)
    }
}

impl<'a> Investigation<'a> {
    /// Finds the targets; returns `None` if the user stopped the command.
    fn begin(options: &'a Options, started: &str, console: &'a Console) -> Result<Option<Self>> {
        let interrupt = Interrupt::listen()?;
        let begun = Instant::now();
        let keep = options.network.observations.as_deref();
        let mut keeper = keep.map(Keeper::create).transpose()?;
        packets::check_file(options)?;
        let Some((sites, events)) = resolve::run(options, console, &interrupt)? else {
            return Ok(None);
        };
        let urls = sites.iter().map(|site| &site.target.url);
        let tls = options.tls.client(urls, options.request.carried())?;
        let targets = sites
            .iter()
            .map(|site| (site.target.id, site.target.endpoint()));
        let targets: Vec<_> = targets.collect();
        if let Some(keeper) = &mut keeper {
            keeper.begin(&Head {
                lagtrace: env!("CARGO_PKG_VERSION"),
                subject: options.subject(),
                started,
                targets: &targets,
            });
        }
        let quota = quota::agreed(options, &sites, console)?;
        let mut feed = Feed::new(targets, keeper, console.output().is_drawn());
        feed.observe_all(events);
        Ok(Some(Self {
            options,
            console,
            interrupt,
            begun,
            feed,
            sites,
            recorder: None,
            kept_in: None,
            tls,
            has_measured: false,
            pace: Pacing {
                idle: None,
                unsettled_for: Duration::ZERO,
                at_first: ProcessorTimes::read(None),
                usual: None,
                before: None,
                judged: Load {
                    connections: options.load.connections(),
                    rate: options.load.rate,
                },
                typical: None,
                carries: None,
                overrun: Duration::ZERO,
            },
            sent: SentRequests::default(),
            quota,
        }))
    }

    /// Runs the steps in order. Ctrl-C ends the current step and skips the remaining ones.
    fn walk(&mut self) -> Result<()> {
        let expected = self.options.request.answer.expectation();
        self.feed.observe_all(expected);
        if self.is_local() {
            return self.walk_locally();
        }
        self.step(Self::route)?;
        self.step(Self::round_trip)?;
        self.step(Self::find_servers)?;
        if self.subject().is_open {
            self.step(Self::request)?;
        }
        if self.subject().is_open {
            self.step(Self::trace)?;
            self.step(Self::load)?;
            self.step(Self::experiments)?;
            self.step(Self::what_if)?;
            self.end_capture();
        }
        self.step(Self::configuration)?;
        self.step(Self::timers)?;
        self.step(Self::suspects)
    }

    /// Runs the steps that a service at a Unix socket allows.
    fn walk_locally(&mut self) -> Result<()> {
        self.note("unix-socket", UNIX_SOCKET);
        self.step(Self::request)?;
        if self.subject().is_open {
            self.step(Self::load)?;
        }
        Ok(())
    }

    /// Returns true if the service is reached by a Unix socket.
    fn is_local(&self) -> bool {
        self.options.request.way.unix_socket.is_some()
    }

    /// Returns the report, and the picture if it is drawn.
    fn conclude(mut self) -> (Report, Option<Picture>) {
        let interrupted_after = (self.interrupt.is_requested()).then(|| self.begun.elapsed());
        if interrupted_after.is_some() {
            self.note(
                "interrupted",
                "Interrupted: the remaining steps were not carried out.",
            );
        }
        if self.sent.all > 0 {
            self.feed.observe_now(EventBody::Sent(self.sent));
        }
        let subject = self.options.subject().to_owned();
        let (mut report, picture) = self.feed.finish();
        "diagnose".clone_into(&mut report.command);
        report.subject = subject;
        if let Some(capture) = &mut report.capture {
            capture.written = self.kept_in;
        }
        if let Some(after) = interrupted_after.filter(|_| !self.has_measured) {
            report.interrupt(after);
        }
        (report, picture)
    }

    fn step(&mut self, run: fn(&mut Self) -> Result<()>) -> Result<()> {
        if self.interrupt.is_requested() {
            return Ok(());
        }
        run(self)
    }

    fn subject(&self) -> &Site {
        self.sites.first().expect("an investigation has a subject")
    }

    /// Returns the sites that accept connections.
    fn open_sites(&self) -> impl Iterator<Item = &Site> {
        self.sites.iter().filter(|site| site.is_open)
    }

    /// Prints the result of a step; results for the control are marked.
    fn say(&self, step: &str, target: TargetId, text: &str) {
        match target {
            TargetId::Subject => self.console.outcome(step, text),
            TargetId::Twin => self.console.outcome(step, &format!("{text} (control)")),
        }
    }

    /// Adds a remark to the report.
    fn note(&mut self, id: &str, text: impl Into<String>) {
        self.feed.note(Note {
            id: id.to_owned(),
            text: text.into(),
        });
    }

    /// Records on the console and in the report that a step was not possible.
    fn not_measured(&mut self, step: &str, note: Note) {
        self.console.outcome(step, &note.text);
        self.feed.note(note);
    }

    /// Records that a step was not possible because a host did not permit it.
    fn refused(&mut self, step: &str, error: &HostError, unseen: &str) {
        self.not_measured(step, error.note(&format!("not-measured-{step}"), unseen));
    }
}
