//! The event loop of a trace: sends probes as the pace allows, waits, and reports answers.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use core::net::IpAddr;
use core::time::Duration;

use lagtrace_core::observed::event::{Event, EventBody, Phase, Stamp};
use lagtrace_core::observed::route::{HopAnswer, HopSample, RouteMethod, TraceStart};
use lagtrace_core::observed::time::Timestamp;
use rustix::event::{PollFd, Timespec, poll};

use super::channel::{Answered, Channel, Outgoing, SCOUT, Seen};
use super::connect::{self, Connects};
use super::distance::hops_of;
use super::form::Form;
use super::held::Held;
use super::pace::{Manner, Met, Next, Pace};
use super::single_packets::Packets;
use super::socket::{failure, source};
use super::{MAX_PATHS, TraceError, TracePlan};
use crate::clock::Clock;

/// Interval between checks of the stop flag.
const STOP_INTERVAL: Duration = Duration::from_millis(50);
/// Time that the kernel needs to enable timestamping.
const STAMPS_BEGIN: Duration = Duration::from_millis(10);
/// An answer is overdue after this multiple of the longest round trip so far, plus the grace time.
/// The margin is needed because routers answer with low priority.
const OVERDUE_TRIPS: u32 = 3;
const OVERDUE_GRACE: Duration = Duration::from_millis(200);
const OVERDUE_LEAST: Duration = Duration::from_millis(300);
/// Time after which an answer is overdue if no probe has been answered yet.
const OVERDUE_FIRST: Duration = Duration::from_secs(1);
/// Maximum number of addresses of answering hosts that are kept.
const MAX_KNOWN: usize = 4_096;

/// A running trace.
pub(super) struct Engine<'a> {
    plan: &'a TracePlan,
    stop: &'a AtomicBool,
    sink: &'a mut dyn FnMut(Event),
    clock: Clock,
    channel: Box<dyn Channel>,
    pace: Pace,
    under_way: Vec<Flight>,
    number: u32,
    longest: Option<Duration>,
    known: Known,
    /// Number of probes that could not be sent, and the error of the last one.
    unsent: Option<(u32, io::Error)>,
}

/// The results of a trace on which the search for the path MTU is based.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Farthest hop that answered, or the distance of the target if the target answered.
    pub(super) highest: u8,
    /// Addresses of hosts that answered, with their hop numbers.
    pub(super) addresses: BTreeMap<IpAddr, u8>,
}

/// A probe in flight.
#[derive(Clone, Copy, Debug)]
struct Flight {
    number: u32,
    flow: u16,
    ttl: u8,
    begun: Timestamp,
    /// Time at which the kernel passed the probe to the device.
    sent: Option<Timestamp>,
    is_overdue: bool,
    /// True if a missing answer would not be a loss.
    is_doubtful: bool,
}

impl<'a> Engine<'a> {
    pub(super) fn new(
        plan: &'a TracePlan,
        stop: &'a AtomicBool,
        sink: &'a mut dyn FnMut(Event),
    ) -> Result<Self, TraceError> {
        let clock = Clock::new();
        let channel = channel(plan)?;
        let start = TraceStart {
            target: plan.target.ip(),
            port: (plan.method != RouteMethod::Icmp).then_some(plan.target.port()),
            source: Some(source(plan.target, &plan.dress)?),
            method: plan.method,
            is_raw: match plan.method {
                RouteMethod::TcpSyn | RouteMethod::Dublin | RouteMethod::InConnection => true,
                RouteMethod::TcpConnect | RouteMethod::Udp => false,
                RouteMethod::Paris | RouteMethod::Icmp => plan.is_raw,
            },
            max_ttl: plan.max_ttl,
        };
        sink(Event::here(
            clock.now(),
            Phase::Baseline,
            EventBody::Trace(start),
        ));
        let manner = Manner {
            first_ttl: plan.first_ttl.max(1),
            max_ttl: plan.max_ttl,
            wanted: plan.rounds.is_none().then_some(plan.probes),
            interval: plan.interval,
            gap: plan.gap,
            far_ahead: plan.max_unknown,
        };
        Ok(Self {
            plan,
            stop,
            sink,
            clock,
            channel,
            pace: Pace::new(manner),
            under_way: Vec::new(),
            number: 0,
            longest: None,
            known: Known::default(),
            unsent: None,
        })
    }

