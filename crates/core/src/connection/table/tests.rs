use crate::observed::flow::hasher;
use proptest::prelude::*;

use super::*;
use crate::connection::SetupOutcome;
use crate::exchange::Exchange;
use crate::observed::flow::{Endpoint, Transport};
use crate::observed::segment::{IpFacts, TcpFlags, TcpOptions};

/// A segment of one of a few clients: the client's number, true if sent by the server, the flags,
/// and the milliseconds since the previous segment.
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

/// Returns a segment's arrival, of which nothing but its number is known.
fn arrived(id: u64) -> Arrived {
    Arrived {
        client: None,
        likely_client: None,
        id,
        stream: None,
        approach: None,
        shares_counter: false,
        tick_ns: None,
    }
}

fn segments(steps: &[Step]) -> Vec<Segment> {
    let server = Endpoint::new([10, 0, 0, 2].into(), 80);
    let mut at = 1_700_000_000_000_000_000;
    let segment = |(number, &(client, by_server, flags, pause)): (u64, &Step)| {
        at += pause * 1_000_000;
        let client = Endpoint::new([10, 0, 0, 1].into(), 40_000 + client);
        let (source, destination) = if by_server {
            (server, client)
        } else {
            (client, server)
        };
        let (flow, direction) = FlowKey::new(Transport::Tcp, source, destination);
        Segment {
            at: Timestamp::from_nanos(at),
            number,
            point: PointId(0),
            flow,
            direction,
            // Occasionally another connection with the same ports.
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

/// Returns the content of the table and the number of connections that closed, after each segment.
/// A `restless` table checks every time for what is due.
fn followed(segments: &[Segment], max: usize, is_restless: bool) -> Vec<String> {
    let mut table = Table::new(hasher(1), max);
    let mut closed = Closed::default();
    let mut after = |segment: &Segment| {
        if is_restless {
            table.quiet_until = Timestamp::MIN;
        }
        let arrival = arrived(segment.number);
        table.observe_segment(segment, &[], arrival, &mut closed);
        let mut open: Vec<u64> = table.open.iter().map(|open| open.id).collect();
        open.sort_unstable();
        let waiting = (table.ended.len(), table.buried.len(), table.next_sweep);
        let counts = (closed.connections.len(), table.tombstones.len());
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

const ASKED: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const ANSWERED: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
/// The sequence numbers after a request and after a response.
const REQUEST: u32 = 101 + ASKED.len() as u32;
const RESPONSE: u32 = 201 + ANSWERED.len() as u32;

/// A segment: its microsecond, true if sent by the server, its flags, numbers and payload.
type Passed = (i64, bool, TcpFlags, [u32; 2], &'static [u8]);

/// Returns everything that closed on a connection with these segments, in order.
fn closed_of(passed: &[Passed]) -> Closed {
    let (client, server) = (Endpoint::new([10, 0, 0, 1].into(), 40_000), [10, 0, 0, 2]);
    let server = Endpoint::new(server.into(), 80);
    let mut table = Table::new(hasher(1), 4);
    let mut closed = Closed::default();
    for (number, &(micros, by_server, flags, [seq, ack], payload)) in (1..).zip(passed) {
        let (source, destination) = if by_server {
            (server, client)
        } else {
            (client, server)
        };
        let segment = Segment {
            number,
            seq,
            ack,
            flags,
            payload_len: payload.len() as u32,
            ..Segment::sent(source, destination, Timestamp::from_nanos(micros * 1_000))
        };
        let arrival = arrived(number);
        table.observe_segment(&segment, payload, arrival, &mut closed);
    }
    for open in table.drain() {
        table.close(open, &mut closed);
    }
    closed
}

const PUSH: TcpFlags = TcpFlags::ACK.with(TcpFlags::PSH);
const ACCEPT: TcpFlags = TcpFlags::SYN.with(TcpFlags::ACK);

/// A connection with one request that is answered after 30 ms; each of the server's segments has a
/// timestamp this many microseconds before that of the segment it answers.
fn exchange(before: i64) -> Vec<Passed> {
    let mut all: Vec<Passed> = vec![
        (0, false, TcpFlags::SYN, [100, 0], b""),
        (-before, true, ACCEPT, [200, 101], b""),
        (100, false, TcpFlags::ACK, [101, 201], b""),
        (200, false, PUSH, [101, 201], ASKED),
        (200 - before, true, TcpFlags::ACK, [201, REQUEST], b""),
        (30_000, true, PUSH, [201, REQUEST], ANSWERED),
        (30_100, false, TcpFlags::ACK, [REQUEST, RESPONSE], b""),
    ];
    all.sort_by_key(|&(at, ..)| at);
    all
}

#[test]
fn what_is_stamped_before_what_it_answers_comes_after_it() {
    for before in [-15, 15, 900] {
        let closed = closed_of(&exchange(before));
        let latency: Vec<_> = closed.exchanges.iter().map(Exchange::latency).collect();
        assert_eq!(latency, [Duration::from_micros(29_800)], "{before}");
        let exchange = closed.exchanges.first().expect("one");
        assert!(
            !exchange.waits.is_empty(),
            "{before}: the capture missed none of it"
        );
        let setup = closed.setups.first().and_then(|setup| setup.outcome);
        assert_eq!(setup, Some(SetupOutcome::Established), "{before}");
    }
}

#[test]
fn what_the_capture_missed_is_waited_for_a_moment_only() {
    // The request is missing from the capture: its ACK and later packets are not reordered.
    let mut passed = exchange(-15);
    passed.retain(|&(.., payload)| payload != ASKED);
    let closed = closed_of(&passed);
    assert!(
        closed
            .exchanges
            .iter()
            .all(|exchange| exchange.waits.is_empty()),
        "{:?}",
        closed.exchanges
    );
    // The captured part has the timestamp at which it was taken in.
    let setup = closed.setups.first().expect("one");
    assert_eq!(setup.end, Some(Timestamp::from_nanos(100_000)));
}

#[test]
fn another_answer_to_a_repeated_syn_begins_nothing() {
    for at in [150, 250, 20_000, 40_000] {
        let mut passed = exchange(-15);
        passed.push((at, true, ACCEPT, [900, 101], b""));
        passed.push((at + 10, false, TcpFlags::ACK, [101, 201], b""));
        passed.sort_by_key(|&(at, ..)| at);
        let closed = closed_of(&passed);
        let latency: Vec<_> = closed.exchanges.iter().map(Exchange::latency).collect();
        assert_eq!(latency, [Duration::from_micros(29_800)], "{at}");
        assert_eq!(closed.setups.len(), 1, "{at}");
    }
}

#[test]
fn an_answer_to_another_syn_begins_another_connection() {
    let mut passed = exchange(-15);
    let asked = 501 + ASKED.len() as u32;
    let later: [Passed; 4] = [
        (50_000, true, ACCEPT, [900, 501], b""),
        (50_100, false, TcpFlags::ACK, [501, 901], b""),
        (50_200, false, PUSH, [501, 901], ASKED),
        (60_200, true, PUSH, [901, asked], ANSWERED),
    ];
    passed.extend(later);
    let closed = closed_of(&passed);
    let ordinals: Vec<_> = closed.exchanges.iter().map(|e| e.id.ordinal).collect();
    assert_eq!(ordinals, [0, 0], "{:?}", closed.exchanges);
}

/// Connections that each keep the beginning of a long head: together they have no room.
#[test]
fn connections_that_hold_too_much_are_dropped() {
    const LEN: usize = 60_000;
    let head = [b"GET /".as_slice(), &[b'a'; LEN]].concat();
    let server = Endpoint::new([10, 0, 0, 2].into(), 80);
    let mut table = Table::new(hasher(1), 1024);
    let mut closed = Closed::default();
    for number in 0..500_u16 {
        let client = Endpoint::new([10, 0, 0, 1].into(), 40_000 + number);
        let at = Timestamp::from_nanos(i64::from(number) * 1_000);
        let segment = Segment {
            number: u64::from(number) + 1,
            flags: PUSH,
            payload_len: head.len() as u32,
            ..Segment::sent(client, server, at)
        };
        let arrival = arrived(segment.number);
        table.observe_segment(&segment, &head, arrival, &mut closed);
    }
    let held: usize = table.open.iter().map(|open| open.held_bytes()).sum();
    assert!((4 << 20..10 << 20).contains(&held), "{held} bytes");
    // The latest are kept, and those that were dropped are counted.
    assert!(table.open.iter().any(|open| open.id == 500));
    assert_eq!(table.tallied.evicted as usize + table.open.len(), 500);
}

/// Connections that say nothing have room. If the figures of each are collected, not all of them do.
#[test]
fn the_figures_of_connections_count_as_memory() {
    const CONNECTIONS: u16 = 8192;
    let server = Endpoint::new([10, 0, 0, 2].into(), 80);
    for (stream, is_too_much) in [(None, false), (Some(None), true)] {
        let mut table = Table::new(hasher(1), usize::from(CONNECTIONS));
        let mut closed = Closed::default();
        let ports = (0..2).flat_map(|_| 40_000..40_000 + CONNECTIONS);
        for (number, port) in (1..).zip(ports) {
            let client = Endpoint::new([10, 0, 0, 1].into(), port);
            let at = Timestamp::from_nanos(number * 1_000);
            let segment = Segment {
                number: number as u64,
                flags: TcpFlags::ACK,
                ..Segment::sent(client, server, at)
            };
            let arrival = Arrived {
                stream,
                ..arrived(segment.number)
            };
            table.observe_segment(&segment, &[], arrival, &mut closed);
        }
        assert_eq!(table.tallied.evicted > 0, is_too_much, "{stream:?}");
    }
}

/// Returns a frame of HTTP/2 (RFC 9113 §4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len())
        .expect("a short frame")
        .to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()];
    [&head.concat(), payload].concat()
}

/// Streams that are held back again and again by a window of ten bytes: few packets, and many
/// stretches.
#[test]
fn stretches_in_which_streams_are_held_back_count_as_memory() {
    const STREAMS: u32 = 100;
    const TIMES: i64 = 100;
    let server = Endpoint::new([10, 0, 0, 2].into(), 80);
    let of_all = |one: &dyn Fn(u32) -> Vec<u8>| -> Vec<u8> {
        (0..STREAMS).flat_map(|index| one(index * 2 + 1)).collect()
    };
    // INITIAL_WINDOW_SIZE is 10; the fields are GET, http and `/`, and 200.
    let settings = frame(4, 0, 0, &[0, 4, 0, 0, 0, 10]);
    let requests = of_all(&|stream| frame(1, 5, stream, &[0x82, 0x86, 0x84]));
    let asked = [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(),
        &settings,
        &requests,
    ]
    .concat();
    let answers = of_all(&|stream| frame(1, 4, stream, &[0x88]));
    let answered = [frame(4, 0, 0, &[]), answers].concat();
    let data = of_all(&|stream| frame(0, 0, stream, &[b'x'; 10]));
    let more = of_all(&|stream| frame(8, 0, stream, &10_u32.to_be_bytes()));
    let mut table = Table::new(hasher(1), 1024);
    let (mut closed, mut number) = (Closed::default(), 0);
    for client in 0..40_u16 {
        let client = Endpoint::new([10, 0, 0, 1].into(), 40_000 + client);
        let (mut seqs, mut at) = ([501_u32, 901], Timestamp::from_nanos(1_000_000_000));
        let mut send = |by_server: bool, flags: TcpFlags, payload: &[u8], after_us: i64| {
            at = at + Duration::from_micros(after_us as u64);
            number += 1;
            let ends = if by_server {
                (server, client)
            } else {
                (client, server)
            };
            let own = usize::from(by_server);
            let segment = Segment {
                number,
                flags,
                seq: seqs[own],
                ack: seqs[1 - own],
                window: 60_000,
                payload_len: payload.len() as u32,
                ..Segment::sent(ends.0, ends.1, at)
            };
            seqs[own] += segment.payload_len + u32::from(flags.contains(TcpFlags::SYN));
            let arrival = arrived(number);
            table.observe_segment(&segment, payload, arrival, &mut closed);
        };
        send(false, TcpFlags::SYN, b"", 0);
        send(true, ACCEPT, b"", 100);
        send(false, PUSH, &asked, 100);
        send(true, PUSH, &answered, 100);
        for _ in 0..TIMES {
            send(true, PUSH, &data, 100);
            send(false, PUSH, &more, 900);
        }
    }
    assert!(table.tallied.evicted > 0, "{} open", table.open.len());
}
