use proptest::prelude::*;

use super::*;

/// A connection: its server, how many requests it makes, and for how long the server works on each
/// of them.
#[derive(Clone, Debug)]
struct Drawn {
    server: u8,
    requests: u8,
    work_us: u32,
}

fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    let one = (0..4_u8, 1..4_u8, 0..300_000_u32);
    let one = one.prop_map(|(server, requests, work_us)| Drawn {
        server,
        requests,
        work_us,
    });
    prop::collection::vec(one, 1..40)
}

/// Returns the packets of connections of which each begins 7 ms after the one before it, in the
/// order of their times. `first` is the port of the first client.
fn packets(connections: &[Drawn], begin: i64, first: u16) -> Vec<(Segment, &'static [u8])> {
    let mut list = Vec::new();
    for (number, drawn) in (0..).zip(connections) {
        let client = Endpoint::new([10, 0, 0, 1].into(), first + number);
        let server = Endpoint::new([10, 0, 1, drawn.server].into(), 80);
        let mut at = begin + i64::from(number) * 7_000_000;
        let mut next = [0_u32; 2];
        let mut send = |by_client: bool, flags, payload: &'static [u8], after_us: u32| {
            let own = usize::from(!by_client);
            let ends = if by_client {
                [client, server]
            } else {
                [server, client]
            };
            at += i64::from(after_us) * 1_000;
            let segment = Segment {
                seq: next[own],
                ack: next[1 - own],
                flags,
                payload_len: payload.len() as u32,
                ..Segment::sent(ends[0], ends[1], Timestamp::from_nanos(at))
            };
            next[own] += segment.sequence_len();
            list.push((segment, payload));
        };
        send(true, TcpFlags::SYN, b"", 0);
        send(false, TcpFlags::SYN.with(ACK), b"", 10_000);
        send(true, ACK, b"", 100);
        for _ in 0..drawn.requests {
            send(true, ACK, REQUEST, 500);
            send(false, ACK, RESPONSE, 10_000 + drawn.work_us);
            send(true, ACK, b"", 100);
        }
        send(true, FIN, b"", 50);
        send(false, FIN, b"", 10_000);
        send(true, ACK, b"", 100);
    }
    list.sort_by_key(|(segment, _)| segment.at);
    list
}

fn fed(analyzer: &mut Analyzer, packets: &[(Segment, &[u8])]) {
    for (segment, payload) in packets {
        analyzer.segment(segment, payload);
    }
}

fn pictured(max_connections: Option<usize>) -> Analyzer {
    let options = Options {
        hash_seed: max_connections.unwrap_or_default() as u64,
        max_connections,
        ..Options::default()
    };
    Analyzer::new(options).with_picture()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_picture_meanwhile_is_that_of_what_came_before(one in drawn(), other in drawn()) {
        let start = 1_700_000_000_000_000_000;
        let before = packets(&one, start, 40_000);
        // All connections have ended then: what is open has no picture yet.
        let after = packets(&other, start + 3_000_000_000, 50_000);
        let mut analyzer = pictured(None);
        prop_assert_eq!(analyzer.shards.len(), SHARDS);
        fed(&mut analyzer, &before);
        let (_, meanwhile) = analyzer.so_far_with_picture().conclude();
        // With room for so few connections there is only one shard.
        let mut alone = pictured(Some(1_000));
        prop_assert_eq!(alone.shards.len(), 1);
        fed(&mut alone, &before);
        let (report, picture) = alone.finish_with_picture();
        let count: u64 = one.iter().map(|drawn| u64::from(drawn.requests)).sum();
        prop_assert_eq!(report.exchanges.count, count);
        prop_assert!(meanwhile.is_some());
        prop_assert_eq!(meanwhile, picture);
        // Asking changes nothing.
        fed(&mut analyzer, &after);
        let mut unasked = pictured(Some(1_000));
        fed(&mut unasked, &[before, after].concat());
        prop_assert_eq!(analyzer.finish_with_picture().1, unasked.finish_with_picture().1);
    }
}

#[test]
fn there_is_no_picture_meanwhile_unless_one_was_requested() {
    let mut analyzer = Analyzer::new(Options::default());
    fed(&mut analyzer, &traffic(3));
    assert!(analyzer.so_far_with_picture().conclude().1.is_none());
    let mut analyzer = pictured(None);
    fed(&mut analyzer, &traffic(3));
    assert!(analyzer.so_far().conclude().1.is_none());
}
