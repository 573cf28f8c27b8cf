//! Tests of turns of a server's kernel that are joined to its own segments.

use core::time::Duration;

use super::*;
use crate::observed::kernel_span::{Departure, KernelHold, RequestSpan, ThreadTimes, WatchTally};
use crate::observed::passage::{BytePassage, PassagePoint};
use crate::registry::Id;
use crate::report::{EvidenceKind, Finding, Verdict};

const EXCHANGES: i64 = 30;
/// The time from one request to the next, in µs.
const APART: i64 = 50_000;
/// The delay of the client's delayed ACK after the head of the answer, in µs.
const DELAYED: i64 = 40_000;
/// The program's time until the head of its answer, in µs.
const PROGRAM: i64 = 700;

fn ends() -> [Endpoint; 2] {
    [([10, 0, 0, 1], 40_000), ([10, 0, 0, 2], 80)]
        .map(|(address, port)| Endpoint::new(address.into(), port))
}

fn at(micros: i64) -> Timestamp {
    Timestamp::from_nanos(1_700_000_000_000_000_000 + micros * 1000)
}

/// A connection whose handshake was not seen. Each response consists of two small parts, and the
/// second follows the delayed ACK of the first immediately.
fn segments(is_own_known: bool) -> Vec<Segment> {
    let [client, server] = ends();
    let mut list = Vec::new();
    let mut add = |micros, by_client: bool, seq, ack, payload_len| {
        let from = if by_client {
            [client, server]
        } else {
            [server, client]
        };
        let (flow, direction) = FlowKey::new(Transport::Tcp, from[0], from[1]);
        list.push(Segment {
            at: at(micros),
            number: list.len() as u64 + 1,
            point: PointId(0),
            flow,
            direction,
            seq,
            ack,
            flags: ACK,
            window: 60_000,
            payload_len,
            options: TcpOptions::default(),
            ip: IpFacts {
                sent_by: crate::observed::segment::SentBy::of_own(is_own_known && !by_client),
                ..IpFacts::default()
            },
        });
    };
    for n in 0..EXCHANGES {
        let begin = n * APART;
        let (asked, told) = (1 + n as u32 * 40, 1 + n as u32 * 300);
        add(begin, true, asked, told, 40);
        add(begin + PROGRAM, false, told, asked + 40, 100);
        add(begin + PROGRAM + DELAYED, true, asked + 40, told + 100, 0);
        add(
            begin + PROGRAM + DELAYED + 3,
            false,
            told + 100,
            asked + 40,
            200,
        );
        add(
            begin + PROGRAM + DELAYED + 900,
            true,
            asked + 40,
            told + 300,
            0,
        );
    }
    list
}

/// The turns of these segments, each with `holds` holds.
fn turns(holds: u32) -> impl Iterator<Item = RequestSpan> {
    let [client, server] = ends();
    (0..EXCHANGES).map(move |n| {
        let begin = n * APART;
        let longest = Duration::from_micros(DELAYED as u64) * holds;
        RequestSpan {
            local: server,
            remote: client,
            program: None,
            arrived: at(begin),
            entered: None,
            delivered: at(begin),
            delivered_last: at(begin),
            read: Some(at(begin + 10)),
            written: Some(at(begin + PROGRAM)),
            written_last: Some(at(begin + PROGRAM + 1)),
            sent: at(begin + PROGRAM),
            sent_last: at(begin + PROGRAM + DELAYED + 3),
            departure: None,
            refused: None,
            writes: 2,
            held: KernelHold {
                times: holds,
                after_arrival: holds,
                total: longest,
                longest,
            },
            thread: None,
            asked: None,
        }
    })
}

fn findings(is_own_known: bool, turns: impl Iterator<Item = RequestSpan>) -> Vec<Finding> {
    let mut analyzer = Analyzer::new(Options::default());
    for segment in segments(is_own_known) {
        analyzer.segment(&segment, b"");
    }
    let mut observe = |body| analyzer.observe(Event::here(at(0), Phase::Baseline, body));
    let mut is_watched = false;
    for turn in turns {
        is_watched = true;
        observe(EventBody::Turn(Box::new(turn)));
    }
    if is_watched {
        observe(EventBody::Watched(WatchTally::default()));
    }
    analyzer.finish().findings
}

