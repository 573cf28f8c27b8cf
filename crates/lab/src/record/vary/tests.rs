use std::collections::BTreeSet;

use super::*;

fn scenario(name: &str) -> Scenario {
    Scenario::by_name(name).expect("a shipped scenario")
}

/// Returns the variations of a scenario for the first `seeds` seeds.
fn drawn(name: &str, seeds: u64) -> Vec<(Request, Drawn)> {
    let scenario = scenario(name);
    let request = Request::all_of(&scenario).swap_remove(0);
    let vary = |seed| {
        let varied = request.vary(&scenario, seed);
        let drawn = varied.drawn.clone().expect("something is drawn");
        (varied, drawn)
    };
    (0..seeds).map(vary).collect()
}

#[test]
fn equal_seeds_draw_equal_things_and_others_others() {
    let (one, again) = (
        drawn("nagle-delayed-ack", 200),
        drawn("nagle-delayed-ack", 200),
    );
    assert_eq!(one, again);
    let ports: BTreeSet<_> = one.iter().map(|(_, drawn)| drawn.port).collect();
    let distances: BTreeSet<_> = one.iter().map(|(one, _)| one.round_trip).collect();
    let mtus: BTreeSet<_> = one.iter().map(|(_, drawn)| drawn.mtu).collect();
    assert!(ports.len() > 150 && distances.len() > 30 && mtus.len() > 30);
    let share = |is: &dyn Fn(&(Request, Drawn)) -> bool| one.iter().filter(|one| is(one)).count();
    for (what, count) in [
        ("loopback", share(&|(_, drawn)| drawn.loopback)),
        (
            "a veth pair",
            share(&|(one, drawn)| !drawn.loopback && one.round_trip == Some(Duration::ZERO)),
        ),
        (
            "an emulated path",
            share(&|(one, _)| one.round_trip > Some(Duration::ZERO)),
        ),
        ("IPv6", share(&|(one, _)| one.ipv6)),
        ("IPv4", share(&|(one, _)| !one.ipv6)),
        ("offload", share(&|(one, _)| one.offload == Some(true))),
        ("segments", share(&|(one, _)| one.offload == Some(false))),
        (
            "a small buffer",
            share(&|(_, drawn)| drawn.receive_buffer.is_some()),
        ),
        (
            "a later beginning",
            share(&|(_, drawn)| drawn.begin_percent.is_some()),
        ),
        (
            "short packets",
            share(&|(_, drawn)| drawn.snapshot.is_some()),
        ),
        (
            "pcapng",
            share(&|(_, drawn)| drawn.format == Some(CaptureFormat::Pcapng)),
        ),
    ] {
        assert!((20..=180).contains(&count), "{what}: {count} of 200");
    }
}

#[test]
fn what_is_drawn_stays_where_the_truth_holds() {
    for (varied, drawn) in drawn("nagle-delayed-ack", 500) {
        let round_trip = varied.round_trip.expect("a round trip");
        let is_far = NEAR..=Duration::from_millis(50);
        assert!(
            round_trip.is_zero() || is_far.contains(&round_trip),
            "{round_trip:?}"
        );
        assert!(!drawn.loopback || (round_trip.is_zero() && drawn.mtu.is_none()));
        let mtu = drawn.mtu.unwrap_or(1500);
        assert!((576..=9000).contains(&mtu) && (mtu >= 1280 || !varied.ipv6));
        assert_eq!(drawn.size_percent, None, "a page has the size that it has");
        let scenario = varied.apply(scenario("nagle-delayed-ack"));
        assert!(
            scenario.check_sense("it").is_ok() && scenario.switched_off().check_sense("it").is_ok()
        );
    }
}

#[test]
fn every_scenario_makes_sense_whatever_is_drawn() {
    for scenario in Scenario::all().expect("shipped scenarios read") {
        for request in Request::all_of(&scenario) {
            for seed in 0..25 {
                let varied = request.vary(&scenario, seed).apply(scenario.clone());
                varied.check_sense(&scenario.name).expect("with the fault");
                let off = varied.switched_off();
                off.check_sense(&scenario.name).expect("without it");
            }
        }
    }
}

#[test]
fn what_a_scenario_says_stays_as_it_is() {
    for (varied, drawn) in drawn("packet-loss", 50) {
        // The scenario is about its path, so the path is not changed.
        assert!(!drawn.loopback && drawn.mtu.is_none(), "{drawn}");
        assert!(varied.round_trip > Some(Duration::ZERO));
    }
    for (_, drawn) in drawn("receive-window-sysctl", 50) {
        // This scenario is about the buffer. The port is not changed either, because a proof
        // contains it.
        assert!(
            drawn.receive_buffer.is_none() && drawn.port.is_none(),
            "{drawn}"
        );
    }
    for (varied, drawn) in drawn("retransmission-timeout", 50) {
        // This scenario's path drops packets by size, and the size depends on the version of IP.
        assert!(!varied.ipv6 && drawn.size_percent.is_none(), "{drawn}");
    }
    for (varied, drawn) in drawn("dns-healthy", 50) {
        assert!(!varied.ipv6 && drawn.begin_percent.is_none(), "{drawn}");
    }
    for (_, drawn) in drawn("healthy-large-response", 50) {
        let percent = drawn.size_percent.expect("a size is drawn");
        assert!((85..=120).contains(&percent), "{percent}");
        // A response of half a megabyte would fill any of these buffers.
        assert!(drawn.receive_buffer.is_none(), "{drawn}");
    }
}

#[test]
fn as_many_requests_are_asked_on_fewer_or_more_connections() {
    let scenario = scenario("nagle-delayed-ack");
    for (varied, drawn) in drawn("nagle-delayed-ack", 50) {
        let many = drawn.connections.expect("connections are drawn");
        assert!((3..=12).contains(&many), "{many}");
        let Load::Curl(curl) = &varied.apply(scenario.clone()).target().load.clone() else {
            panic!("the load is curl");
        };
        assert_eq!(curl.connections, many);
        assert!((120..132).contains(&(curl.connections * curl.requests)));
    }
}
