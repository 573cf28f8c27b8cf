//! A request of which the answer echoes the copy that arrived.

use core::time::Duration;

use super::*;
use crate::observed::segment::{IpFacts, TcpOptions};
use crate::registry::Id;

const ASKED: &[u8] = b"GET / HTTP/1.1\r\nHost: one.test\r\n\r\n";
const ANSWERED: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// The segments as captured at the client: two copies of the request are lost, each `apart` ms after
/// the one before, and the server repeats its SYN/ACK meanwhile. A clock of the server that ticks
/// slowly lets the answer seem to have queued for half a round trip. With `echoes_first`, the answer
/// is to the first copy, and late.
fn segments(rtt: i64, apart: i64, echoes_first: bool) -> Vec<(Segment, &'static [u8])> {
    let [client, server] = [([10, 0, 0, 1], 40_000), ([10, 0, 0, 2], 80)]
        .map(|(address, port)| Endpoint::new(address.into(), port));
    let (syn, ack) = (TcpFlags::SYN, TcpFlags::ACK);
    let push = ack.with(TcpFlags::PSH);
    let (one, two) = (rtt + apart, rtt + apart * 3);
    let echoed = if echoes_first { rtt } else { two };
    let (asked, answered) = (101 + ASKED.len() as u32, 901 + ANSWERED.len() as u32);
    type Sent = (i64, bool, TcpFlags, [u32; 2], [i64; 2], &'static [u8]);
    let list: [Sent; 9] = [
        (0, true, syn, [100, 0], [0, 0], b""),
        (rtt, false, syn.with(ack), [900, 101], [0, 0], b""),
        (rtt, true, push, [101, 901], [rtt, 0], ASKED),
        (one, true, push, [101, 901], [one, 0], ASKED),
        (
            one + rtt / 2,
            false,
            syn.with(ack),
            [900, 101],
            [one, 0],
            b"",
        ),
        (two, true, push, [101, 901], [two, 0], ASKED),
        (
            two + rtt / 2,
            false,
            syn.with(ack),
            [900, 101],
            [two, 0],
            b"",
        ),
        (
            two + rtt,
            false,
            push,
            [901, asked],
            [two, echoed],
            ANSWERED,
        ),
        (
            two + rtt,
            true,
            ack,
            [asked, answered],
            [two + rtt, two],
            b"",
        ),
    ];
    let segment =
        |(number, (ms, by_client, flags, [seq, ack], [tsval, tsecr], payload)): (u64, Sent)| {
            let (from, to) = if by_client {
                (client, server)
            } else {
                (server, client)
            };
            // What follows at once leaves some microseconds later.
            let at = Timestamp::from_nanos(1_700_000_000_000_000_000 + ms * 1_000_000)
                + Duration::from_micros(number * 3);
            let segment = Segment {
                number,
                flags,
                seq,
                ack,
                window: 60_000,
                payload_len: payload.len() as u32,
                options: TcpOptions {
                    timestamps: Some((1_000 + tsval as u32, 1_000 + tsecr as u32)),
                    ..TcpOptions::default()
                },
                ip: IpFacts {
                    ttl: 64,
                    ..IpFacts::default()
                },
                ..Segment::sent(from, to, at)
            };
            (segment, payload)
        };
    (1..).zip(list).map(segment).collect()
}

fn found(rtt: i64, apart: i64, echoes_first: bool) -> Vec<Id> {
    let mut analyzer = Analyzer::new(Options::default());
    for (segment, payload) in segments(rtt, apart, echoes_first) {
        analyzer.segment(&segment, payload);
    }
    analyzer.finish().findings.iter().map(|f| f.cause).collect()
}

#[test]
fn an_answer_to_the_last_copy_of_a_request_was_not_thought_about() {
    for (rtt, apart) in [(50, 600), (80, 300), (120, 1_000)] {
        let ids = found(rtt, apart, false);
        assert!(ids.contains(&Id::LostRetransmission), "{rtt} ms: {ids:?}");
        assert!(!ids.contains(&Id::ServerThink), "{rtt} ms: {ids:?}");
        let ids = found(rtt, apart, true);
        assert!(!ids.contains(&Id::LostRetransmission), "{rtt} ms: {ids:?}");
    }
}