#[test]
fn the_sending_kernel_proves_what_it_held() {
    let found = findings(true, turns(1));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(
        (found[0].cause, found[0].verdict),
        (Id::NagleDelayedAck, Verdict::Proven)
    );
    assert_eq!(found[0].culprit, crate::exchange::wait::Owner::Server);
    let kinds: Vec<_> = found[0].evidence.iter().map(|piece| piece.kind).collect();
    assert!(kinds.contains(&EvidenceKind::KernelTrace), "{kinds:?}");
    // Watched packets are in no file, so no evidence contains packet numbers.
    let pointing = found[0]
        .evidence
        .iter()
        .filter(|piece| !piece.packets.is_empty());
    assert_eq!(pointing.count(), 0);
    assert_eq!(found[0].display_filter, None);
    assert!(!found[0].exemplars.is_empty());
    for example in &found[0].exemplars {
        assert_eq!((example.first_packet, example.last_packet), (None, None));
        let mut released = example.waits.iter().map(|wait| wait.released_by_packet);
        assert!(released.all(|packet| packet.is_none()), "{example:?}");
    }
}

#[test]
fn without_the_kernel_it_is_strong() {
    let found = findings(true, turns(1).take(0));
    assert_eq!(
        (found[0].cause, found[0].verdict),
        (Id::NagleDelayedAck, Verdict::Strong)
    );
}

#[test]
fn what_the_sending_kernel_did_not_hold_is_not_blamed_on_it() {
    let found = findings(true, turns(0));
    let causes: Vec<_> = found.iter().map(|finding| finding.cause).collect();
    assert!(!causes.contains(&Id::NagleDelayedAck), "{causes:?}");
}

/// Turns of other requests, whose responses left at once after `program` µs.
fn whole_responses(program: i64) -> impl Iterator<Item = RequestSpan> {
    // After the last packet of a request and before the next request.
    const LATER: i64 = DELAYED + 5_000;
    turns(0).zip(0..).take(8).map(move |(turn, n)| {
        let begin = n * APART + LATER;
        RequestSpan {
            arrived: at(begin),
            delivered: at(begin),
            delivered_last: at(begin),
            read: Some(at(begin + 10)),
            written: Some(at(begin + program)),
            written_last: Some(at(begin + program + 1)),
            sent: at(begin + program),
            sent_last: at(begin + program + 2),
            ..turn
        }
    })
}

/// The kernel saw only responses that did not wait, so it does not deny that others did. The time
/// before a response says nothing about that.
#[test]
fn a_kernel_that_saw_only_whole_responses_denies_nothing() {
    for program in [90, 30_000] {
        let found = findings(true, whole_responses(program));
        assert_eq!(found[0].cause, Id::NagleDelayedAck, "{found:#?}");
    }
}

/// No handshake shows the round trip to the server. The server's program takes longer than the time
/// from the ACK to the second part.
#[test]
fn a_part_that_leaves_with_its_acknowledgement_needs_no_handshake_to_be_seen_so() {
    let found = findings(false, turns(0).take(0));
    assert_eq!(found[0].cause, Id::NagleDelayedAck, "{found:#?}");
}

/// The time in µs that the server takes to answer each request, according to the packets.
const LATE: i64 = 30_000;

/// Returns the first finding on this server if its program read the request after `unread` µs.
fn late(unread: i64) -> Finding {
    late_by(|begin, turn| answered_late(begin, unread, turn))
}

fn answered_late(begin: i64, unread: i64, turn: RequestSpan) -> RequestSpan {
    RequestSpan {
        read: Some(at(begin + unread)),
        written: Some(at(begin + LATE)),
        written_last: Some(at(begin + LATE)),
        sent: at(begin + LATE),
        sent_last: at(begin + LATE),
        ..turn
    }
}

/// Returns the first finding if the server's kernel sent the response immediately. The response's
/// first segment waited `first` µs in queues before the device, and its last segment `last` µs.
fn late_to_leave(first: i64, last: i64) -> Finding {
    let micros = |time: i64| Duration::from_micros(time as u64);
    late_by(|begin, turn| RequestSpan {
        written_last: turn.written,
        sent_last: turn.sent,
        departure: Some(Departure {
            at: at(begin + LATE),
            first_queued: micros(first),
            queued: micros(last),
        }),
        ..turn
    })
}

/// Returns the first finding; `told` changes the turn of the kernel that begins at the given time.
fn late_by(told: impl Fn(i64, RequestSpan) -> RequestSpan) -> Finding {
    let mut analyzer = Analyzer::new(Options::default());
    let all = segments(true);
    let mut number = 0;
    for (n, exchange) in (0..).zip(all.chunks(5)) {
        let micros = |after: i64| at(n * APART + after);
        // The request, the whole response at once, and the ACK of it.
        for (from, when, len) in [(0, 0, 40), (1, LATE, 300), (4, LATE + 500, 0)] {
            number += 1;
            let segment = Segment {
                at: micros(when),
                number,
                payload_len: len,
                ..exchange[from]
            };
            analyzer.segment(&segment, b"");
        }
    }
    for (n, turn) in (0..).zip(turns(0)) {
        let body = EventBody::Turn(Box::new(told(n * APART, turn)));
        analyzer.observe(Event::here(at(0), Phase::Baseline, body));
    }
    analyzer.finish().findings.remove(0)
}

