use std::cmp::Reverse;
use std::collections::BinaryHeap;

use lagtrace_core::observed::experiment::Experiment;

use super::*;
use crate::load::plan::{Arrangement, Pace};
use crate::load::record::Record;
use crate::load::tests::{at, lane, ms, plan};

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// The reaction of a server to a connection attempt or a request.
#[derive(Clone, Copy, Debug)]
enum Answer {
    /// An answer after this time.
    After(Duration),
    /// An answer at this time, regardless of the request's time.
    At(Timestamp),
    /// An immediate refusal or close.
    No,
    /// No answer at all.
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Connected,
    Refused,
    Answered,
    Closed,
}

/// A driver and a server in simulated time.
struct World<C, S> {
    driver: Driver,
    now: Timestamp,
    happenings: BinaryHeap<Reverse<(Timestamp, Slot, Happening, u32)>>,
    /// Number of the current connection in each slot.
    present: Vec<u32>,
    accept: C,
    serve: S,
    connects: Vec<Timestamp>,
    sends: Vec<(Timestamp, usize)>,
}

impl<C: Fn(Timestamp) -> Answer, S: Fn(Timestamp) -> Answer> World<C, S> {
    fn run(plan: &Plan, accept: C, serve: S) -> (Batch, Self) {
        Self::run_until(plan, accept, serve, None)
    }

    fn run_until(plan: &Plan, accept: C, serve: S, stop: Option<Timestamp>) -> (Batch, Self) {
        let driver = Driver::new(plan, (0, 1), at(0));
        let mut world = Self {
            present: vec![0; driver.len()],
            driver,
            now: at(0),
            happenings: BinaryHeap::new(),
            accept,
            serve,
            connects: Vec::new(),
            sends: Vec::new(),
        };
        world.driver.begin(world.now);
        world.carry_out();
        for _ in 0..1_000_000 {
            if world.driver.is_done(world.now) {
                world.driver.finish(world.now);
                return (world.driver.take_batch(), world);
            }
            world.step();
            if stop.is_some_and(|stop| world.now >= stop) {
                world.driver.stop(world.now, Duration::MAX);
            }
        }
        panic!("the driver does not come to an end");
    }

    fn step(&mut self) {
        let wake = self.driver.next_wake(self.now).max(self.now);
        match self.happenings.peek() {
            Some(&Reverse((time, slot, happening, number))) if time <= wake => {
                self.happenings.pop();
                self.now = time.max(self.now);
                if self.present.get(slot) == Some(&number) {
                    self.tell(slot, happening);
                }
            }
            _ => self.now = wake,
        }
        self.carry_out();
        self.driver.tick(self.now, self.now);
        self.carry_out();
    }

    fn tell(&mut self, slot: Slot, happening: Happening) {
        let now = self.now;
        match happening {
            Happening::Connected => self.driver.connected(slot, now, None),
            Happening::Refused => self.driver.failed(slot, now, RequestFailure::Refused),
            Happening::Answered => self.driver.received(slot, now, RESPONSE),
            Happening::Closed => self.driver.peer_closed(slot, now),
        }
    }

    fn carry_out(&mut self) {
        while let Some(command) = self.driver.next_command() {
            match command {
                Command::Connect(slot) => {
                    self.connects.push(self.now);
                    self.present[slot] += 1;
                    let answer = (self.accept)(self.now);
                    self.plan(slot, answer, Happening::Connected, Happening::Refused);
                }
                Command::Send(slot) => {
                    self.sends.push((self.now, self.driver.lane_of(slot)));
                    let answer = (self.serve)(self.now);
                    self.plan(slot, answer, Happening::Answered, Happening::Closed);
                }
                Command::Close(slot) => self.present[slot] += 1,
            }
        }
    }

    fn plan(&mut self, slot: Slot, answer: Answer, yes: Happening, no: Happening) {
        let (time, happening) = match answer {
            Answer::After(time) => (self.now + time, yes),
            Answer::At(time) => (time.max(self.now), yes),
            Answer::No => (self.now, no),
            Answer::Never => return,
        };
        let number = self.present[slot];
        self.happenings
            .push(Reverse((time, slot, happening, number)));
    }
}

fn at_once(_: Timestamp) -> Answer {
    Answer::After(ms(1))
}

fn after_10_ms(_: Timestamp) -> Answer {
    Answer::After(ms(10))
}

/// Returns the longest latency, measured from the scheduled start.
fn longest(batch: &Batch) -> Duration {
    let ages = batch.records.iter().map(|r| r.ended.since(r.due));
    ages.max().unwrap_or_default()
}