    /// Returns the results so far.
    pub(super) fn known(&self) -> Known {
        Known {
            highest: self.pace.highest(),
            ..self.known.clone()
        }
    }

    /// Removes and returns the error about the probes that could not be sent.
    pub(super) fn unsent(&mut self) -> Option<TraceError> {
        let (count, source) = self.unsent.take()?;
        let target = self.plan.target.ip();
        Some(TraceError::NotSent {
            count,
            target,
            source,
        })
    }

    /// Runs the trace until it is complete or stopped.
    pub(super) fn run(&mut self) -> Result<(), TraceError> {
        std::thread::sleep(STAMPS_BEGIN);
        self.send(SCOUT, self.plan.max_ttl)?;
        match self.plan.rounds {
            None => self.complete()?,
            Some(rounds) => {
                let mut begun = self.clock.now();
                let mut left = rounds.count.unwrap_or(u32::MAX);
                while left > 0 && !self.is_stopped() {
                    self.turn(begun + rounds.interval)?;
                    left -= 1;
                    begun = (begun + rounds.interval).max(self.clock.now());
                    if left > 0 {
                        self.pace.begin_round();
                    }
                }
                self.linger()?;
            }
        }
        if self.plan.paths > 1 && !self.is_stopped() {
            self.pace.add_flows(self.plan.paths.min(MAX_PATHS));
            self.complete()?;
        }
        self.await_target()?;
        self.give_up();
        Ok(())
    }

    /// Waits for overdue answers of the target, because only the target's losses matter, and a late
    /// answer is not a loss. Does not wait for UDP probes: a target may limit the rate of its ICMP
    /// errors.
    fn await_target(&mut self) -> Result<(), TraceError> {
        let is_open = |engine: &Self| {
            let mut flights = engine.under_way.iter();
            flights.any(|flight| engine.is_of_target(flight))
        };
        while !self.is_stopped() && !self.plan.method.is_udp() && is_open(self) {
            self.wait(Timestamp::MAX)?;
            self.listen();
        }
        Ok(())
    }

    fn is_of_target(&self, flight: &Flight) -> bool {
        flight.flow == 0 && self.pace.distance() == Some(flight.ttl)
    }

    /// Sends and receives until the pace has no more probes to send.
    fn complete(&mut self) -> Result<(), TraceError> {
        while !self.is_stopped() {
            let wake = match self.step()? {
                Next::Done => return Ok(()),
                Next::Send(..) => continue,
                Next::Wait(due) => due,
                Next::Idle => Timestamp::MAX,
            };
            self.wait(wake)?;
        }
        Ok(())
    }

    /// Runs one round. It ends at `end`, even if probes are in flight.
    fn turn(&mut self, end: Timestamp) -> Result<(), TraceError> {
        while !self.is_stopped() && self.clock.now() < end {
            match self.step()? {
                Next::Send(..) => {}
                Next::Wait(due) => self.wait(due.min(end))?,
                Next::Idle | Next::Done => self.wait(end)?,
            }
        }
        Ok(())
    }

    /// Waits until no probe in flight can be answered in time.
    fn linger(&mut self) -> Result<(), TraceError> {
        while !self.is_stopped() && self.under_way.iter().any(|flight| !flight.is_overdue) {
            self.wait(Timestamp::MAX)?;
            self.listen();
        }
        Ok(())
    }

    fn step(&mut self) -> Result<Next, TraceError> {
        self.listen();
        let next = self.pace.next(self.clock.now());
        if let Next::Send(flow, ttl) = next {
            self.send(flow, ttl)?;
        }
        Ok(next)
    }