#[test]
fn what_lay_unread_is_told_from_what_the_program_took() {
    let names = |finding: &Finding| {
        let names = finding.candidates.iter().map(|candidate| candidate.cause);
        names.collect::<Vec<_>>()
    };
    let unread = late(29_000);
    assert_eq!(unread.cause, Id::SocketQueueDwell);
    assert_eq!(unread.verdict, Verdict::Proven, "{unread:#?}");
    let read_at_once = late(50);
    assert_eq!(read_at_once.cause, Id::ServerThink);
    assert!(!names(&read_at_once).contains(&Id::SocketQueueDwell));
}

#[test]
fn what_the_program_took_includes_the_time_for_which_its_thread_slept() {
    let unread = late_by(|begin, turn| RequestSpan {
        thread: Some(ThreadTimes {
            slept: Duration::from_millis(9),
            ..ThreadTimes::default()
        }),
        ..answered_late(begin, 20_000, turn)
    });
    let work = unread.ruled_out.iter();
    let mut work = work.filter(|other| other.cause == Id::ServerThink);
    let because = &work.next().expect("work is ruled out").because;
    assert!(because.contains("for 10.0 ms of the 30.0 ms"), "{because}");
}

#[test]
fn what_lay_in_a_devices_queue_is_told_from_pacing_and_from_the_answers_own_length() {
    let queued = late_to_leave(29_000, 29_000);
    assert_eq!(queued.cause, Id::QdiscDwell);
    assert_eq!(queued.verdict, Verdict::Proven, "{queued:#?}");
    assert_ne!(late_to_leave(0, 0).cause, Id::QdiscDwell, "paced");
    assert_ne!(
        late_to_leave(0, 29_000).cause,
        Id::QdiscDwell,
        "behind its own"
    );
}

#[test]
fn what_the_kernel_dropped_is_told_from_work() {
    // The request was dropped on arrival, and was complete `whole` µs later.
    let refused = |whole: i64| {
        late_by(|begin, turn| RequestSpan {
            refused: Some(at(begin)),
            delivered_last: at(begin + whole),
            ..answered_late(begin, 50, turn)
        })
    };
    assert_eq!(refused(29_000).cause, Id::SocketMemoryPressure);
    assert_eq!(refused(200).cause, Id::ServerThink);
}

#[test]
fn one_that_was_looked_at_stands_for_those_that_were_not() {
    let report = |sampled_share| {
        let mut analyzer = Analyzer::new(Options::default());
        for segment in segments(true) {
            analyzer.segment(&segment, b"");
        }
        let tally = WatchTally {
            sampled_share,
            ..WatchTally::default()
        };
        analyzer.observe(Event::here(
            at(0),
            Phase::Baseline,
            EventBody::Watched(tally),
        ));
        analyzer.finish()
    };
    let (all, tenth) = (report(1.0), report(0.1));
    assert!((tenth.exchanges.rate / all.exchanges.rate - 10.0).abs() < 1e-6);
    let affected = |report: &crate::report::Report| report.findings[0].affected.exchanges;
    assert_eq!(affected(&tenth), affected(&all) * 10);
}

/// Returns the number of exchanges, and whether requests were not read, if the kernel reports from
/// `micros` on that the connection uses HTTP/2.
fn with_passage(micros: i64) -> (u64, bool) {
    let [client, server] = ends();
    let passage = BytePassage {
        local: server,
        remote: client,
        gate: PassagePoint::Sent {
            held: Duration::ZERO,
            after_arrival: false,
        },
        at: at(micros),
        start: 0,
        end: 1,
    };
    let bodies = [
        EventBody::Watched(WatchTally::default()),
        EventBody::Passage(Box::new(passage)),
    ];
    let mut analyzer = Analyzer::new(Options::default());
    for body in bodies {
        analyzer.observe(Event::here(at(0), Phase::Baseline, body));
    }
    for segment in segments(true) {
        analyzer.segment(&segment, b"");
    }
    let report = analyzer.finish();
    let mut notes = report.notes.iter();
    let is_unread = notes.any(|note| note.id == "watch-streams-unread");
    (report.exchanges.count, is_unread)
}

#[test]
fn bytes_in_turn_are_no_requests_where_the_kernel_saw_http2() {
    assert_eq!(with_passage(0), (0, true));
    // The connection was upgraded after its first requests.
    assert_eq!(with_passage(APART * 3 - 1000), (3, true));
}