#[test]
fn a_closed_loop_asks_again_as_soon_as_it_was_answered() {
    let plan = plan(vec![lane(4, None)]);
    let (batch, world) = World::run(&plan, at_once, after_10_ms);
    // Each of four connections sends 100 requests, from 1 ms to 991 ms.
    assert_eq!(batch.records.len(), 4 * 100);
    assert!(batch.records.iter().all(|r| r.outcome == Ok(200)));
    assert!(batch.records.iter().all(|r| r.ended.since(r.due) == ms(10)));
    assert_eq!((batch.opened.len(), world.connects.len()), (4, 4));
}

#[test]
fn in_open_loop_a_pause_of_the_server_is_in_the_tail() {
    let mut plan = plan(vec![lane(2, None)]);
    plan.pace = Pace::Rate(100.0);
    let frozen = |now: Timestamp| {
        if now >= at(400) && now < at(600) {
            Answer::At(at(600))
        } else {
            Answer::After(ms(1))
        }
    };
    let (batch, world) = World::run(&plan, at_once, frozen);
    assert_eq!(batch.records.len(), 100);
    let slow = batch
        .records
        .iter()
        .filter(|r| r.ended.since(r.due) >= ms(50));
    assert_eq!(slow.count(), 16);
    assert_eq!(longest(&batch), ms(200));
    // Two requests reached the frozen server. The others waited in the client.
    let stuck = batch
        .records
        .iter()
        .filter(|r| r.ended.since(r.sent.expect("sent")) >= ms(50));
    assert_eq!(stuck.count(), 2);
    assert_eq!(world.driver.lag().max(), Duration::ZERO);
}

#[test]
fn what_a_slow_server_leaves_is_counted_with_its_age() {
    let mut plan = plan(vec![lane(1, None)]);
    plan.pace = Pace::Rate(100.0);
    let (batch, world) = World::run(&plan, at_once, |_| Answer::After(ms(100)));
    let count: u64 = batch.records.iter().map(|record| record.count).sum();
    assert_eq!(count, 100);
    let is_cut = |record: &&Record| record.outcome == Err(RequestFailure::Cut);
    let cut: Vec<_> = batch.records.iter().filter(is_cut).collect();
    // In two seconds, one of them grace, the server answers 19 of the 100 requests: one every 100
    // ms, from 101 ms on.
    assert_eq!(cut.len(), 81);
    assert!(cut.iter().all(|r| r.ended.since(r.due) >= plan.grace()));
    assert_eq!(world.now, at(2000));
}

#[test]
fn requests_in_flight_at_the_end_are_waited_for() {
    let plan = plan(vec![lane(3, None)]);
    let (batch, world) = World::run(&plan, at_once, |_| Answer::After(ms(700)));
    assert_eq!(batch.records.len(), 6);
    assert!(batch.records.iter().all(|r| r.outcome == Ok(200)));
    assert_eq!(world.now, at(1401));
}

#[test]
fn a_server_that_never_answers_times_out_every_request() {
    let mut plan = plan(vec![lane(3, None)]);
    plan.timeout = ms(200);
    let (batch, world) = World::run(&plan, at_once, |_| Answer::Never);
    let timeouts = batch.records.iter();
    let timeouts = timeouts.filter(|r| r.outcome == Err(RequestFailure::Timeout));
    assert!(timeouts.clone().count() >= 9);
    assert!(
        timeouts
            .clone()
            .all(|r| r.ended.since(r.sent.expect("sent")) >= ms(200))
    );
    assert!(
        timeouts
            .clone()
            .all(|r| r.ended.since(r.sent.expect("sent")) <= ms(220))
    );
    let last = batch.records.last().expect("records");
    assert!(matches!(
        last.outcome,
        Err(RequestFailure::Cut | RequestFailure::Timeout)
    ));
    assert!(world.now <= at(1200));
}

#[test]
fn a_refusing_server_is_not_stormed() {
    for rate in [Pace::ClosedLoop, Pace::Rate(1000.0)] {
        let mut plan = plan(vec![lane(2, None)]);
        plan.pace = rate;
        let (batch, world) = World::run(&plan, |_| Answer::No, at_once);
        assert!(world.connects.len() <= 2 * 10, "{}", world.connects.len());
        let refused = batch.records.iter();
        let refused = refused.filter(|r| r.outcome == Err(RequestFailure::Refused));
        assert!(refused.count() >= 10);
        let (failed, why) = batch.failed_connects.expect("none was made");
        assert_eq!(failed, world.connects.len() as u64);
        assert_eq!(why, RequestFailure::Refused);
        if rate.rate().is_some() {
            let count: u64 = batch.records.iter().map(|record| record.count).sum();
            assert_eq!(count, 1000);
        }
    }
}

