//! A running series of probes: it decides when the next probe is sent, and records the answers.

use std::sync::atomic::{AtomicBool, Ordering};

use core::time::Duration;

use lagtrace_core::observed::event::{Coming, Event, EventBody, Phase, ProbeAnswer, ProbeSample};
use lagtrace_core::observed::time::Timestamp;
use rustix::io::Errno;

use super::heard::{Answered, silence};
use super::pending::{MAX_PENDING, Pendings, State};
use super::{
    Asker, Heard, LEAST_INTERVAL, MAX_OPEN, STAMPS_BEGIN, SteadyMethod, SteadyPlan, Turn, failure,
};
use crate::clock::Clock;
use crate::probe::unreachable::unreachable_by;
use crate::probe::{ProbeError, STOP_INTERVAL, is_answered, pause};
use crate::stamped::queue::Stage;

/// Maximum number of probes in a series that are sent again because a timestamp was missing.
const UNSTAMPED_TRIES: u32 = 3;

/// A running series of probes.
pub(super) struct Series<'a> {
    plan: &'a SteadyPlan,
    clock: Clock,
    pending: Pendings,
    /// Number of probes that were started.
    begun: u32,
    /// Time at which the next probe is due.
    next: Timestamp,
    /// Number of reported probes, and true if the target answered one of them.
    told: u32,
    is_answered: bool,
    tries_left: u32,
    /// Number of probes that could not be sent because their port was in use.
    unsent: u32,
    /// True if a due probe had to wait until another probe ended.
    is_held_back: bool,
}

impl<'a> Series<'a> {
    pub(super) fn new(plan: &'a SteadyPlan, clock: Clock) -> Self {
        Self {
            plan,
            clock,
            pending: Pendings::new(MAX_PENDING),
            begun: 0,
            next: clock.now(),
            told: 0,
            is_answered: false,
            tries_left: UNSTAMPED_TRIES,
            unsent: 0,
            is_held_back: false,
        }
    }

    /// Returns notes that explain the samples, each with an ID and a sentence.
    pub(super) fn notes(&self) -> Vec<(&'static str, String)> {
        let mut notes = Vec::new();
        if self.unsent > 0 {
            let text = format!(
                "{} of {} probes were not sent, because their source port was in use.",
                self.unsent, self.begun
            );
            notes.push(("probe-port-in-use", text));
        }
        if self.is_held_back {
            let text = format!(
                "Probes were sent more slowly than requested: at most {MAX_OPEN} sockets can wait \
                 for answers at the same time. Use a longer interval or a shorter timeout."
            );
            notes.push(("probe-held-back", text));
        }
        notes
    }

