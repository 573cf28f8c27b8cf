//! Probes under way: when the next is due, which is answered, late or lost.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use core::time::Duration;

use lagtrace_core::event::{
    Coming, Event, EventBody, Phase, ProbeAnswer, ProbeMethod, ProbeSample, Stamp,
};
use lagtrace_core::flow::Endpoint;
use lagtrace_core::time::Timestamp;
use rustix::io::Errno;

use super::{Asker, Heard, LEAST_INTERVAL, STAMPS_BEGIN, SteadyMethod, SteadyPlan, Turn, failure};
use crate::clock::Clock;
use crate::probe::unreachable::unreachable_by;
use crate::probe::{ProbeError, STOP_INTERVAL, is_answered, pause};
use crate::stamped::queue::Stage;

/// Probes whose answers can still be told apart; older ones are forgotten.
pub(super) const MAX_PENDING: usize = 20_000;
/// Probes of a series that are sent again because a stamp was missing.
const UNSTAMPED_TRIES: u32 = 3;

/// A probe that was sent.
#[derive(Clone, Copy, Debug)]
struct Pending {
    number: u32,
    begun: Timestamp,
    queued: Option<Timestamp>,
    sent: Option<Timestamp>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Awaited,
    GivenUp,
    Answered,
}

/// A series under way.
pub(super) struct Series<'a> {
    plan: &'a SteadyPlan,
    clock: Clock,
    /// By number, the oldest first.
    pending: VecDeque<Pending>,
    /// How many of them are awaited.
    awaited: usize,
    /// How many probes were begun.
    begun: u32,
    /// When the next is due.
    next: Timestamp,
    /// How many were told, and whether the target answered any.
    told: u32,
    is_answered: bool,
    /// SYN/ACKs of the target.
    opened: usize,
    tries_left: u32,
}

impl<'a> Series<'a> {
    pub(super) fn new(plan: &'a SteadyPlan, clock: Clock) -> Self {
        Self {
            plan,
            clock,
            pending: VecDeque::new(),
            awaited: 0,
            begun: 0,
            next: clock.now(),
            told: 0,
            is_answered: false,
            opened: 0,
            tries_left: UNSTAMPED_TRIES,
        }
    }

    /// How often the target accepted a connection.
    pub(super) fn opened(&self) -> usize {
        self.opened
    }

    pub(super) fn run(
        &mut self,
        asker: &mut dyn Asker,
        stop: &AtomicBool,
        sink: &mut dyn FnMut(Event),
    ) -> Result<(), ProbeError> {
        let address = self.plan.address;
        let mut heard = Vec::new();
        while !stop.load(Ordering::Relaxed) && !self.is_over() {
            let now = self.clock.now();
            if self.may_ask() && now >= self.next {
                self.ask_next(asker, now, sink)
                    .map_err(failure("sending a probe", address))?;
                continue;
            }
            asker
                .wait(self.until_due(now))
                .map_err(failure("waiting for answers", address))?;
            asker
                .hear(&mut heard)
                .map_err(failure("hearing answers", address))?;
            for heard in heard.drain(..) {
                self.take(heard, asker, stop, sink)
                    .map_err(failure("sending a probe", address))?;
            }
            self.give_up(asker, sink);
        }
        Ok(())
    }

    /// Whether more probes would only cost time, or were not asked for.
    fn is_over(&self) -> bool {
        match self.plan.turn {
            Turn::AfterTheAnswer { silences }
                if !self.is_answered && self.told >= silences.max(1) =>
            {
                true
            }
            _ => self.is_complete() && self.awaited == 0,
        }
    }

    fn is_complete(&self) -> bool {
        self.plan.count.is_some_and(|count| self.begun >= count)
    }

    fn may_ask(&self) -> bool {
        !self.is_complete() && (self.plan.turn == Turn::ByTheClock || self.awaited == 0)
    }

    fn until_due(&self, now: Timestamp) -> Duration {
        let next = match self.may_ask() {
            true => self.next.since(now),
            false => STOP_INTERVAL,
        };
        next.min(self.until_timeout(now)).min(STOP_INTERVAL)
    }

    fn until_timeout(&self, now: Timestamp) -> Duration {
        let mut awaited = self.pending.iter().filter(|p| p.state == State::Awaited);
        awaited.next().map_or(STOP_INTERVAL, |oldest| {
            (oldest.begun + self.plan.timeout).since(now)
        })
    }

    fn interval(&self) -> Duration {
        self.plan.interval.max(LEAST_INTERVAL)
    }

    fn ask_next(
        &mut self,
        asker: &mut dyn Asker,
        now: Timestamp,
        sink: &mut dyn FnMut(Event),
    ) -> Result<(), Errno> {
        if self.pending.len() == MAX_PENDING {
            if let Some(oldest) = self.pending.pop_front() {
                self.awaited -= usize::from(oldest.state == State::Awaited);
                asker.forget(oldest.number);
            }
        }
        let number = self.begun;
        self.begun = self.begun.wrapping_add(1);
        self.pending.push_back(Pending {
            number,
            begun: now,
            queued: None,
            sent: None,
            state: State::Awaited,
        });
        self.awaited += 1;
        // What was missed while this program did not run is not made up for.
        self.next = (self.next + self.interval()).max(now);
        self.ask(asker, number, sink)
    }

    /// Sends a probe, or tells what the kernel itself says of the target.
    fn ask(
        &mut self,
        asker: &mut dyn Asker,
        number: u32,
        sink: &mut dyn FnMut(Event),
    ) -> Result<(), Errno> {
        let begun = self.clock.now();
        if let Some(pending) = self.find(number) {
            pending.begun = begun;
            (pending.queued, pending.sent) = (None, None);
        }
        let Err(error) = asker.ask(number) else {
            return Ok(());
        };
        let answer = unreachable_by(error, self.plan.address).ok_or(error)?;
        if let Some(pending) = self.find(number) {
            pending.state = State::Answered;
            self.awaited -= 1;
        }
        let sample = ProbeSample {
            answer,
            ..self.sample(number)
        };
        self.emit(begun, sample, sink);
        Ok(())
    }

