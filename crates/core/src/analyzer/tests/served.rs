//! Tests of turns of a server's kernel that are joined to packets captured elsewhere.

mod renamed;

use core::time::Duration;

use super::*;
use crate::claim::Claim;
use crate::conclude::kernel_join::{self, weigh};
use crate::exchange::wait::{Owner, WaitKind};
use crate::observed::event::{LoadCluster, PhaseStart};
use crate::observed::kernel_span::{KernelHold, RequestSpan, Stage, WatchTally};
use crate::observed::load_level::{LevelSample, ProcessorUse};
use crate::registry::Id;
use crate::report::{EvidenceKind, Finding, JoinedTurns, OverallResult, Remark, Report, Verdict};
use crate::service::kernel_join::{Served, Waiting};
use crate::stats::histogram::Distribution;

const SYN: TcpFlags = TcpFlags::SYN;
const SYN_ACK: TcpFlags = TcpFlags::SYN.with(ACK);
const EXCHANGES: i64 = 30;
/// The time from one request to the next, in µs.
const APART: i64 = 100_000;
/// The propagation time in each direction, in µs.
const WAY: i64 = 4_000;
/// The delay of the client's delayed ACK, in µs.
const DELAYED: i64 = 40_000;

fn ends() -> [Endpoint; 2] {
    [([10, 0, 0, 1], 40_000), ([10, 0, 0, 2], 80)]
        .map(|(address, port)| Endpoint::new(address.into(), port))
}

fn at(micros: i64) -> Timestamp {
    Timestamp::from_nanos(1_700_000_000_000_000_000 + micros * 1000)
}

/// Segments as captured at the client. Their handshake shows the propagation time.
struct Wire {
    list: Vec<Segment>,
    next: [u32; 2],
}

impl Wire {
    fn new() -> Self {
        let mut wire = Self {
            list: Vec::new(),
            next: [100, 900],
        };
        for (micros, by_client, flags) in [
            (-20_000, true, SYN),
            (-20_000 + 2 * WAY, false, SYN_ACK),
            (-19_990 + 2 * WAY, true, ACK),
        ] {
            wire.add(micros, by_client, flags, 0);
        }
        wire
    }

    fn add(&mut self, micros: i64, by_client: bool, flags: TcpFlags, payload_len: u32) {
        let [client, server] = ends();
        let (from, to, own) = if by_client {
            (client, server, 0)
        } else {
            (server, client, 1)
        };
        let (flow, direction) = FlowKey::new(Transport::Tcp, from, to);
        self.list.push(Segment {
            at: at(micros),
            number: self.list.len() as u64 + 1,
            point: PointId(0),
            flow,
            direction,
            seq: self.next[own],
            ack: if flags.contains(ACK) {
                self.next[1 - own]
            } else {
                0
            },
            flags,
            window: 60_000,
            payload_len,
            options: TcpOptions::default(),
            ip: IpFacts::default(),
        });
        self.next[own] += payload_len + u32::from(flags.contains(SYN));
    }

    /// Adds a request and its response, which the server sends after `think`. If `is_held` is true,
    /// the response consists of two small parts.
    fn exchange(&mut self, begin: i64, think: i64, is_held: bool) {
        let first = begin + 2 * WAY + think;
        self.add(begin, true, ACK, 40);
        self.add(first, false, ACK, 100);
        let mut last = first;
        if is_held {
            self.add(first + DELAYED, true, ACK, 0);
            last = first + DELAYED + 2 * WAY + 5;
            self.add(last, false, ACK, 200);
        }
        self.add(last + 900, true, ACK, 0);
    }
}

/// A turn that arrived at the server at `arrived`. `read`, `written` and `sent` are times after it,
/// and `held` is the time for which Nagle's algorithm held data; all in µs.
fn turn(arrived: i64, read: i64, written: i64, sent: [i64; 2], held: i64) -> RequestSpan {
    let [client, server] = ends();
    let total = Duration::from_micros(held as u64);
    RequestSpan {
        local: server,
        remote: client,
        program: None,
        arrived: at(arrived),
        entered: None,
        delivered: at(arrived),
        delivered_last: at(arrived),
        read: Some(at(arrived + read)),
        written: Some(at(arrived + written)),
        written_last: Some(at(arrived + written)),
        sent: at(arrived + sent[0]),
        sent_last: at(arrived + sent[1]),
        departure: None,
        refused: None,
        writes: 2,
        held: KernelHold {
            times: u32::from(held > 0),
            after_arrival: u32::from(held > 0),
            total,
            longest: total,
        },
        thread: None,
        asked: None,
    }
}

