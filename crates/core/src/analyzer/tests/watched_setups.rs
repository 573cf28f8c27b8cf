//! Tests of connection setups that the server's kernel reports.

use core::time::Duration;

use super::*;
use crate::exchange::wait::Owner;
use crate::observed::event::{CounterChange, CounterScope};
use crate::observed::kernel_span::WatchTally;
use crate::registry::Id;
use crate::report::{LayerState, Report};

/// Number of connections, 50 ms apart.
const CONNECTIONS: u16 = 20;
/// The time from a SYN to its repetition.
const REPEATED: Duration = Duration::from_secs(1);

/// Returns the segments of one connection with one request, as the server's host reports them. If
/// `is_ignored`, it does not answer the first SYN. Times do not show where they were taken: the
/// client is near.
fn connection(number: u16, is_ignored: bool) -> Vec<Segment> {
    let client = Endpoint::new([10, 0, 0, 1].into(), 40_000 + number);
    let server = Endpoint::new([10, 0, 0, 2].into(), 80);
    let begin = Timestamp::from_nanos(1_700_000_000_000_000_000);
    let mut at = begin + Duration::from_millis(50) * u32::from(number);
    let mut list = Vec::new();
    let mut add = |by_client: bool, flags, [seq, ack]: [u32; 2], payload_len| {
        let (from, to) = if by_client {
            (client, server)
        } else {
            (server, client)
        };
        list.push(Segment {
            seq,
            ack,
            flags,
            payload_len,
            ip: IpFacts {
                sent_by: crate::observed::segment::SentBy::of_own(!by_client),
                ..IpFacts::default()
            },
            ..Segment::sent(from, to, at)
        });
        at = at + Duration::from_micros(50);
        if flags == TcpFlags::SYN && is_ignored && list.len() == 1 {
            at = at + REPEATED;
        }
    };
    let repeats = usize::from(is_ignored);
    for _ in 0..=repeats {
        add(true, TcpFlags::SYN, [0, 0], 0);
    }
    add(
        false,
        TcpFlags(TcpFlags::SYN.0 | TcpFlags::ACK.0),
        [0, 1],
        0,
    );
    add(true, ACK, [1, 1], 0);
    add(true, ACK, [1, 1], 40);
    add(false, ACK, [1, 41], 100);
    add(true, ACK, [41, 101], 0);
    list
}

/// Returns the analyzer of a watch in which one in `repeated` connections had to repeat its SYN;
/// `None`: none had to.
fn analyzer(repeated: Option<u16>, tally: WatchTally) -> Analyzer {
    let is_ignored = |number| repeated.is_some_and(|one_in| number % one_in == 0);
    let connections = (0..CONNECTIONS).map(|number| connection(number, is_ignored(number)));
    let mut all: Vec<Segment> = connections.flatten().collect();
    all.sort_by_key(|segment| segment.at);
    let mut analyzer = Analyzer::new(Options::default());
    for (number, segment) in (1..).zip(all) {
        analyzer.segment(&Segment { number, ..segment }, b"");
    }
    let watched = EventBody::Watched(tally);
    analyzer.observe(Event::here(Timestamp::default(), Phase::Baseline, watched));
    analyzer
}

fn report(repeated: Option<u16>, tally: WatchTally) -> Report {
    analyzer(repeated, tally).finish()
}

fn seen() -> WatchTally {
    WatchTally {
        sees_handshakes: true,
        ..WatchTally::default()
    }
}

fn connection_layer(report: &Report) -> LayerState {
    let layers = report.layers.iter();
    let mut found = layers.filter(|layer| layer.layer == "connection");
    found.next().expect("a layer").state
}

#[test]
fn the_host_that_did_not_answer_a_syn_is_told_and_what_it_dropped() {
    let tally = WatchTally {
        drops: vec![("NETFILTER_DROP".to_owned(), 5)],
        ..seen()
    };
    let report = report(Some(4), tally);
    let found = &report.findings[0];
    assert_eq!(found.cause, Id::SynLoss, "{report:#?}");
    assert_eq!(found.culprit, Owner::Server);
    let mut evidence = found.evidence.iter();
    assert!(
        evidence.any(|one| one.text.contains("5 packets of the watched ports")),
        "{found:#?}"
    );
}

#[test]
fn setups_of_which_only_the_end_was_seen_clear_no_layer() {
    let state = |tally| connection_layer(&report(None, tally));
    assert_eq!(state(seen()), LayerState::Cleared);
    assert_eq!(state(WatchTally::default()), LayerState::NotMeasured);
}

#[test]
fn accept_queues_that_were_full_are_told_without_the_setups() {
    let noted = |tally| {
        let overflows = CounterChange {
            name: "TcpExt:ListenOverflows".to_owned(),
            before: 1,
            after: 8,
            scope: CounterScope::Target,
        };
        let mut analyzer = analyzer(None, tally);
        let counted = EventBody::Counter(overflows);
        analyzer.observe(Event::here(Timestamp::default(), Phase::Baseline, counted));
        let notes = analyzer.finish().notes.into_iter();
        let mut texts = notes.map(|note| note.text);
        texts.any(|text| text.contains("found an accept queue full 7 times"))
    };
    assert!(noted(WatchTally::default()));
    assert!(!noted(seen()), "the SYNs show it");
}
