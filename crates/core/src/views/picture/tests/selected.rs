//! Tests that every exchange of a picture can be selected.

use core::ops::Range;

use super::*;

fn listed(selection: Selection, exchanges: &[Made], picture: &Picture) -> Listed {
    let start_ns = picture.raster.start_ns;
    let mut selected = Selected::new(selection, &picture.services, start_ns);
    for made in exchanges {
        selected.add_exchange(&made.exchange());
    }
    selected.finish(&[(PointId(0), "a.pcap".to_owned())])
}

fn part(begun_ns: Range<u64>, latency_ns: Range<u64>) -> Selection {
    Selection::Part(PicturePart {
        service: None,
        owner: None,
        begun_ns,
        latency_ns,
    })
}

const ALL: Range<u64> = 0..u64::MAX;

proptest! {
    #[test]
    fn parts_side_by_side_contain_each_exchange_once(
        exchanges in exchanges(12, 150),
        at in any::<Index>(),
    ) {
        let picture = picture(&[&exchanges]);
        prop_assume!(!exchanges.is_empty());
        // The borders are at an exchange, where a wrong comparison shows.
        let middle = at.get(&picture.exchanges).clone().exchange;
        let begun = middle.start_ns.wrapping_sub(picture.raster.start_ns) as u64;
        let mut found = Vec::new();
        for begun in [0..begun, begun..u64::MAX] {
            for latency in [0..middle.latency_ns, middle.latency_ns..u64::MAX] {
                for service in 0..picture.services.len() as u8 {
                    let selection = Selection::Part(PicturePart {
                        service: Some(service),
                        owner: None,
                        begun_ns: begun.clone(),
                        latency_ns: latency.clone(),
                    });
                    let listed = listed(selection, &exchanges, &picture);
                    prop_assert_eq!(listed.total, listed.exchanges.len() as u64);
                    found.extend(listed.exchanges);
                }
            }
        }
        // An endless latency is in no range.
        let is_finite = |each: &&PicturedExchange| each.exchange.latency_ns < u64::MAX;
        let mut names: Vec<&str> = found.iter().map(|it| it.exchange.request.as_str()).collect();
        let all = picture.exchanges.iter().filter(is_finite);
        let mut expected: Vec<&str> = all.map(|it| it.exchange.request.as_str()).collect();
        names.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(names, expected);
        let is_alike = |one: &PicturedExchange| {
            let mut others = picture.exchanges.iter();
            others.any(|other| (one.service, &one.exchange) == (other.service, &other.exchange))
        };
        prop_assert!(found.iter().all(is_alike));
    }

    #[test]
    fn an_exchange_is_found_by_its_key(exchanges in exchanges(12, 100), at in any::<Index>()) {
        let picture = picture(&[&exchanges]);
        prop_assume!(!exchanges.is_empty());
        let wanted = at.get(&exchanges).exchange();
        let key = ExchangeKey {
            client: wanted.id.client,
            server: wanted.id.server,
            first_packet: wanted.packets.first.expect("each has one").get(),
            ordinal: wanted.id.ordinal,
        };
        let found = listed(Selection::One(key), &exchanges, &picture);
        prop_assert_eq!(found.total, 1);
        prop_assert_eq!(ExchangeKey::of(&found.exchanges[0]), Some(key));
        prop_assert_eq!(Some(&*found.exchanges[0].exchange.request), wanted.request.as_deref());
        for other in [
            ExchangeKey { client: key.server, ..key },
            ExchangeKey { server: key.client, ..key },
            ExchangeKey { first_packet: key.first_packet + 1, ..key },
            ExchangeKey { ordinal: key.ordinal + 1, ..key },
        ] {
            prop_assert_eq!(listed(Selection::One(other), &exchanges, &picture).total, 0);
        }
    }
}

#[test]
fn the_slowest_are_listed_and_all_are_counted() {
    let mut exchanges = even(1_000, |number| 1_000 + u64::from(number));
    let picture = picture(&[&exchanges]);
    let first = listed(part(ALL, 0..1_500), &exchanges, &picture);
    exchanges.reverse();
    assert_eq!(first, listed(part(ALL, 0..1_500), &exchanges, &picture));
    assert_eq!((first.total, first.exchanges.len()), (500, 200));
    let latencies: Vec<u64> = first
        .exchanges
        .iter()
        .map(|each| each.exchange.latency_ns)
        .collect();
    let expected: Vec<u64> = (1_300..1_500).rev().collect();
    assert_eq!(latencies, expected);
    assert_eq!(first.exchanges[0].capture.as_deref(), Some("a.pcap"));
}

#[test]
fn a_part_can_be_of_one_owner() {
    let mut exchanges = even(10, |_| 1_000);
    exchanges[3].waits = vec![2_000];
    let picture = picture(&[&exchanges]);
    let of = |owner| {
        let selection = Selection::Part(PicturePart {
            service: None,
            owner: Some(owner),
            begun_ns: ALL,
            latency_ns: ALL,
        });
        listed(selection, &exchanges, &picture).total
    };
    assert_eq!(
        [Owner::Server, Owner::Path, Owner::Client].map(of),
        [9, 1, 0]
    );
}