/// The report on exchanges with a server time of `think` according to the packets. Each exchange
/// has a turn from the server's kernel.
fn report(think: i64, is_held: bool, turn: impl Fn(i64) -> RequestSpan) -> Report {
    told(think, is_held, turn, Vec::new())
}

fn told(
    think: i64,
    is_held: bool,
    turn: impl Fn(i64) -> RequestSpan,
    before: Vec<Event>,
) -> Report {
    let [_, server] = ends();
    let mut analyzer = Analyzer::new(Options {
        targets: vec![(TargetId::Subject, server)],
        ..Options::default()
    });
    before.into_iter().for_each(|event| analyzer.observe(event));
    let mut wire = Wire::new();
    for n in 0..EXCHANGES {
        // Turns are passed on in the order of their start times.
        let turn = turn(n * APART + WAY);
        let event = Event::here(
            turn.arrived,
            Phase::Baseline,
            EventBody::Turn(Box::new(turn)),
        );
        analyzer.observe(event);
        wire.exchange(n * APART, think, is_held);
        for segment in wire.list.drain(..) {
            analyzer.segment(&segment, b"");
        }
    }
    let tally = EventBody::Watched(WatchTally::default());
    analyzer.observe(Event::here(at(0), Phase::Baseline, tally));
    analyzer.finish()
}

fn joined(report: &Report) -> Option<&JoinedTurns> {
    let services = &report.watch.as_ref()?.services;
    services.first()?.joined.as_ref()
}

/// Returns the certainty that the time passed at the culprit.
fn place(finding: &Finding) -> Verdict {
    let location = finding.location.as_ref().expect("a finding with a place");
    location.certainty
}

fn only(report: &Report) -> &Finding {
    assert_eq!(report.findings.len(), 1, "{:#?}", report.findings);
    &report.findings[0]
}

fn kernel_trace(finding: &Finding) -> Vec<(bool, &str)> {
    let traces = finding.evidence.iter();
    let traces = traces.filter(|piece| piece.kind == EvidenceKind::KernelTrace);
    traces
        .map(|piece| (piece.shows_mechanism, piece.text.as_str()))
        .collect()
}

fn notes(report: &Report) -> Vec<&str> {
    let ids = report.notes.iter().map(|note| note.id.as_str());
    ids.filter(|id| id.starts_with("host-")).collect()
}

/// A turn in which the program took `think`, and its response left immediately.
fn thought(arrived: i64, think: i64) -> RequestSpan {
    turn(arrived, 50, think, [think, think], 0)
}

#[test]
fn what_the_packets_call_held_the_kernel_splits_and_proves() {
    let held = DELAYED + 2 * WAY;
    let report = report(700, true, |arrived| {
        turn(arrived, 50, 700, [700, 700 + held], held)
    });
    let finding = only(&report);
    assert_eq!(
        (finding.cause, finding.verdict),
        (Id::NagleDelayedAck, Verdict::Proven)
    );
    let joined = joined(&report).expect("joined");
    assert_eq!(joined.exchanges.count, EXCHANGES as u64);
    assert_eq!(joined.waits.len(), 1, "{joined:#?}");
    let micros = joined.waits[0].stages[Stage::Held as usize].time_ns.p50 / 1000;
    assert!(micros.abs_diff(held as u64) < 10, "{micros}");
    let said = kernel_trace(finding);
    let split = said.last().expect("a split");
    assert!(
        split.0 && split.1.contains("48.0 ms held by Nagle's algorithm"),
        "{said:#?}"
    );
    assert_eq!(notes(&report), [""; 0]);
    // The example exchange shows the packets' waits and the kernel's stages.
    let at_host = |exemplar: &crate::report::Exemplar| {
        let stages = exemplar.at_host.iter();
        let each = stages.map(|stage| (stage.stage.clone(), stage.duration_ns as i64 / 1000));
        each.collect::<Vec<_>>()
    };
    let expected = [("unread", 50), ("program", 650), ("held", held)];
    let expected = expected.map(|(stage, micros)| (stage.to_owned(), micros));
    assert!(!finding.exemplars.is_empty());
    assert!(
        finding
            .exemplars
            .iter()
            .all(|shown| at_host(shown) == expected)
    );
    // These packets are in a capture, so evidence refers to their numbers.
    assert!(
        finding
            .evidence
            .iter()
            .any(|piece| !piece.packets.is_empty())
    );
}

