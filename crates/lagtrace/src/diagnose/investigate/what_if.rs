//! The effect of `TCP_NODELAY` at the server, tested on one of lagtrace's own connections: measured
//! without the option, with it, and after restoring the previous value.

use std::cell::RefCell;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use lagtrace_core::observed::event::{Event, EventBody, Note, Phase};
use lagtrace_core::observed::flow::{Endpoint, FlowKey};
use lagtrace_core::observed::time::Timestamp;
use lagtrace_core::stats::histogram::Distribution;
use lagtrace_sources::load::{self, Lane, Pace, Plan};
use lagtrace_sources::privilege::HostError;
use lagtrace_sources::socket::foreign::{OwnFlow, Server};
use lagtrace_sources::socket::option::ForeignOption;

use super::Investigation;
use crate::clock::SteadyClock;
use crate::failure::Result;
use crate::words;

/// The step's name.
const STEP: &str = "what if";
/// The duration of each of the three parts.
const PART: Duration = Duration::from_millis(800);
/// The number of requests per second, low enough for one persistent connection.
const RATE: f64 = 50.0;

impl Investigation<'_> {
    /// Tests the option, if the user requested this.
    pub(super) fn what_if(&mut self) -> Result<()> {
        if !self.options.what_if {
            return Ok(());
        }
        let Some(server) = self.sites[0].server.take() else {
            let text = "Not measured: the effect of TCP_NODELAY, because the server was not found \
                        on this host or its process is not accessible (needs CAP_SYS_PTRACE).";
            self.not_measured(STEP, note(text.to_owned()));
            return Ok(());
        };
        let result = self.try_on(&server);
        self.sites[0].server = Some(server);
        result
    }

    fn try_on(&mut self, server: &Server) -> Result<()> {
        let (log, told) = channel();
        let target = self.subject().target.endpoint();
        let trial = RefCell::new(Trial::new(server, target, log));
        let bar = self.console.timed(STEP, PART * 3);
        let progress = |now: load::Progress| {
            bar.set_position(u64::try_from(now.elapsed.as_millis()).unwrap_or(u64::MAX));
            trial.borrow_mut().proceed(now.elapsed);
        };
        let mut samples = Vec::new();
        let mut flows = Vec::new();
        let sink = |event: Event| match event.body {
            EventBody::FlowPhase(flow) => {
                trial.borrow_mut().flow = Some(flow);
                flows.push(event);
            }
            EventBody::Request(sample) if sample.outcome.is_ok() => samples.push(sample),
            _ => {}
        };
        let plan = self.what_if_plan();
        let ran = load::run(&plan, &progress, self.interrupt.flag(), sink);
        bar.finish_and_clear();
        let trial = trial.into_inner().finish();
        self.feed.observe_all(flows);
        told.try_iter().for_each(|note| self.feed.note(note));
        let ran = ran?.requests;
        self.sent.all += ran;
        self.sent.in_experiments += ran;
        match trial {
            Err(error) => self.refused("what-if", &error, "what TCP_NODELAY would change"),
            Ok((on, off)) => {
                let part = |from, to| median(&samples, from, to);
                let parts = [
                    part(Timestamp::MIN, on),
                    part(on, off),
                    part(off, Timestamp::MAX),
                ];
                self.tell(&parts);
            }
        }
        Ok(())
    }

    /// Returns the plan of one connection. Its requests count neither as baseline nor as one of the
    /// analyzer's experiments.
    fn what_if_plan(&self) -> Plan {
        let lane = Lane {
            target: self.subject().target.clone(),
            phase: Phase::WarmUp,
            experiment: None,
            connections: 1,
        };
        let mut plan = self.plan(vec![lane]);
        let most = self.pace.judged.rate.into_iter().chain(self.pace.carries);
        plan.pace = Pace::Rate(most.filter(|&rate| rate > 0.0).fold(RATE, f64::min));
        plan.warm_up = Duration::ZERO;
        plan.duration = PART * 3;
        plan.threads = 1;
        plan
    }

    fn tell(&mut self, parts: &[String; 3]) {
        let [before, with, after] = parts;
        let text = format!(
            "TCP_NODELAY on the server's socket of one of our connections: {before} before, {with} \
             with it, {after} after it was restored"
        );
        self.console.outcome(STEP, &text);
        self.feed.note(note(format!("{text}.")));
    }
}

/// A test of the option, which is set on the server's socket and then restored.
struct Trial<'s> {
    server: &'s Server,
    /// The server's address and port on the client's connections.
    target: Endpoint,
    log: Sender<Note>,
    clock: SteadyClock,
    flow: Option<FlowKey>,
    option: Option<ForeignOption>,
    failure: Option<HostError>,
    switched_on: Option<Timestamp>,
    put_back: Option<Timestamp>,
}

impl<'s> Trial<'s> {
    fn new(server: &'s Server, target: Endpoint, log: Sender<Note>) -> Self {
        Self {
            server,
            target,
            log,
            clock: SteadyClock::new(),
            flow: None,
            option: None,
            failure: None,
            switched_on: None,
            put_back: None,
        }
    }

    /// Performs the step that is due after `elapsed`.
    fn proceed(&mut self, elapsed: Duration) {
        if self.failure.is_some() || elapsed < PART {
            return;
        }
        if self.switched_on.is_none() {
            self.switch_on();
        } else if self.put_back.is_none() && elapsed >= PART * 2 {
            self.option = None;
            self.put_back = Some(self.clock.now());
        }
    }

    fn switch_on(&mut self) {
        let Some(flow) = self.flow.map(|flow| own_flow(flow, self.target)) else {
            return;
        };
        match ForeignOption::set_nodelay(self.server, flow, self.log.clone()) {
            Ok(option) => {
                self.option = Some(option);
                self.switched_on = Some(self.clock.now());
            }
            Err(error) => self.failure = Some(error),
        }
    }

    /// Returns the times at which the option was set and restored.
    fn finish(mut self) -> std::result::Result<(Timestamp, Timestamp), HostError> {
        self.option = None;
        let gone = || HostError::Gone {
            what: "the connection to try the option on".to_owned(),
        };
        match (self.failure, self.switched_on) {
            (Some(failure), _) => Err(failure),
            (None, Some(on)) => Ok((on, self.put_back.unwrap_or_else(|| self.clock.now()))),
            (None, None) => Err(gone()),
        }
    }
}

/// Returns the connection's addresses as the client sees them.
fn own_flow(flow: FlowKey, target: Endpoint) -> OwnFlow {
    use lagtrace_core::observed::flow::Direction::{Backward, Forward};
    let ends = (flow.source(Forward), flow.source(Backward));
    let (local, remote) = if ends.0 == target {
        (ends.1, ends.0)
    } else {
        ends
    };
    OwnFlow { local, remote }
}

/// Returns the median of the requests sent between two times, in words.
fn median(
    samples: &[lagtrace_core::observed::event::RequestSample],
    from: Timestamp,
    to: Timestamp,
) -> String {
    let mut times = Distribution::default();
    let within = samples
        .iter()
        .filter(|sample| sample.sent >= from && sample.sent < to);
    within.for_each(|sample| times.record(sample.ended.since(sample.sent)));
    let requests = words::plural(times.count(), "request");
    match times.quantile(0.5) {
        Some(median) => format!("median {} ({requests})", words::time(median)),
        None => "nothing answered".to_owned(),
    }
}

fn note(text: String) -> Note {
    let id = "what-if".to_owned();
    Note { id, text }
}