    fn send(&mut self, flow: u16, ttl: u8) -> Result<(), TraceError> {
        let prepared = self.channel.prepare(flow);
        let begun = self.clock.now();
        let probe = Outgoing {
            number: self.number,
            flow,
            ttl,
            size: 0,
        };
        self.number = self.number.wrapping_add(1);
        if flow != SCOUT {
            self.pace.sent(flow, ttl, begun);
        }
        if let Err(error) = prepared.and_then(|()| self.channel.send(probe)) {
            // If the first probe fails, the plan cannot work. If a later one fails, a device or
            // route of this host may have disappeared temporarily.
            if flow == SCOUT {
                return Err(failure("sending a probe", self.plan.target)(error));
            }
            self.pace.overdue(flow, ttl, begun);
            let count = self.unsent.take().map_or(0, |(count, _)| count);
            self.unsent = Some((count.saturating_add(1), error));
            return Ok(());
        }
        self.under_way.push(Flight {
            number: probe.number,
            flow,
            ttl,
            begun,
            sent: None,
            is_overdue: false,
            is_doubtful: false,
        });
        Ok(())
    }

    /// Waits until data arrives or a probe becomes overdue, but at most until `wake`.
    fn wait(&self, wake: Timestamp) -> Result<(), TraceError> {
        let now = self.clock.now();
        let patience = self.patience();
        let waiting = self.under_way.iter().filter(|flight| !flight.is_overdue);
        let due = waiting.map(|flight| flight.begun + patience).min();
        let wake = wake.min(due.unwrap_or(Timestamp::MAX));
        let length = wake.since(now).min(STOP_INTERVAL);
        let sockets = self.channel.sockets();
        let mut fds: Vec<_> = sockets
            .iter()
            .map(|(socket, events)| PollFd::new(socket, *events))
            .collect();
        let failed = failure("waiting for answers", self.plan.target);
        let length = Timespec::try_from(length).unwrap_or_default();
        match poll(&mut fds, Some(&length)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(failed(error.into())),
        }
    }

    /// Returns the time after which an answer is overdue.
    fn patience(&self) -> Duration {
        let known = self
            .longest
            .map(|longest| longest * OVERDUE_TRIPS + OVERDUE_GRACE);
        let wanted = known.unwrap_or(OVERDUE_FIRST).max(OVERDUE_LEAST);
        wanted.min(self.timeout())
    }

    /// Returns the time after which an answer does not count any more.
    fn timeout(&self) -> Duration {
        match self.plan.method {
            RouteMethod::TcpConnect => self.plan.timeout.min(connect::LONGEST),
            _ => self.plan.timeout,
        }
    }

    /// Processes the messages that have arrived, and marks overdue probes.
    fn listen(&mut self) {
        let mut seen = Vec::new();
        self.channel.collect(&mut seen);
        let now = self.clock.now();
        for seen in seen {
            match seen {
                Seen::Sent { number, at } => self.change(number, |flight| flight.sent = Some(at)),
                Seen::Doubtful { number } => {
                    self.change(number, |flight| flight.is_doubtful = true);
                }
                Seen::Answered(answered) => self.answered(answered, now),
            }
        }
        self.expire(now);
    }

    fn change(&mut self, number: u32, change: impl FnOnce(&mut Flight)) {
        let mut flights = self.under_way.iter_mut().rev();
        if let Some(flight) = flights.find(|flight| flight.number == number) {
            change(flight);
        }
    }