#[test]
fn what_the_program_took_is_proven_by_its_kernel() {
    let report = report(40_000, false, |arrived| thought(arrived, 40_000));
    let finding = only(&report);
    assert_eq!(
        (finding.cause, place(finding)),
        (Id::ServerThink, Verdict::Proven)
    );
    assert_eq!(finding.verdict, Verdict::Possible, "why, it does not say");
    assert_eq!(notes(&report), [""; 0]);
    let joined = joined(&report).expect("joined");
    assert_eq!(
        (joined.beyond.exchanges.count, joined.within.exchanges.count),
        (0, 0)
    );
}

#[test]
fn what_the_host_did_not_take_is_not_said_of_it() {
    let report = report(40_000, false, |arrived| thought(arrived, 100));
    assert!(
        report
            .findings
            .iter()
            .all(|finding| finding.cause != Id::ServerThink)
    );
    assert_eq!(notes(&report), ["host-answered-sooner"]);
    // The queue of the server's own device was not observed.
    assert_eq!(only(&report).cause, Id::TimeUnknown, "{report:#?}");
    let beyond = joined(&report).expect("joined").beyond;
    assert_eq!(beyond.exchanges.count, EXCHANGES as u64);
    assert!(
        (39_000_000..40_000_000).contains(&beyond.time_ns.p50),
        "{beyond:?}"
    );
}

#[test]
fn what_its_kernel_kept_is_not_the_programs() {
    let report = report(40_000, false, |arrived| {
        turn(arrived, 50, 300, [40_000, 40_000], 0)
    });
    let finding = only(&report);
    assert_eq!(
        (finding.cause, finding.verdict),
        (Id::ServerThink, Verdict::Possible)
    );
    assert_eq!(finding.candidates[0].cause, Id::CorkHold);
}

#[test]
fn another_connections_turns_are_not_joined() {
    let [client, _] = ends();
    let report = report(40_000, false, |arrived| RequestSpan {
        remote: Endpoint::new(client.addr, client.port + 1),
        ..thought(arrived, 100)
    });
    assert_eq!(place(only(&report)), Verdict::Strong);
    assert_eq!(kernel_trace(only(&report)), []);
    assert_eq!(joined(&report), None);
    assert_eq!(notes(&report), ["host-unmatched"]);
}

#[test]
fn another_times_turns_are_not_joined() {
    let report = report(40_000, false, |arrived| thought(arrived + APART / 2, 100));
    assert_eq!(place(only(&report)), Verdict::Strong);
    assert_eq!(joined(&report), None);
}

/// An exchange that began at 0 and took `think` at the server.
fn exchange(think: i64) -> Exchange {
    exchange_of(think, false)
}

fn exchange_of(think: i64, is_held: bool) -> Exchange {
    let mut wire = Wire::new();
    wire.exchange(0, think, is_held);
    let seen = Arc::new(Mutex::new(None));
    let sink = Arc::clone(&seen);
    let mut analyzer = Analyzer::new(Options::default()).with_sink(Box::new(move |exchange| {
        *sink.lock().expect("one thread") = Some(exchange.clone());
    }));
    for segment in &wire.list {
        analyzer.segment(segment, b"");
    }
    analyzer.finish();
    let exchange = seen.lock().expect("one thread").take();
    exchange.expect("an exchange")
}

