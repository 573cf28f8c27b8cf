mod answered_early;
mod assumed;
mod blocking;
mod crowded;
mod echoed;
mod ended;
mod fins;
mod foreign;
mod guessed;
mod login;
mod marked;
mod proxied;
mod queued;
mod served;
mod silent;
mod so_far;
mod starved;
mod stopped;
mod summed;
mod unanswered;
mod watched;
mod watched_setups;
mod watched_stream;
mod whole;

use std::sync::{Arc, Mutex};

use super::*;
use crate::observed::event::PointId;
use crate::observed::flow::{FlowKey, Transport};
use crate::observed::segment::{IpFacts, TcpFlags, TcpOptions};

const ACK: TcpFlags = TcpFlags::ACK;
const FIN: TcpFlags = TcpFlags::ACK.with(TcpFlags::FIN);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: example\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A connection's packets: true if sent by the client, flags, sequence and acknowledgement number,
/// payload.
fn script() -> [(bool, TcpFlags, u32, u32, &'static [u8]); 9] {
    let (asked, told) = (1 + REQUEST.len() as u32, 1 + RESPONSE.len() as u32);
    [
        (true, TcpFlags::SYN, 0, 0, b""),
        (false, TcpFlags::SYN.with(ACK), 0, 1, b""),
        (true, ACK, 1, 1, b""),
        (true, ACK, 1, 1, REQUEST),
        (false, ACK, 1, asked, RESPONSE),
        (true, ACK, asked, told, b""),
        (true, FIN, asked, told, b""),
        (false, FIN, told, asked + 1, b""),
        (true, ACK, asked + 1, told + 1, b""),
    ]
}

/// The packets of this many connections, interleaved: one packet of each connection at a time.
fn traffic(connections: u16) -> Vec<(Segment, &'static [u8])> {
    let server = Endpoint::new([10, 0, 0, 2].into(), 80);
    let mut list = Vec::new();
    for (step, (by_client, flags, seq, ack, payload)) in (0..).zip(script()) {
        for port in 0..connections {
            let client = Endpoint::new([10, 0, 0, 1].into(), 40_000 + port);
            let ends = if by_client {
                [client, server]
            } else {
                [server, client]
            };
            let after = i64::from(port) * 50_000 + step * 20_000_000;
            let at = Timestamp::from_nanos(1_700_000_000_000_000_000 + after);
            let segment = Segment {
                number: list.len() as u64 + 1,
                seq,
                ack,
                flags,
                payload_len: payload.len() as u32,
                ..Segment::sent(ends[0], ends[1], at)
            };
            list.push((segment, payload));
        }
    }
    list
}

/// Returns the causes found with these segments, processed in the order of their times.
fn causes(mut analyzer: Analyzer, mut all: Vec<(Segment, &'static [u8])>) -> Vec<Id> {
    all.sort_by_key(|(segment, _)| segment.at);
    for (number, (mut segment, payload)) in (1..).zip(all) {
        segment.number = number;
        analyzer.segment(&segment, payload);
    }
    let findings = analyzer.finish().findings;
    findings.iter().map(|finding| finding.cause).collect()
}

/// Returns segments 20 ms apart. Each is given by its sender (true: the first end) and the length
/// of its payload, and acknowledges all data before it.
fn conversation(
    [client, server]: [Endpoint; 2],
    script: impl IntoIterator<Item = (bool, usize)>,
) -> impl Iterator<Item = Segment> {
    let mut next = [1_u32; 2];
    (1..).zip(script).map(move |(number, (by_client, length))| {
        let (from, to) = if by_client {
            (client, server)
        } else {
            (server, client)
        };
        let [own, other] = [usize::from(!by_client), usize::from(by_client)];
        let at = Timestamp::from_nanos(1_700_000_000_000_000_000 + number * 20_000_000);
        let segment = Segment {
            number: number as u64,
            seq: next[own],
            ack: next[other],
            payload_len: length as u32,
            ..Segment::sent(from, to, at)
        };
        next[own] += length as u32;
        segment
    })
}

/// The report, then the ports of the exchanges and the indices of the connections in the order of
/// delivery.
type Told = (Report, Vec<u16>);

fn analyzer(hash_seed: u64, told: &Arc<Mutex<Vec<u16>>>) -> Analyzer {
    let connections = Wanted {
        limit: 5,
        ..Wanted::default()
    };
    let options = Options {
        hash_seed,
        connections,
        ..Options::default()
    };
    let (exchanges, ended) = (Arc::clone(told), Arc::clone(told));
    Analyzer::new(options)
        .with_sink(Box::new(move |exchange| {
            exchanges
                .lock()
                .expect("whole")
                .push(exchange.id.client.port);
        }))
        .with_connection_sink(Box::new(move |record| {
            let stream = record.stream.unwrap_or_default();
            ended.lock().expect("whole").push(stream as u16);
        }))
}

fn one_by_one(traffic: &[(Segment, &[u8])]) -> Told {
    let told = Arc::default();
    let mut analyzer = analyzer(1, &told);
    for (segment, payload) in traffic {
        analyzer.segment(segment, payload);
    }
    let report = analyzer.finish();
    let told = std::mem::take(&mut *told.lock().expect("whole"));
    (report, told)
}

/// Returns the report and the delivered items if the workers process each batch one after another,
/// the last worker first.
fn by_batches(traffic: &[(Segment, &[u8])], size: usize) -> Told {
    let told = Arc::default();
    let mut analyzer = analyzer(2, &told);
    let (entrance, mut workers) = analyzer.split();
    for batch in traffic.chunks(size) {
        let mut dealt: Vec<Vec<_>> = workers.iter().map(|_| Vec::new()).collect();
        for (segment, payload) in batch {
            let admission = entrance.segment(segment, payload);
            dealt[admission.shard()].push((segment, payload, admission));
        }
        for (worker, dealt) in workers.iter_mut().zip(dealt).rev() {
            for (segment, payload, admission) in dealt {
                worker.segment(segment, payload, admission);
            }
        }
        for worker in &mut workers {
            entrance.gather(worker.take_closed());
        }
        entrance.deliver(entrance.packets());
    }
    let report = analyzer.finish();
    let told = std::mem::take(&mut *told.lock().expect("whole"));
    (report, told)
}

#[test]
fn shards_that_work_by_themselves_come_to_the_same() {
    let traffic = traffic(50);
    let (whole, order) = one_by_one(&traffic);
    assert_eq!(whole.exchanges.count, 50);
    assert_eq!(order.len(), 100);
    for size in [1, 7, 1000] {
        let (report, told) = by_batches(&traffic, size);
        assert_eq!(format!("{report:?}"), format!("{whole:?}"), "by {size}");
        assert_eq!(told, order, "by {size}");
    }
}

#[test]
fn asking_meanwhile_tells_what_closed_and_changes_nothing() {
    let traffic = traffic(50);
    let (whole, order) = one_by_one(&traffic);
    let told = Arc::default();
    let mut analyzer = analyzer(1, &told);
    let mut counts = Vec::new();
    for (segment, payload) in &traffic {
        analyzer.segment(segment, payload);
        if segment.number % 50 == 0 {
            counts.push(analyzer.so_far().conclude().0.exchanges.count);
        }
    }
    // The sixth of nine packets acknowledges the response.
    assert_eq!(counts, [0, 0, 0, 0, 0, 50, 50, 50, 50]);
    let report = analyzer.finish();
    assert_eq!(format!("{report:?}"), format!("{whole:?}"));
    assert_eq!(*told.lock().expect("whole"), order);
}

#[test]
fn flows_are_dealt_evenly() {
    let traffic = traffic(4000);
    let mut counts = [0; SHARDS];
    for (segment, _) in traffic.iter().take(4000) {
        counts[segment.flow.share(SHARDS)] += 1;
    }
    assert!(
        counts.iter().all(|count| (900..1100).contains(count)),
        "{counts:?}"
    );
}