    /// Returns true if all ports were in use, so that no probe was sent.
    pub(super) fn is_unsent(&self) -> bool {
        self.told == 0 && self.unsent > 0
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
            let is_due = self.may_ask() && now >= self.next;
            self.is_held_back |= is_due && !asker.has_room();
            if is_due && asker.has_room() {
                self.ask_next(asker, now, sink)
                    .map_err(failure("sending a probe", address))?;
                continue;
            }
            asker
                .wait(self.until_due(now, is_due))
                .map_err(failure("waiting for answers", address))?;
            let at = self.clock.now();
            asker
                .hear(&mut heard)
                .map_err(failure("hearing answers", address))?;
            for heard in heard.drain(..) {
                self.take(heard, asker, stop, sink)
                    .map_err(failure("sending a probe", address))?;
            }
            self.give_up(at, asker, sink);
        }
        Ok(())
    }

    /// Returns true if further probes are useless, or if all requested probes have ended.
    fn is_over(&self) -> bool {
        match self.plan.turn {
            Turn::AfterTheAnswer { silences }
                if !self.is_answered && self.told >= silences.max(1) =>
            {
                true
            }
            _ => self.is_complete() && self.pending.awaited() == 0,
        }
    }

    fn is_complete(&self) -> bool {
        self.plan.count.is_some_and(|count| self.begun >= count)
    }

    fn may_ask(&self) -> bool {
        !self.is_complete() && (self.plan.turn == Turn::ByTheClock || self.pending.awaited() == 0)
    }

    /// Returns the time to wait for answers before the next action. If a probe is due but cannot be
    /// sent yet, it waits until another probe ends.
    fn until_due(&mut self, now: Timestamp, is_due: bool) -> Duration {
        let next = if self.may_ask() && !is_due {
            self.next.since(now)
        } else {
            STOP_INTERVAL
        };
        next.min(self.until_timeout(now)).min(STOP_INTERVAL)
    }

    fn until_timeout(&mut self, now: Timestamp) -> Duration {
        let timeout = self.plan.timeout;
        self.pending
            .oldest()
            .map_or(STOP_INTERVAL, |oldest| (oldest.begun + timeout).since(now))
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
        let number = self.begun;
        self.begun = self.begun.wrapping_add(1);
        if let Some(oldest) = self.pending.push(number, now) {
            self.lose(oldest, asker, now, sink);
        }
        // If this program was delayed, the missed probes are not sent later.
        self.next = (self.next + self.interval()).max(now);
        self.ask(asker, number, sink)
    }

    /// Sends a probe. If the kernel itself rejects it, for example because there is no route,
    /// reports this as the answer.
    fn ask(
        &mut self,
        asker: &mut dyn Asker,
        number: u32,
        sink: &mut dyn FnMut(Event),
    ) -> Result<(), Errno> {
        let begun = self.clock.now();
        if let Some(pending) = self.pending.find(number) {
            pending.begun = begun;
            (pending.queued, pending.sent) = (None, None);
        }
        let Err(error) = asker.ask(number) else {
            return Ok(());
        };
        if error == Errno::ADDRINUSE {
            self.pending.settle(number, State::Answered);
            self.unsent += 1;
            return Ok(());
        }
        let answer = unreachable_by(error, self.plan.address).ok_or(error)?;
        self.pending.settle(number, State::Answered);
        let sample = ProbeSample {
            answer,
            ..silence(self.plan, number)
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
        match heard {
            Heard::Answered(answered) => return self.answer(answered, asker, stop, sink),
            Heard::Sent { number, stage, at } => {
                if let Some(pending) = self.pending.find(number) {
                    match stage {
                        Stage::Queue => pending.queued = Some(at),
                        Stage::Device => pending.sent = Some(at),
                        // Timestamps of ACKs are not requested.
                        Stage::Acknowledged => {}
                    }
                }
            }
        }
        Ok(())
    }

    fn answer(
        &mut self,
        answered: Answered,
        asker: &mut dyn Asker,
        stop: &AtomicBool,
        sink: &mut dyn FnMut(Event),
    ) -> Result<(), Errno> {
        let now = self.clock.now();
        let number = answered.number;
        let Some(&mut pending) = self.pending.find(number) else {
            return Ok(());
        };
        let is_unstamped = answered.stamped(&pending).is_none();
        if is_unstamped && pending.is_awaited() && self.may_repeat() {
            pause(STAMPS_BEGIN, stop);
            return self.ask(asker, number, sink);
        }
        let at = answered.at.unwrap_or(now);
        let before = self.pending.settle(number, State::Answered);
        let before = before.unwrap_or(State::Awaited);
        let sample = answered.sample(self.plan, &pending, before, now);
        self.emit(at, sample, sink);
        Ok(())
    }

    /// Returns true if the probe is to be sent again, because its answer has no timestamp: the
    /// kernel may not have enabled timestamping yet. Probes by `connect` have no timestamps and are
    /// never repeated.
    fn may_repeat(&mut self) -> bool {
        let may = self.plan.method != SteadyMethod::Connect && self.tries_left > 0;
        self.tries_left -= u32::from(may);
        may
    }

    /// Ends the wait for probes whose timeout had passed when answers were heard.
    fn give_up(&mut self, now: Timestamp, asker: &mut dyn Asker, sink: &mut dyn FnMut(Event)) {
        let timeout = self.plan.timeout;
        while let Some(number) = self.pending.give_up(now, timeout) {
            self.lose(number, asker, now, sink);
        }
        // Probes this old are removed. Their later answers are not reported.
        self.pending.forget(now, timeout * 4 + STOP_INTERVAL);
    }

    /// Reports a probe as unanswered.
    fn lose(
        &mut self,
        number: u32,
        asker: &mut dyn Asker,
        now: Timestamp,
        sink: &mut dyn FnMut(Event),
    ) {
        let sample = ProbeSample {
            syn_retransmissions: asker.forget(number),
            ..silence(self.plan, number)
        };
        self.emit(now, sample, sink);
    }

    /// If the series cannot be started, reports `answer` as the answer to a single probe.
    pub(super) fn tell(&mut self, answer: ProbeAnswer, sink: &mut dyn FnMut(Event)) {
        let sample = ProbeSample {
            answer,
            ..silence(self.plan, 0)
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
        sink(Event::here(at, Phase::Baseline, EventBody::Probe(sample)));
    }
}

#[cfg(test)]
mod tests {
    use lagtrace_core::observed::event::TargetId;

    use super::super::{PacketPlan, SourcePorts};
    use super::*;

    /// A target that never answers. At most `room` probes can wait at the same time.
    struct Silent {
        room: usize,
        awaited: Vec<u32>,
    }

    impl Asker for Silent {
        fn ask(&mut self, number: u32) -> Result<(), Errno> {
            assert!(self.has_room());
            self.awaited.push(number);
            Ok(())
        }

        fn wait(&mut self, timeout: Duration) -> Result<(), Errno> {
            std::thread::sleep(timeout);
            Ok(())
        }

        fn hear(&mut self, _heard: &mut Vec<Heard>) -> Result<(), Errno> {
            Ok(())
        }

        fn forget(&mut self, number: u32) -> u8 {
            self.awaited.retain(|awaited| *awaited != number);
            0
        }

        fn has_room(&self) -> bool {
            self.awaited.len() < self.room
        }
    }

    /// Returns the numbers of the probes that were reported as unanswered, and the IDs of the
    /// notes.
    fn told(limit: usize, room: usize) -> (Vec<u32>, Vec<&'static str>) {
        let plan = SteadyPlan {
            target: TargetId::Subject,
            address: ([127, 0, 0, 1], 9).into(),
            method: SteadyMethod::Udp,
            count: Some(20),
            turn: Turn::ByTheClock,
            interval: LEAST_INTERVAL,
            timeout: Duration::from_millis(100),
            ports: SourcePorts::Fresh,
            packet: PacketPlan::default(),
        };
        let mut series = Series::new(&plan, Clock::new());
        series.pending = Pendings::new(limit);
        let mut asker = Silent {
            room,
            awaited: Vec::new(),
        };
        let mut told = Vec::new();
        let mut sink = |event: Event| match event.body {
            EventBody::Probe(sample) => told.push(sample.number),
            other => panic!("{other:?}"),
        };
        let stop = AtomicBool::new(false);
        series
            .run(&mut asker, &stop, &mut sink)
            .expect("nothing fails");
        let notes = series.notes();
        (told, notes.iter().map(|(id, _)| *id).collect())
    }

    #[test]
    fn what_is_not_answered_is_told_also_where_there_is_no_room_for_it() {
        let all: Vec<u32> = (0..20).collect();
        assert_eq!(told(8, 100), (all.clone(), vec![]));
        // If all sockets are in use, the next probe waits, because each socket can still receive an
        // answer.
        assert_eq!(told(100, 8), (all.clone(), vec!["probe-held-back"]));
        assert_eq!(told(100, 100), (all, vec![]));
    }
}