/// The kernel confirms what the server thought, and contradicts what held back its response.
#[test]
fn a_finding_is_contradicted_only_if_all_of_its_waits_are() {
    let mut served = Served::default();
    for _ in 0..10 {
        served.add_exchange(&mut exchange(40_000), Some(thought(WAY, 40_000)));
        let quick = turn(WAY, 50, 100, [100, 200], 0);
        served.add_exchange(&mut exchange_of(100, true), Some(quick));
    }
    for (waits, is_contradicted) in [
        (vec![WaitKind::ServerThink], false),
        (vec![WaitKind::ResponseHeld], true),
        (vec![WaitKind::ServerThink, WaitKind::ResponseHeld], false),
        (vec![WaitKind::RoundTrip], false),
    ] {
        let mut claim = Claim::blank(
            Id::ServerThink,
            Owner::Server,
            Endpoint::new([10, 0, 0, 2].into(), 80),
        );
        claim.time.waits = waits;
        let found = kernel_join::is_contradicted(&claim, &served);
        assert_eq!(found, is_contradicted, "{:?}", claim.time.waits);
    }
}

/// Two turns in one exchange: it cannot be determined which one belongs to it.
#[test]
fn turns_that_share_an_exchange_are_not_joined() {
    let exchange = exchange(40_000);
    let mut waiting = Waiting::default();
    waiting.put(thought(WAY, 10_000));
    waiting.put(thought(WAY + 20_000, 10_000));
    assert_eq!(waiting.take_turn_within(&exchange), None);
    let mut waiting = Waiting::default();
    waiting.put(thought(WAY, 10_000));
    waiting.put(thought(WAY + APART, 10_000));
    assert_eq!(
        waiting.take_turn_within(&exchange),
        Some(thought(WAY, 10_000))
    );
    assert_eq!(waiting.take_turn_within(&exchange), None);
}

/// The server's device comes after its network stack. Time in the device's queue is the server's
/// time, although its kernel had sent the response.
#[test]
fn what_a_device_keeps_is_not_taken_back() {
    let mut claim = Claim::blank(
        Id::ServerThink,
        Owner::Server,
        Endpoint::new([10, 0, 0, 2].into(), 80),
    );
    let mut served = Served::default();
    for _ in 0..EXCHANGES {
        served.add_exchange(&mut exchange(40_000), Some(thought(WAY, 100)));
    }
    assert!(weigh(claim.clone(), &served).is_err());
    claim.time.waits.push(WaitKind::RoundTrip);
    assert!(weigh(claim, &served).is_ok());
}

#[test]
fn a_turn_outside_the_baseline_counts_nowhere() {
    let [client, server] = ends();
    let (flow, _) = FlowKey::new(Transport::Tcp, client, server);
    let warm_up = Event::here(at(-50_000), Phase::WarmUp, EventBody::FlowPhase(flow));
    let report = told(
        40_000,
        false,
        |arrived| thought(arrived, 40_000),
        vec![warm_up],
    );
    assert_eq!(report.findings.len(), 0, "{:#?}", report.findings);
    assert_eq!(report.watch.expect("watched").services.len(), 0);
}

#[test]
fn a_quick_server_and_its_kernel_agree() {
    let report = report(300, false, |arrived| thought(arrived, 300));
    assert_eq!(report.findings.len(), 0, "{:#?}", report.findings);
    assert_eq!(notes(&report), [""; 0]);
    assert_eq!(
        joined(&report).expect("joined").exchanges.count,
        EXCHANGES as u64
    );
}

/// The handshake was slow, so too much time is attributed to the path.
#[test]
fn what_the_path_is_given_too_much_of_is_said() {
    let report = report(0, false, |arrived| {
        // The turn begins 3 ms earlier and ends 3 ms later than half of the measured round trip
        // implies.
        thought(arrived - 3_000, 6_000)
    });
    assert_eq!(notes(&report), ["host-took-longer"]);
    assert_eq!(report.findings.len(), 0, "{:#?}", report.findings);
}

