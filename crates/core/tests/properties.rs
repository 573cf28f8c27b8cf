//! Properties that are true for any input: nothing panics, waits tile each exchange exactly, and
//! the report depends on nothing but the input.
#![allow(clippy::disallowed_methods, reason = "tests read recordings")]

#[path = "corpus/books.rs"]
mod books;
#[path = "corpus/reading.rs"]
mod reading;

use core::net::IpAddr;

use books::account_fault;
use lagtrace_core::observed::event::PointId;
use lagtrace_core::observed::flow::{Direction, Endpoint, FlowKey, Transport};
use lagtrace_core::observed::segment::{IpFacts, Segment, SentBy, TcpFlags, TcpOptions};
use lagtrace_core::observed::time::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use reading::{Captured, analyse_seeded, recording, segments, tiling_fault};

/// Bytes of HTTP and TLS, complete and in parts.
const FRAGMENTS: &[&[u8]] = &[
    b"",
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\nHEAD /c HTTP/1.0\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"ffffffffffffffff\r\n",
    b"5\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\n\r\nHTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.",
    b"1 200 OK\r\nConnection: close\r\n\r\n",
    b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
];

fn flow(number: u8) -> FlowKey {
    let end = |last, port| Endpoint::new(IpAddr::from([10, 0, 0, last]), port);
    FlowKey::new(Transport::Tcp, end(1, 1000 + u16::from(number)), end(2, 80)).0
}

/// Returns a strategy for sequence numbers: most are near each other or near the wrap, and some are
/// arbitrary.
fn sequence() -> impl Strategy<Value = u32> {
    prop_oneof![
        8 => (select(vec![0_u32, u32::MAX - 500, 0x7fff_ff00]), 0_u32..3000)
            .prop_map(|(base, offset)| base.wrapping_add(offset)),
        1 => any::<u32>(),
    ]
}

fn flags() -> impl Strategy<Value = TcpFlags> {
    let usual = vec![0x10, 0x18, 0x18, 0x10, 0x02, 0x12, 0x11, 0x14, 0x04, 0x19];
    prop_oneof![9 => select(usual), 1 => any::<u8>()].prop_map(TcpFlags)
}

fn options() -> impl Strategy<Value = TcpOptions> {
    (
        proptest::option::of(select(vec![0_u16, 1, 12, 13, 536, 1460, u16::MAX])),
        proptest::option::of(any::<u8>()),
        proptest::option::of(any::<(u32, u32)>()),
        any::<[(u32, u32); 4]>(),
        any::<u8>(),
    )
        .prop_map(
            |(mss, window_scale, timestamps, sack, sack_count)| TcpOptions {
                mss,
                window_scale,
                sack_permitted: true,
                timestamps,
                sack,
                sack_count,
                layout: 0x4_2953,
            },
        )
}

/// Returns a strategy for the step to the next segment's time: mostly forward, sometimes arbitrary.
/// `Err` is an absolute time.
fn instant() -> impl Strategy<Value = Result<i64, i64>> {
    prop_oneof![
        12 => (0_i64..60_000_000).prop_map(Ok),
        3 => (0_i64..2_000).prop_map(Ok),
        2 => (-300_000_000_i64..700_000_000_000).prop_map(Ok),
        1 => select(vec![i64::MIN, i64::MAX, 0, -1, i64::MAX - 1_000_000]).prop_map(Err),
    ]
}

fn captured() -> impl Strategy<Value = (Result<i64, i64>, Captured)> {
    let wire_len = prop_oneof![
        4 => Just(None),
        3 => (0_u32..3000).prop_map(Some),
        1 => select(vec![1, 65_535, u32::MAX, u32::MAX - 1]).prop_map(Some),
    ];
    let place = (0_u8..3, any::<bool>(), 0_u16..2);
    let header = (sequence(), sequence(), flags(), any::<u16>(), options());
    (
        instant(),
        place,
        header,
        wire_len,
        select(FRAGMENTS),
        proptest::option::of(any::<u16>()),
    )
        .prop_map(
            |(at, (number, is_forward, point), header, wire_len, payload, id)| {
                let (seq, ack, flags, window, options) = header;
                let payload_len = wire_len.unwrap_or(payload.len() as u32);
                let captured = payload.len().min(payload_len as usize);
                let segment = Segment {
                    at: Timestamp::from_nanos(0),
                    number: 0,
                    point: PointId(point),
                    flow: flow(number),
                    direction: if is_forward {
                        Direction::Forward
                    } else {
                        Direction::Backward
                    },
                    seq,
                    ack,
                    flags,
                    window,
                    payload_len,
                    options,
                    ip: IpFacts {
                        ttl: 64,
                        id,
                        congestion_marked: false,
                        dont_fragment: true,
                        sent_by: SentBy::Unknown,
                    },
                };
                (at, (segment, payload[..captured].to_vec()))
            },
        )
}

