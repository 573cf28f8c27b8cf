//! Tests that a picture depends only on the set of exchanges.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;

use super::about::About;
use super::services::PicturedServices;
use super::*;
use crate::exchange::wait::{Bound, Owner, Wait, WaitKind};
use crate::exchange::{
    Connecting, Exchange, ExchangeId, ExchangePackets, Outcome, Particulars, PathTimes,
    ResponseBytes, Seldom, Signs,
};
use crate::observed::event::PointId;
use crate::observed::flow::{self, Endpoint};
use crate::observed::packet::PacketNumber;
use crate::observed::time::Timestamp;
use crate::report::{Cell, Part, Picture, PicturedExchange, Report, Why};
use crate::service::Ledger;

mod selected;

const KINDS: [(WaitKind, Owner); 4] = [
    (WaitKind::RoundTrip, Owner::Path),
    (WaitKind::ServerThink, Owner::Server),
    (WaitKind::RequestPause, Owner::Client),
    (WaitKind::Unknown, Owner::Unknown),
];

/// An exchange: its number, its server's, its start, and the durations of its waits.
#[derive(Clone, Debug)]
struct Made {
    number: u16,
    server: u8,
    begin: i64,
    waits: Vec<u64>,
}

fn end(last: u8, port: u16) -> Endpoint {
    Endpoint::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)), port)
}

impl Made {
    fn exchange(&self) -> Exchange {
        let begin = Timestamp::from_nanos(self.begin);
        let mut cursor = begin;
        let mut waits = Vec::new();
        for (&nanos, (kind, owner)) in self.waits.iter().zip(KINDS.into_iter().cycle()) {
            let (start, end) = (cursor, cursor + Duration::from_nanos(nanos));
            cursor = end;
            let (released_by, bound) = (Some(7), Bound::Observed);
            let wait = Wait {
                start,
                end,
                kind,
                owner,
                released_by,
                bound,
            };
            waits.extend((nanos > 0).then_some(wait));
        }
        Exchange {
            id: ExchangeId {
                // No drawn server has this address.
                client: end(200, self.number),
                server: end(self.server, 80),
                point: PointId(0),
                ordinal: u32::from(self.number),
            },
            begin,
            end: cursor,
            outcome: Outcome::Complete(Some(200)),
            request: Some(format!("GET /{}", self.number).into()),
            waits,
            sending: Seldom::default(),
            loss: Seldom::default(),
            response: ResponseBytes::default(),
            path: PathTimes::default(),
            packets: ExchangePackets {
                first: PacketNumber::new(u64::from(self.number) + 1),
                last: None,
            },
            connecting: Connecting::default(),
            particulars: Particulars::default(),
            signs: Signs::default(),
            at_host: None,
        }
    }
}

/// Exchanges with up to `servers` servers, during microseconds or years.
fn exchanges(servers: u8, most: usize) -> impl Strategy<Value = Vec<Made>> {
    let begin = prop_oneof![0..1_000_000_i64, any::<i64>(), 0..10_000_000_000_i64];
    let wait = prop_oneof![0..100_u64, 0..100_000_000_u64, any::<u64>()];
    let one = (0..servers, begin, prop::collection::vec(wait, 0..5));
    let all = prop::collection::vec(one, 0..most);
    all.prop_map(|all| {
        let made = |((server, begin, waits), number)| Made {
            number,
            server,
            begin,
            waits,
        };
        all.into_iter().zip(1..).map(made).collect()
    })
}

fn collected(exchanges: &[Made], seed: u64) -> Collector {
    let mut collector = Collector::new(flow::hasher(seed));
    for made in exchanges {
        collector.add_exchange(&made.exchange());
    }
    collector
}

/// Returns the picture of exchanges, of which each part was collected separately.
fn picture(parts: &[&[Made]]) -> Picture {
    let mut ledgers: Vec<(Endpoint, Ledger)> = Vec::new();
    for made in parts.concat() {
        let exchange = made.exchange();
        let server = exchange.id.server;
        let place = ledgers.iter().position(|(known, _)| *known == server);
        let place = place.unwrap_or_else(|| {
            ledgers.push((server, Ledger::default()));
            ledgers.len() - 1
        });
        ledgers[place].1.add_exchange(&exchange);
    }
    let mut sum = Collector::new(flow::hasher(7));
    for (part, seed) in parts.iter().zip(0..) {
        sum.merge(collected(part, seed));
    }
    let about = About {
        services: PicturedServices::of(ledgers.iter().map(|(server, ledger)| (*server, ledger))),
        sockets: Vec::new(),
        captures: vec![(PointId(0), "a.pcap".to_owned())],
        has_packets: true,
        has_numbers: true,
    };
    sum.sketch(about).finish(&Report::default())
}