/// Returns the report on a server whose program has each request for 40 ms, and whose processes use
/// `work` of processor time for all requests together. Its load had these levels before.
fn with_work(work: Duration, levels: &[LevelSample]) -> Report {
    let lasted = Duration::from_micros((EXCHANGES * APART) as u64);
    let start = PhaseStart {
        target: TargetId::Subject,
        end: at(0) + lasted,
        experiment: None,
        connections: 1,
        offered_rate: None,
        turns: 1,
        active: lasted,
        is_observed: false,
    };
    let mut latency = Distribution::default();
    latency.record_many(Duration::from_millis(48), EXCHANGES as u64);
    let load = LoadCluster {
        latency,
        statuses: vec![(200, EXCHANGES as u64)],
        ..LoadCluster::default()
    };
    let used = ProcessorUse {
        processors: 2,
        wall: lasted,
        service: Some(work),
        ..ProcessorUse::default()
    };
    let bodies = [
        EventBody::PhaseStarted(start),
        EventBody::Load(load),
        EventBody::Processors(used),
    ];
    let levels = levels.iter().cloned().map(EventBody::Level);
    let before = levels.chain(bodies);
    let before = before.map(|body| Event::here(at(0), Phase::Baseline, body));
    told(
        40_000,
        false,
        |arrived| thought(arrived, 40_000),
        before.collect(),
    )
}

/// A level of load with these connections, of which each request takes this time.
fn level(connections: u32, millis: u64, is_asked: bool) -> LevelSample {
    let time = Duration::from_millis(millis);
    LevelSample {
        connections,
        is_asked,
        lasted: Duration::from_secs(1),
        responses: 25,
        mean: time,
        median: time,
        p99: time,
        ..LevelSample::default()
    }
}

#[test]
fn a_program_that_works_all_the_time_is_saturated_and_not_late() {
    let result = |share: f64, last: u64| {
        let work = Duration::from_millis(40).mul_f64(share * EXCHANGES as f64);
        let report = with_work(work, &[level(1, 40, false), level(8, last, true)]);
        let is_told = report.notes.iter().any(|note| note.id == Remark::COMPUTES);
        let result = report.overall.expect("a result").result;
        (is_told, result, report.findings.len())
    };
    assert_eq!(result(0.9, 320), (true, OverallResult::Saturated, 0));
    // It waits for something for half of the time.
    assert_eq!(result(0.5, 320), (false, OverallResult::Located, 1));
    // It carries the load.
    assert_eq!(result(0.9, 40), (false, OverallResult::Located, 1));
}

#[test]
fn a_program_that_works_little_waits_for_something_else() {
    let advice = |work: f64| {
        let all = Duration::from_millis(40).mul_f64(work * EXCHANGES as f64);
        let report = with_work(all, &[]);
        let finding = only(&report);
        assert_eq!(finding.cause, Id::ServerThink);
        let mut evidence = finding.evidence.iter();
        let is_told = evidence.any(|piece| piece.text.contains("it waited for something else"));
        (is_told, finding.fix[0].change.contains("sleep"))
    };
    assert_eq!(advice(0.1), (true, true));
    assert_eq!(advice(0.9), (false, false));
}

/// Returns the number of turns that count. `is_ours` says which are on our flow.
fn counted(is_ours: fn(i64) -> bool, is_known: bool) -> u64 {
    let [client, server] = ends();
    let (flow, _) = FlowKey::new(Transport::Tcp, client, server);
    let own = Event::here(at(-50_000), Phase::Baseline, EventBody::FlowPhase(flow));
    let other = Endpoint::new(client.addr, 50_000);
    let turn = |arrived: i64| RequestSpan {
        remote: if is_ours((arrived - WAY) / APART) {
            client
        } else {
            other
        },
        ..thought(arrived, 300)
    };
    let before = Vec::from_iter(is_known.then_some(own));
    let report = told(300, false, turn, before);
    report.watch.expect("watched").services[0].turns
}

#[test]
fn turns_of_other_clients_do_not_count_once_the_kernel_has_timed_one_of_ours() {
    let all = EXCHANGES as u64;
    assert_eq!(counted(|turn| turn % 3 == 0, true), all / 3);
    assert_eq!(counted(|_| true, true), all);
    // A kernel behind NAT sees other addresses than we do.
    assert_eq!(counted(|_| false, true), all);
    assert_eq!(counted(|turn| turn % 3 == 0, false), all);
}
