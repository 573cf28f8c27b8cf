//! The emulated path as real connections find it. Times are bounded generously: how exact the
//! emulator is, a benchmark measures.

use std::time::{Duration, Instant};

use lagtrace_lab::{Family, Lab};

use crate::client::{address, connect, exchange};
use crate::up;

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_connection_takes_the_round_trip_that_was_asked_for() {
    for (round_trip_ms, family) in [
        (0, Family::V4),
        (8, Family::V4),
        (8, Family::V6),
        (50, Family::V4),
    ] {
        let Some(lab) = up("nagle-delayed-ack", round_trip_ms) else {
            return;
        };
        let to = address(&lab, "good", family);
        let times = (0..7).map(|_| {
            connect(lab.client(), to, Duration::from_secs(5))
                .expect("connects")
                .1
        });
        let shortest = times.min().expect("seven of them");
        let asked = MS * u32::try_from(round_trip_ms).expect("small");
        assert!(
            shortest >= asked && shortest <= asked + 5 * MS,
            "{shortest:?} for {asked:?}"
        );
    }
}

/// Many connections that ask for so long; how many responses came.
fn load(lab: &Lab, service: &str, time: Duration) -> usize {
    let to = address(lab, service, Family::V4);
    let begun = Instant::now();
    let ask = || {
        let Ok((mut stream, _)) = connect(lab.client(), to, Duration::from_secs(5)) else {
            return 0;
        };
        let mut responses = 0;
        while begun.elapsed() < time && exchange(&mut stream, "lab").is_ok() {
            responses += 1;
        }
        responses
    };
    std::thread::scope(|scope| {
        let askers: Vec<_> = (0..40).map(|_| scope.spawn(ask)).collect();
        askers
            .into_iter()
            .map(|asker| asker.join().expect("no panic"))
            .sum()
    })
}

/// The counters once they are up to date.
fn counters(lab: &Lab) -> lagtrace_lab::PathCounters {
    std::thread::sleep(Duration::from_millis(400));
    lab.path_counters()
        .expect("reads")
        .expect("the path is emulated")
}

#[test]
fn a_policer_drops_what_exceeds_it_and_lets_its_rate_pass() {
    let Some(lab) = up("case-on-lossy-path", 8) else {
        return;
    };
    let begun = Instant::now();
    let responses = load(&lab, "good", Duration::from_secs(2));
    let counters = counters(&lab);
    // 5 Mbit/s since the beginning, and the burst.
    let most = begun.elapsed().as_secs_f64() * 625_000.0 + 16_000.0;
    let way = counters.to_client;
    assert!(responses > 100, "{responses}");
    assert!(way.dropped_policer > 50, "{counters:?}");
    assert!(
        (way.delivered_bytes as f64) <= most,
        "{way:?}, at most {most}"
    );
    assert!(way.delivered_bytes > 400_000, "{way:?}");
    assert_eq!(
        (way.dropped_overflow, way.dropped_queue, way.dropped_loss),
        (0, 0, 0)
    );
    assert_eq!(counters.to_server.dropped(), 0);
    assert_eq!(way.offered, way.delivered + way.dropped());
}

#[test]
fn a_queue_before_a_bottleneck_makes_the_round_trip_grow_with_the_load() {
    let Some(lab) = up("path-queueing", 8) else {
        return;
    };
    let to = address(&lab, "good", Family::V4);
    let probe = || {
        connect(lab.client(), to, Duration::from_secs(5))
            .expect("connects")
            .1
    };
    let idle = (0..3).map(|_| probe()).min().expect("three");
    let loaded = std::thread::scope(|scope| {
        scope.spawn(|| load(&lab, "good", Duration::from_secs(2)));
        std::thread::sleep(Duration::from_secs(1));
        (0..3).map(|_| probe()).min().expect("three")
    });
    assert!(
        loaded > idle + 15 * MS,
        "{idle:?} idle, {loaded:?} under load"
    );
}

#[test]
fn chance_loses_about_the_share_that_was_asked_for() {
    let Some(lab) = up("packet-loss", 8) else {
        return;
    };
    load(&lab, "good", Duration::from_secs(2));
    let way = counters(&lab).to_client;
    let share = way.dropped_loss as f64 / way.offered as f64;
    assert!(
        way.offered > 500 && (0.005..0.05).contains(&share),
        "{way:?}"
    );
}
