use proptest::prelude::*;

use super::*;
use crate::flow::{Endpoint, Transport};
use crate::segment::{IpFacts, TcpOptions};

/// A segment of one of a few clients: which, whether the server's, its flags,
/// and so many milliseconds after the one before it.
type Step = (u16, bool, TcpFlags, i64);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let flags = prop_oneof![
        2 => Just(TcpFlags::SYN),
        4 => Just(TcpFlags::ACK),
        4 => Just(TcpFlags::ACK.with(TcpFlags::FIN)),
        1 => Just(TcpFlags::RST),
    ];
    let pause = prop_oneof![
        6 => -500..1_000_i64,
        3 => Just(2_000),
        2 => 2_001..70_000_i64,
        1 => 300_000..700_000_i64,
    ];
    proptest::collection::vec((0..6_u16, any::<bool>(), flags, pause), 1..120)
}

fn segments(steps: &[Step]) -> Vec<Segment> {
    let server = Endpoint::new([10, 0, 0, 2].into(), 80);
    let mut at = 1_700_000_000_000_000_000;
    let segment = |(number, &(client, by_server, flags, pause)): (u64, &Step)| {
        at += pause * 1_000_000;
        let client = Endpoint::new([10, 0, 0, 1].into(), 40_000 + client);
        let (source, destination) = match by_server {
            true => (server, client),
            false => (client, server),
        };
        let (flow, direction) = FlowKey::new(Transport::Tcp, source, destination);
        Segment {
            at: Timestamp::from_nanos(at),
            number,
            point: PointId(0),
            flow,
            direction,
            // Now and then another connection of the same ports.
            seq: number as u32 / 40,
            ack: 1,
            flags,
            window: 60_000,
            payload_len: 0,
            options: TcpOptions::default(),
            ip: IpFacts::default(),
        }
    };
    (1..).zip(steps).map(segment).collect()
}

/// What the table holds and what closed, after each segment. A table that is
/// `restless` looks for what is due every time.
fn followed(segments: &[Segment], max: usize, is_restless: bool) -> Vec<String> {
    let mut table = Table::new(hasher(1), max);
    let mut closed = Closed::default();
    let mut after = |segment: &Segment| {
        if is_restless {
            table.quiet_until = Timestamp::MIN;
        }
        let arrived = Arrived {
            client: None,
            id: segment.number,
            stream: None,
            approach: None,
            shares_counter: false,
        };
        table.take(segment, &[], arrived, &mut closed);
        let mut open: Vec<u64> = table.open.iter().map(|open| open.id).collect();
        open.sort_unstable();
        let waiting = (table.ended.len(), table.dug.len(), table.next_sweep);
        let counts = (closed.connections.len(), table.graves.len());
        format!("{open:?} {waiting:?} {counts:?} {:?}", table.tallied)
    };
    segments.iter().map(&mut after).collect()
}

proptest! {
    #[test]
    fn to_ask_only_when_something_may_be_due_changes_nothing(steps in steps(), max in 1..6_usize) {
        let segments = segments(&steps);
        let restless = followed(&segments, max, true);
        prop_assert_eq!(followed(&segments, max, false), restless);
    }
}