#[test]
fn a_server_that_closes_at_once_is_not_stormed() {
    let plan = plan(vec![lane(2, None)]);
    let (batch, world) = World::run(&plan, at_once, |_| Answer::No);
    assert!(world.connects.len() <= 2 * 10);
    let all_closed = batch.records.iter();
    assert!(all_closed.clone().count() >= 10);
    assert!(
        all_closed
            .clone()
            .all(|r| r.outcome == Err(RequestFailure::Closed))
    );
}

#[test]
fn fresh_connections_carry_one_request_each() {
    for (experiment, pace) in [
        (Experiment::FreshConnection, Pace::ClosedLoop),
        (Experiment::ConnectionClose, Pace::Rate(100.0)),
    ] {
        let mut plan = plan(vec![lane(2, Some(experiment))]);
        plan.pace = pace;
        let (batch, world) = World::run(&plan, |_| Answer::After(ms(4)), after_10_ms);
        assert_eq!(world.connects.len(), batch.records.len());
        assert!(batch.records.iter().all(|r| r.setup == Some(ms(4))));
        assert!(batch.records.iter().all(|r| r.ordinal == 0));
        assert!(
            batch
                .records
                .iter()
                .all(|r| r.ended.since(r.sent.expect("sent")) == ms(10))
        );
        let from_due = if pace.rate().is_some() {
            ms(14)
        } else {
            ms(10)
        };
        assert!(
            batch
                .records
                .iter()
                .all(|r| r.ended.since(r.due) == from_due)
        );
    }
}

#[test]
fn lanes_send_in_their_own_slices_only() {
    for pace in [Pace::ClosedLoop, Pace::Rate(200.0)] {
        let mut plan = plan(vec![lane(3, None), lane(3, Some(Experiment::QuickAck))]);
        plan.arrangement = Arrangement::Interleaved { slice: ms(100) };
        plan.pace = pace;
        let (batch, world) = World::run(&plan, at_once, |_| Answer::After(ms(7)));
        for &(time, lane) in world.sends.iter().filter(|(time, _)| *time > at(2)) {
            assert_eq!(
                time.since(at(0)).as_millis() / 100 % 2,
                lane as u128,
                "{time}"
            );
        }
        let of = |lane| batch.records.iter().filter(|r| r.lane == lane).count();
        assert!(of(0).abs_diff(of(1)) <= 5, "{} {}", of(0), of(1));
        assert!(of(0) >= 100);
    }
}

#[test]
fn a_pause_stands_between_response_and_next_request() {
    let pause = ms(30);
    let plan = plan(vec![lane(1, Some(Experiment::ThinkTime { pause }))]);
    let (batch, _) = World::run(&plan, at_once, after_10_ms);
    assert_eq!(batch.records.len(), 25);
    for pair in batch.records.windows(2) {
        assert_eq!(pair[1].sent.expect("sent").since(pair[0].ended), pause);
    }
}

#[test]
fn stopping_early_keeps_what_was_measured_and_waits_a_little() {
    let mut plan = plan(vec![lane(2, None)]);
    plan.duration = ms(60_000);
    let (batch, world) = World::run_until(&plan, at_once, after_10_ms, Some(at(500)));
    assert!(world.now <= at(530));
    assert!(batch.records.len() >= 98);
    assert!(batch.records.iter().all(|r| r.outcome == Ok(200)));
}

#[test]
fn connections_that_never_open_are_counted_at_the_end() {
    let plan = plan(vec![lane(2, None)]);
    let (batch, _) = World::run(&plan, |_| Answer::Never, at_once);
    let outcomes: Vec<_> = batch.records.iter().map(|r| r.outcome).collect();
    assert_eq!(outcomes, [Err(RequestFailure::Cut); 2]);
}

#[test]
fn connections_are_shared_out_without_gap_or_overlap() {
    for (all, workers) in [(100, 3), (2, 4), (1, 1), (60_000, 7)] {
        let shares: Vec<_> = (0..workers).flat_map(|w| share(all, w, workers)).collect();
        assert_eq!(shares, (0..all).collect::<Vec<_>>());
        let groups: Vec<_> = (0..all).map(|n| group_of(n, all)).collect();
        assert!(groups.is_sorted());
        assert_eq!(u32::from(groups[groups.len() - 1]) + 1, all.min(16));
    }
}