/// Gives the segments their numbers and times.
fn in_time(list: Vec<(Result<i64, i64>, Captured)>) -> Vec<Captured> {
    let mut now = 1_700_000_000_000_000_000_i64;
    let numbered = list.into_iter().zip(1..);
    numbered
        .map(|((at, (mut segment, payload)), number)| {
            let here = match at {
                Ok(step) => {
                    now += step;
                    now
                }
                Err(anywhere) => anywhere,
            };
            segment.at = Timestamp::from_nanos(here);
            segment.number = number;
            (segment, payload)
        })
        .collect()
}

/// A change to a recorded segment.
#[derive(Clone, Debug)]
enum Mishap {
    Lose,
    Repeat,
    Swap,
    Late(i64),
    At(i64),
    Cut(usize),
    Seq(u32),
    Ack(u32),
    Flags(TcpFlags),
    Length(u32),
}

fn mishap() -> impl Strategy<Value = (usize, Mishap)> {
    let kind = prop_oneof![
        3 => Just(Mishap::Lose),
        2 => Just(Mishap::Repeat),
        2 => Just(Mishap::Swap),
        2 => (-50_000_000_i64..400_000_000).prop_map(Mishap::Late),
        1 => select(vec![i64::MIN, i64::MIN / 2, 0, i64::MAX / 2, i64::MAX]).prop_map(Mishap::At),
        1 => (0_usize..100).prop_map(Mishap::Cut),
        1 => (0_u32..3000).prop_map(Mishap::Seq),
        1 => any::<u32>().prop_map(Mishap::Ack),
        1 => flags().prop_map(Mishap::Flags),
        1 => any::<u32>().prop_map(Mishap::Length),
    ];
    (any::<usize>(), kind)
}

fn befall(segments: &mut Vec<Captured>, place: usize, mishap: &Mishap) {
    if segments.len() < 2 {
        return;
    }
    let place = place % (segments.len() - 1);
    let (segment, payload) = &mut segments[place];
    match mishap {
        Mishap::Lose => drop(segments.remove(place)),
        Mishap::Repeat => {
            let copy = segments[place].clone();
            segments.insert(place + 1, copy);
        }
        Mishap::Swap => segments.swap(place, place + 1),
        Mishap::Late(by) => {
            segment.at = Timestamp::from_nanos(segment.at.as_nanos().saturating_add(*by))
        }
        Mishap::At(instant) => segment.at = Timestamp::from_nanos(*instant),
        Mishap::Cut(to) => payload.truncate(*to),
        Mishap::Seq(by) => segment.seq = segment.seq.wrapping_sub(*by),
        Mishap::Ack(ack) => segment.ack = *ack,
        Mishap::Flags(flags) => segment.flags = *flags,
        Mishap::Length(len) => {
            segment.payload_len = *len;
            payload.truncate(*len as usize);
        }
    }
}

/// Checks all properties.
fn check(segments: &[Captured]) -> Result<(), TestCaseError> {
    let first = analyse_seeded(segments, 1);
    for exchange in &first.exchanges {
        if let Some(fault) = tiling_fault(exchange) {
            return Err(TestCaseError::fail(format!("{fault}: {exchange:#?}")));
        }
        for hold in &exchange.sending.holds {
            prop_assert!(hold.held <= exchange.latency(), "{hold:?}");
        }
    }
    if let Some(fault) = account_fault(&first.report) {
        return Err(TestCaseError::fail(fault));
    }
    let second = analyse_seeded(segments, 2);
    let bytes = |report| serde_json::to_string(report).expect("a report is JSON");
    let (first, second) = (bytes(&first.report), bytes(&second.report));
    prop_assert!(first == second, "{}", first_difference(&first, &second));
    Ok(())
}

/// Returns both texts around the first byte at which they differ.
fn first_difference(one: &str, other: &str) -> String {
    let pairs = one.bytes().zip(other.bytes());
    let at = pairs.take_while(|(a, b)| a == b).count();
    let around = |text: &str| {
        let bytes = text.as_bytes();
        let part = &bytes[at.saturating_sub(300)..(at + 100).min(bytes.len())];
        String::from_utf8_lossy(part).into_owned()
    };
    format!("byte {at}:\n{}\n{}", around(one), around(other))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_segments_are_tiled(list in vec(captured(), 0..120)) {
        check(&in_time(list))?;
    }

    #[test]
    fn damaged_recordings_are_tiled(
        name in select(vec![
            "latency-8ms-client", "good-8ms-server", "pause-44-8ms-client", "fin-closed-8ms-client",
            "lossy-good-8ms-server", "lossy-latency-8ms-client",
        ]),
        mishaps in vec(mishap(), 1..20),
    ) {
        let mut segments = segments(&recording(name));
        for (place, mishap) in &mishaps {
            befall(&mut segments, *place, mishap);
        }
        check(&segments)?;
    }
}