proptest! {
    #[test]
    fn neither_order_nor_shards_change_a_picture(
        exchanges in exchanges(12, 200),
        cuts in (any::<Index>(), any::<Index>()),
        shuffled in any::<u64>(),
    ) {
        let whole = picture(&[&exchanges]);
        let mut moved = exchanges.clone();
        // A fixed permutation that depends on the seed.
        moved.sort_by_key(|made| (u64::from(made.number) ^ shuffled).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (one, two) = (cuts.0.index(moved.len() + 1), cuts.1.index(moved.len() + 1));
        let (one, two) = (one.min(two), one.max(two));
        let parts = [&moved[..one], &moved[one..two], &moved[two..]];
        prop_assert_eq!(&picture(&parts), &whole);
        prop_assert_eq!(picture(&[&moved]), whole);
    }

    #[test]
    fn every_exchange_is_in_all_parts_of_a_picture(exchanges in exchanges(12, 200)) {
        let picture = picture(&[&exchanges]);
        let count = exchanges.len() as u64;
        let of_services: u64 = picture.services.iter().map(|service| service.count).sum();
        let of_cells: u64 = picture.raster.cells.iter().map(|cell| cell.3).sum();
        let all = picture.shares.iter().filter(|s| s.part == Part::All && s.service.is_none());
        let of_shares: u64 = all.map(|shares| shares.count).sum();
        let of_points = picture.points.as_ref().map_or(0, |points| points.latency_ns.len());
        prop_assert_eq!([of_services, of_cells, of_shares, of_points as u64], [count; 4]);
        prop_assert!(picture.services.len() <= 8);
        prop_assert!(picture.raster.columns <= 1024);
        let rows = picture.raster.rows_ns.len();
        let fits = |cell: &Cell| cell.1 < picture.raster.columns && usize::from(cell.2) + 1 < rows;
        prop_assert!(picture.raster.cells.iter().all(fits));
        prop_assert_eq!(picture.exchanges.len(), exchanges.len());
    }
}

/// Exchanges that follow each other every millisecond, each with one wait.
fn even(count: u16, wait: impl Fn(u16) -> u64) -> Vec<Made> {
    let made = |number| Made {
        number,
        server: 2,
        begin: i64::from(number) * 1_000_000,
        waits: vec![0, wait(number)],
    };
    (0..count).map(made).collect()
}

#[test]
fn the_slowest_and_a_sample_are_kept() {
    let exchanges = even(60_000, |number| 1_000_000 + u64::from(number) % 1_000);
    let picture = picture(&[&exchanges]);
    let of = |why| move |each: &&PicturedExchange| each.why == why;
    let slowest: Vec<_> = picture.exchanges.iter().filter(of(Why::Slowest)).collect();
    assert_eq!(slowest.len(), 500);
    assert!(
        slowest
            .iter()
            .all(|each| each.exchange.latency_ns >= 1_000_990)
    );
    let sample: Vec<_> = picture.exchanges.iter().filter(of(Why::Sample)).collect();
    assert!((1_950..=2_000).contains(&sample.len()));
    // Uniform: each tenth of the time has about a tenth of the sample.
    for tenth in 0..10 {
        let range = tenth * 6_000_000_000..(tenth + 1) * 6_000_000_000;
        let inside = sample
            .iter()
            .filter(|each| range.contains(&each.exchange.start_ns));
        assert!((140..=260).contains(&inside.count()), "{tenth}");
    }
    assert!(
        picture
            .exchanges
            .is_sorted_by_key(|each| each.exchange.start_ns)
    );
}

#[test]
fn columns_are_as_narrow_as_their_number_allows() {
    let raster = picture(&[&even(1_000, |_| 5_000_000)]).raster;
    assert_eq!((raster.column_ns, raster.columns), (1 << 20, 953));
    // 65,536 cells at most: here each exchange has a row of its own for a while.
    let exchanges = even(60_000, |number| 1 << (10 + number % 30));
    let raster = picture(&[&exchanges]).raster;
    assert!(raster.cells.len() <= 1 << 16, "{}", raster.cells.len());
    assert!(raster.cells.len() > 1 << 13, "{}", raster.cells.len());
}

#[test]
fn parts_of_the_distribution_are_named() {
    let exchanges = even(1_000, |number| {
        if number % 50 == 0 {
            40_000_000
        } else {
            1_000_000
        }
    });
    let picture = picture(&[&exchanges]);
    let part = |part| {
        let mut shares = picture.shares.iter();
        shares
            .find(|s| s.part == part && s.service.is_none())
            .expect("the part")
    };
    assert_eq!(part(Part::All).count, 1_000);
    assert_eq!(part(Part::Median).count, 980);
    let slowest = part(Part::Slowest);
    assert_eq!((slowest.count, slowest.mean_ns), (20, 40_000_000));
    assert_eq!(slowest.waits[0].kind, WaitKind::ServerThink);
    assert!(slowest.low_ns.abs_diff(40_000_000) <= 40_000);
}

#[test]
fn the_least_busy_of_many_services_are_drawn_as_one() {
    let made = |number: u16| Made {
        number,
        server: (f64::from(number).sqrt() as u8) / 2,
        begin: i64::from(number),
        waits: vec![5_000],
    };
    let exchanges: Vec<Made> = (0..2_000).map(made).collect();
    let services = picture(&[&exchanges]).services;
    assert_eq!(services.len(), 8);
    assert!(services[..7].is_sorted_by(|one, next| one.count >= next.count));
    assert_eq!(services[7].server, "");
    assert!(services[7].count > services[0].count);
}

#[test]
fn many_waits_are_joined_around_the_longest() {
    let mut made = Made {
        number: 1,
        server: 2,
        begin: 0,
        waits: (1..=200).map(|n| n % 7 + 1).collect(),
    };
    made.waits[100] = 1_000;
    let picture = picture(&[&[made.clone()]]);
    let [one] = picture.exchanges.as_slice() else {
        panic!("{:?}", picture.exchanges);
    };
    let waits = &one.exchange.waits;
    assert!(waits.len() <= PicturedExchange::MAX_WAITS);
    assert_eq!(one.joined_waits, 200 - waits.len() as u64);
    let sum: u64 = waits.iter().map(|wait| wait.duration_ns).sum();
    assert_eq!(sum, one.exchange.latency_ns);
    assert!(waits.iter().any(|wait| wait.duration_ns == 1_000));
}