    fn answered(&mut self, answered: Answered, now: Timestamp) {
        let at = self
            .under_way
            .iter()
            .rposition(|f| f.number == answered.number);
        let Some(at) = at else {
            return;
        };
        let flight = self.under_way.remove(at);
        self.channel.forget(flight.number);
        let (rtt, stamp) = match (answered.rtt, flight.sent, answered.at) {
            (Some(rtt), ..) => (rtt, Stamp::Kernel),
            (None, Some(sent), Some(came)) if came >= sent => (came.since(sent), Stamp::Kernel),
            (None, _, Some(came)) if came >= flight.begun => {
                (came.since(flight.begun), Stamp::User)
            }
            _ => (now.since(flight.begun), Stamp::User),
        };
        self.longest = self.longest.max(Some(rtt));
        let is_final = answered.answer.is_final();
        if flight.flow == SCOUT {
            let is_target = is_final && answered.from == Some(self.plan.target.ip());
            if is_target {
                self.pace.scouted(answered.ttl.map(hops_of));
            }
            return;
        }
        let met = match answered.answer {
            HopAnswer::Expired | HopAnswer::Silence => Met::Router,
            HopAnswer::Open => Met::End { is_limited: false },
            HopAnswer::Unreachable(..) => Met::End { is_limited: true },
            HopAnswer::Closed => Met::End {
                is_limited: self.plan.method.is_udp(),
            },
        };
        self.pace.answered(flight.flow, flight.ttl, met);
        if let Some(from) = answered.from
            && self.known.addresses.len() < MAX_KNOWN
        {
            self.known.addresses.entry(from).or_insert(flight.ttl);
        }
        self.tell(
            answered.at.unwrap_or(now),
            HopSample {
                number: flight.number,
                ttl: flight.ttl,
                flow: flight.flow,
                answer: answered.answer,
                from: answered.from,
                rtt: Some(rtt),
                stamp,
                reply_ttl: answered.ttl,
                labels: answered.labels,
                translation: answered.translation.flatten(),
                is_quoted: answered.translation.is_some(),
            },
        );
    }

    /// Marks overdue probes. Discards probes whose answers would not count any more.
    fn expire(&mut self, now: Timestamp) {
        let (patience, timeout) = (self.patience(), self.timeout());
        let mut dropped = Vec::new();
        for flight in &mut self.under_way {
            let age = now.since(flight.begun);
            if !flight.is_overdue && age >= patience {
                flight.is_overdue = true;
                if flight.flow != SCOUT {
                    self.pace.overdue(flight.flow, flight.ttl, flight.begun);
                }
            }
            if age >= timeout {
                dropped.push(*flight);
            }
        }
        for flight in dropped {
            self.under_way.retain(|other| other.number != flight.number);
            self.silent(flight, now);
        }
    }

    /// At the end, reports overdue probes as silent. Other probes in flight are not reported. If
    /// the user stopped the trace, overdue probes to the target are not reported either.
    fn give_up(&mut self) {
        let now = self.clock.now();
        for flight in std::mem::take(&mut self.under_way) {
            let is_early = self.is_stopped() && self.is_of_target(&flight);
            if flight.is_overdue && !is_early {
                self.silent(flight, now);
            }
        }
    }

    fn silent(&mut self, flight: Flight, now: Timestamp) {
        self.channel.forget(flight.number);
        let is_beyond = self
            .pace
            .distance()
            .is_some_and(|distance| flight.ttl > distance);
        if flight.flow == SCOUT || is_beyond || flight.is_doubtful {
            return;
        }
        self.tell(
            now,
            HopSample {
                number: flight.number,
                ttl: flight.ttl,
                flow: flight.flow,
                answer: HopAnswer::Silence,
                from: None,
                rtt: None,
                stamp: Stamp::User,
                reply_ttl: None,
                labels: Vec::new(),
                translation: None,
                is_quoted: false,
            },
        );
    }

    fn tell(&mut self, at: Timestamp, sample: HopSample) {
        (self.sink)(Event::here(at, Phase::Baseline, EventBody::Hop(sample)));
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Returns the channel for a plan.
fn channel(plan: &TracePlan) -> Result<Box<dyn Channel>, TraceError> {
    let form = match (plan.method, plan.is_raw) {
        (RouteMethod::TcpConnect, _) => {
            return Ok(Box::new(Connects::new(plan.target, plan.dress.clone())));
        }
        (RouteMethod::InConnection, _) => {
            return Ok(Box::new(Held::new(plan.target, plan.dress.clone())?));
        }
        (RouteMethod::Udp, _) => Form::Ports,
        (RouteMethod::Dublin, _) => Form::Dublin {
            size: plan.dress.size.map_or(0, usize::from),
        },
        (RouteMethod::Paris, false) => Form::Payload,
        (RouteMethod::Paris, true) => Form::Checksum,
        (RouteMethod::Icmp, is_raw) => Form::Echo { is_raw },
        (RouteMethod::TcpSyn, _) => Form::Syn {
            base: std::process::id().wrapping_mul(0x9e37_79b9),
        },
    };
    Ok(Box::new(Packets::new(plan.target, form, &plan.dress)?))
}
