//! The short way of plain exchanges, compared with the full way.

use proptest::prelude::*;

use super::*;
use crate::attribution::packet::{Pipe, Queued, Reports};
use crate::attribution::rtt::RoundTrip;
use crate::exchange::{PairingDoubts, PerSide};

const REQUEST: Span = Span { start: 10, end: 20 };
const RESPONSE: Span = Span { start: 30, end: 50 };
const NEXT: Span = Span { start: 20, end: 25 };

/// Mostly the first value, sometimes another one.
fn mostly<T: Clone + core::fmt::Debug + 'static>(usual: T, others: Vec<T>) -> BoxedStrategy<T> {
    prop_oneof![6 => Just(usual), 1 => prop::sample::select(others)].boxed()
}

/// Returns packets that are a plain exchange in most cases.
fn packets() -> impl Strategy<Value = Vec<PacketRecord>> {
    let sides = vec![Side::Client, Side::Server];
    let both = || {
        mostly(
            sides.clone(),
            vec![vec![Side::Client], vec![Side::Server; 2]],
        )
    };
    let more = [Side::Client, Side::Server, Side::Client].to_vec();
    let sides = prop_oneof![1 => both(), 1 => Just(more)];
    sides.prop_flat_map(|sides| {
        let packets: Vec<_> = (1..)
            .zip(sides)
            .map(|(number, by)| packet(number, by))
            .collect();
        packets
    })
}

fn packet(number: u64, by: Side) -> impl Strategy<Value = PacketRecord> {
    let span = match (by, number) {
        (Side::Client, 3) => NEXT,
        (Side::Client, _) => REQUEST,
        (Side::Server, _) => RESPONSE,
    };
    let short = Span {
        end: span.end - 3,
        ..span
    };
    let arrivals = vec![
        Arrival::PastHole,
        Arrival::Fill,
        Arrival::Repeat,
        Arrival::KeepAlive,
    ];
    (
        mostly(number as i64 * 30_000_000, vec![0, 31_000_000, 300_000_000]),
        mostly(Some(span), vec![None, Some(short), Some(REQUEST)]),
        mostly(Arrival::InOrder, arrivals),
        mostly(
            (false, false, 0),
            vec![(true, false, 0), (false, true, 0), (false, false, 1)],
        ),
        mostly(0, vec![40_000_000]),
        mostly(Need::Needed, vec![Need::Spurious]),
    )
        .prop_map(
            move |(at, span, arrival, (is_closed, is_news, skipped), queued, need)| {
                let data = span.map(|span| Data {
                    span,
                    arrival,
                    is_small: true,
                    has_fin: false,
                    was_too_big: false,
                    acked: span.start,
                    edge: 0,
                    order: Order::Untold,
                    need,
                    after_cut: false,
                    in_flight: 0,
                    had_no_room: false,
                });
                let acked = [RESPONSE, REQUEST][usize::from(by == Side::Server)];
                PacketRecord {
                    at: Timestamp::from_nanos(at),
                    number,
                    by,
                    queued: Queued {
                        possible_ns: queued,
                        known_ns: queued / 2,
                    },
                    ttl: 64,
                    idle: None,
                    data,
                    ack: if number > 1 { acked.end } else { acked.start },
                    edge: 0,
                    is_closed,
                    is_news,
                    reports: Reports::default(),
                    skipped,
                }
            },
        )
}

/// Returns the round trip to one side.
fn trip() -> impl Strategy<Value = RoundTrip> {
    let timed = |ms| {
        let mut trip = RoundTrip::default();
        trip.sample_handshake(Duration::from_millis(ms));
        trip
    };
    mostly(
        timed(4),
        vec![RoundTrip::none(), RoundTrip::default(), timed(20)],
    )
}

fn pipe() -> impl Strategy<Value = Pipe> {
    (any::<[bool; 6]>(), mostly(false, vec![true])).prop_map(|(flags, has_repeats)| Pipe {
        mss: 1448,
        is_agreed: flags[0],
        has_timestamps: flags[1],
        has_start: flags[2],
        has_clock: flags[3],
        is_numbered: flags[4],
        has_repeats,
        has_losses: flags[5],
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_plain_exchange_has_the_same_waits_in_the_short_way(
        packets in packets(),
        trips in (trip(), trip()),
        pipes in (pipe(), pipe()),
        behind in mostly(None, vec![Some(45_000_000)]),
        end in mostly(None, vec![Some(55_000_000)]),
        is_torn in mostly(false, vec![true]),
        ends_with_fin in mostly(false, vec![true]),
        (is_unread, is_unasked) in mostly((false, false), vec![(true, false), (false, true)]),
        lost_of_server in mostly(0, vec![3]),
    ) {
        let torn = [(Side::Client, REQUEST)];
        let answered = packets.iter().rfind(|packet| packet.by == Side::Server);
        let last = answered.map_or(packets[0].at, |packet| packet.at);
        let trace = Trace {
            packets: &packets,
            begin: packets[0].at,
            end: end.map_or(last, Timestamp::from_nanos).max(packets[0].at),
            request: REQUEST,
            response: RESPONSE,
            torn: &torn[..usize::from(is_torn)],
            behind: behind.map(Timestamp::from_nanos),
            after: After { ends_with_fin, next_request: u64::MAX, lost_of_server },
            permission: Permission::default(),
            trips: PerSide { client: trips.0, server: trips.1 },
            pipes: PerSide { client: pipes.0, server: pipes.1 },
            serialization: PerSide::default(),
            before: Before::default(),
            repeated_syn: PerSide::default(),
            doubts: PairingDoubts { is_unread, is_unasked, ..PairingDoubts::default() },
        };
        let (effort, mut spare) = (Effort::default(), Spare::default());
        let (mut short, mut full) = (Tiling::default(), Tiling::default());
        tile(&trace, &effort, &mut spare, &mut short);
        tile_around(&trace, &effort, &mut spare, &mut full);
        prop_assert_eq!(format!("{short:?}"), format!("{full:?}"));
    }
}