    fn take(
        &mut self,
        heard: Heard,
        asker: &mut dyn Asker,
        stop: &AtomicBool,
        sink: &mut dyn FnMut(Event),
    ) -> Result<(), Errno> {
        let now = self.clock.now();
        match heard {
            Heard::Sent { number, stage, at } => {
                if let Some(pending) = self.find(number) {
                    match stage {
                        Stage::Queue => pending.queued = Some(at),
                        Stage::Device => pending.sent = Some(at),
                    }
                }
            }
            Heard::Answered {
                number,
                answer,
                at,
                rtt,
                ttl,
                syn_retransmissions,
                reply,
            } => {
                let Some(&mut pending) = self.find(number) else {
                    return Ok(());
                };
                let stamped = match (pending.sent, at) {
                    (Some(sent), Some(at)) if at >= sent => Some(at.since(sent)),
                    _ => rtt,
                };
                if stamped.is_none() && pending.state == State::Awaited && self.may_repeat() {
                    pause(STAMPS_BEGIN, stop);
                    return self.ask(asker, number, sink);
                }
                if let Some(pending) = self.find(number) {
                    pending.state = State::Answered;
                }
                self.awaited -= usize::from(pending.state == State::Awaited);
                let own = now.since(pending.begun);
                let sample = ProbeSample {
                    answer,
                    rtt: (answer != ProbeAnswer::Silence).then_some(stamped.unwrap_or(own)),
                    stamp: match stamped {
                        Some(_) => Stamp::Kernel,
                        None => Stamp::User,
                    },
                    ttl,
                    syn_retransmissions,
                    coming: match pending.state {
                        State::Awaited => Coming::InTime,
                        State::GivenUp => Coming::Late,
                        State::Answered => Coming::Again,
                    },
                    noticed: stamped.map(|_| own),
                    queued: pending
                        .sent
                        .zip(pending.queued)
                        .map(|(sent, queued)| sent.since(queued)),
                    reply,
                    ..self.sample(number)
                };
                self.emit(at.unwrap_or(now), sample, sink);
            }
        }
        Ok(())
    }

    /// Whether a probe whose answer has no stamp is sent again: the kernel may
    /// not have begun yet. `connect` has none.
    fn may_repeat(&mut self) -> bool {
        let may = self.plan.method != SteadyMethod::Connect && self.tries_left > 0;
        self.tries_left -= u32::from(may);
        may
    }

    /// Gives up what took too long.
    fn give_up(&mut self, asker: &mut dyn Asker, sink: &mut dyn FnMut(Event)) {
        let now = self.clock.now();
        let timeout = self.plan.timeout;
        let mut silent = Vec::new();
        for pending in &mut self.pending {
            if now.since(pending.begun) < timeout {
                break;
            }
            if pending.state == State::Awaited {
                pending.state = State::GivenUp;
                silent.push(pending.number);
            }
        }
        self.awaited -= silent.len();
        for number in silent {
            let sample = ProbeSample {
                syn_retransmissions: asker.forget(number),
                ..self.sample(number)
            };
            self.emit(now, sample, sink);
        }
        // Answers that come this late or this often are of no interest.
        while self.pending.len() > 1
            && self.pending.front().is_some_and(|p| {
                p.state != State::Awaited && now.since(p.begun) > timeout * 4 + STOP_INTERVAL
            })
        {
            self.pending.pop_front();
        }
    }

    fn find(&mut self, number: u32) -> Option<&mut Pending> {
        let first = self.pending.front()?.number;
        self.pending.get_mut(number.checked_sub(first)? as usize)
    }

    /// A sample of silence.
    fn sample(&self, number: u32) -> ProbeSample {
        ProbeSample {
            target: self.plan.target,
            endpoint: Endpoint::from(self.plan.address),
            method: match self.plan.method {
                SteadyMethod::Syn if self.plan.packet.flags.is_empty() => ProbeMethod::TcpSyn,
                SteadyMethod::Syn => ProbeMethod::TcpFlags,
                SteadyMethod::Connect => ProbeMethod::TcpConnect,
                SteadyMethod::Icmp => ProbeMethod::Icmp,
                SteadyMethod::Udp => ProbeMethod::Udp,
            },
            answer: ProbeAnswer::Silence,
            rtt: None,
            stamp: Stamp::User,
            ttl: None,
            syn_retransmissions: 0,
            number,
            coming: Coming::InTime,
            noticed: None,
            queued: None,
            step: self.plan.step(number),
            reply: None,
        }
    }

    /// Tells the answer to the only probe of a series that cannot be begun.
    pub(super) fn tell(&mut self, answer: ProbeAnswer, sink: &mut dyn FnMut(Event)) {
        let sample = ProbeSample {
            answer,
            ..self.sample(0)
        };
        self.emit(self.clock.now(), sample, sink);
    }

    fn emit(&mut self, at: Timestamp, sample: ProbeSample, sink: &mut dyn FnMut(Event)) {
        if sample.coming == Coming::InTime {
            self.told += 1;
            if self.plan.turn != Turn::ByTheClock {
                self.next = self.clock.now() + self.interval();
            }
        }
        self.is_answered |= is_answered(&sample);
        self.opened += usize::from(sample.answer == ProbeAnswer::Open);
        sink(Event::here(at, Phase::Baseline, EventBody::Probe(sample)));
    }
}
