//! Tests of requests that were sent during warm-up and not answered during the measurement.

use core::time::Duration;

use super::*;
use crate::observed::event::{Event, EventBody, Phase, PhaseStart, TargetId};
use crate::registry::Id;

/// The milliseconds at which the measurement begins and ends, and at which the connections close.
const MEASURED: (i64, i64) = (100, 1_900);
const CLOSED: i64 = 2_000;
/// The time from one request to the next on the connection that is served, in milliseconds.
const APART: i64 = 10;
const SYN: TcpFlags = TcpFlags::SYN;

pub(super) fn at(millis: i64) -> Timestamp {
    Timestamp::from_nanos(1_700_000_000_000_000_000 + millis * 1_000_000)
}

pub(super) fn ends(port: u16) -> [Endpoint; 2] {
    [(1, 40_000 + port), (2, 80)].map(|(host, port)| Endpoint::new([10, 0, 0, host].into(), port))
}

/// A step of a connection: its millisecond, true if sent by the client, its flags and payload.
pub(super) type Step = (i64, bool, TcpFlags, &'static [u8]);

pub(super) fn opened(then: impl IntoIterator<Item = Step>) -> Vec<Step> {
    let none = b"".as_slice();
    let handshake = [
        (0, true, SYN, none),
        (0, false, SYN.with(ACK), none),
        (0, true, ACK, none),
    ];
    handshake.into_iter().chain(then).collect()
}

/// A connection whose request is in the server's kernel but never answered.
fn left() -> Vec<Step> {
    let closing = TcpFlags::FIN.with(ACK);
    opened([
        (1, true, ACK, REQUEST),
        (2, false, ACK, b"".as_slice()),
        (CLOSED, true, closing, b""),
    ])
}

/// A connection whose requests are answered from the millisecond `from` on.
pub(super) fn answered(from: i64) -> Vec<Step> {
    let turns = (from.max(1)..MEASURED.1).step_by(APART as usize);
    let turn = |ms| [(ms, true, ACK, REQUEST), (ms + 1, false, ACK, RESPONSE)];
    opened(turns.flat_map(turn))
}

pub(super) fn segments(port: u16, steps: Vec<Step>) -> Vec<(Segment, &'static [u8])> {
    let mut next = [0_u32; 2];
    let mut made = Vec::new();
    for (ms, by_client, flags, payload) in steps {
        let [client, server] = ends(port);
        let (from, to) = if by_client {
            (client, server)
        } else {
            (server, client)
        };
        let [own, other] = [usize::from(!by_client), usize::from(by_client)];
        let at = at(ms) + Duration::from_micros(made.len() as u64 % 50);
        let segment = Segment {
            seq: next[own],
            ack: next[other],
            flags,
            payload_len: payload.len() as u32,
            ..Segment::sent(from, to, at)
        };
        next[own] += payload.len() as u32 + u32::from(flags.contains(SYN));
        made.push((segment, payload));
    }
    made
}

/// A connection whose requests are answered. The capture missed the first response, but not the ACK
/// of it.
fn missed() -> Vec<(bool, Step)> {
    let mut steps: Vec<_> = left().into_iter().map(|step| (true, step)).collect();
    steps.insert(5, (false, (40, false, ACK, RESPONSE)));
    steps.insert(6, (true, (41, true, ACK, b"")));
    steps
}

/// Returns the beginning of the measurement of an investigation, with packets.
pub(super) fn begins(connections: u32) -> Event {
    let start = PhaseStart {
        target: TargetId::Subject,
        end: at(MEASURED.1),
        experiment: None,
        connections,
        offered_rate: None,
        turns: 1,
        active: Duration::from_millis(1_800),
        is_observed: true,
    };
    let body = EventBody::PhaseStarted(start);
    Event::here(at(MEASURED.0), Phase::Baseline, body)
}

/// Returns the causes found if the other connections are answered from the millisecond
/// `served_from` on.
fn found(served_from: i64, phase: Phase) -> Vec<Id> {
    let [_, server] = ends(0);
    let mut analyzer = Analyzer::new(Options {
        targets: vec![(TargetId::Subject, server)],
        ..Options::default()
    });
    analyzer.observe(begins(5));
    let mut all = segments(0, answered(served_from));
    for port in 0..5 {
        let (flow, _) = FlowKey::new(Transport::Tcp, ends(port)[0], server);
        let made_for = if port == 0 { Phase::Baseline } else { phase };
        analyzer.observe(Event::here(at(0), made_for, EventBody::FlowPhase(flow)));
        if port > 0 {
            all.extend(segments(port, left()));
        }
    }
    causes(analyzer, all)
}

#[test]
fn whose_answer_the_capture_missed_was_not_left_without_one() {
    let found = |is_missed: bool| {
        let mut all = segments(0, answered(1));
        for port in 1..5 {
            let (seen, steps): (Vec<_>, Vec<_>) = missed().into_iter().unzip();
            let made = if is_missed {
                segments(port, steps)
            } else {
                segments(port, left())
            };
            let is_seen = |at: usize| !is_missed || seen.get(at).copied().unwrap_or(true);
            let made = made.into_iter().enumerate();
            all.extend(made.filter(|&(at, _)| is_seen(at)).map(|(_, each)| each));
        }
        causes(Analyzer::new(Options::default()), all)
    };
    assert!(found(false).contains(&Id::WorkerSaturation));
    assert!(!found(true).contains(&Id::WorkerSaturation));
}

#[test]
fn who_was_left_without_an_answer_from_the_warm_up_on_is_told() {
    assert_eq!(found(1, Phase::Baseline), [Id::WorkerSaturation]);
}

#[test]
fn who_was_left_by_a_server_that_had_yet_to_start_is_not() {
    assert!(!found(1_500, Phase::Baseline).contains(&Id::WorkerSaturation));
    assert!(!found(1, Phase::Experiment(1)).contains(&Id::WorkerSaturation));
}
