//! Tests that every kind of server behaves as described, seen by a client on the other host.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use lagtrace_lab::{Error, Family, Lab, Scenario};
use lagtrace_trial::live;

use crate::client::{Fetched, address, connect, exchange, fetch, median, stamps_once};
use crate::{helper, up};

const MS: Duration = Duration::from_millis(1);
/// Maximum share of a test's time for which the machine may stand still. Beyond it, a median of the
/// requests means nothing.
const SHARE: f64 = 0.2;

/// Returns the median times to the header, and from the header to the end of the body. The first
/// requests of the connection are left out, because their segments are acknowledged at once.
fn usual(fetched: &[Fetched]) -> (Duration, Duration) {
    let later = &fetched[3..];
    (
        median(later.iter().map(|one| one.header)),
        median(later.iter().map(|one| one.body)),
    )
}

#[test]
fn nagle_holds_the_body_of_a_server_that_writes_apart() {
    live("nagle_holds_the_body_of_a_server_that_writes_apart")
        .share(SHARE)
        .run(|| {
            for (scenario, service) in [
                ("nagle-delayed-ack", "latency"),
                ("nagle-write-write-read", "write-write-read"),
                ("nodelay-off-elsewhere", "another-port"),
            ] {
                let Some(lab) = up(scenario, 0) else { return };
                let (header, body) = usual(&fetch(&lab, service, 20));
                assert!(
                    header < 20 * MS && body > 30 * MS && body < 60 * MS,
                    "{service}: {header:?} + {body:?}"
                );
            }
        });
}

#[test]
fn a_client_that_delays_its_acks_less_waits_less() {
    live("a_client_that_delays_its_acks_less_waits_less")
        .share(SHARE)
        .run(|| {
            let Some(lab) = up("short-delayed-ack", 0) else {
                return;
            };
            let (_, body) = usual(&fetch(&lab, "latency", 20));
            assert!(body > 15 * MS && body < 36 * MS, "{body:?}");
        });
}

#[test]
fn look_alikes_of_nagle_do_not_wait() {
    live("look_alikes_of_nagle_do_not_wait")
        .share(SHARE)
        .run(|| {
            for (scenario, service) in [
                ("nagle-delayed-ack", "good"),
                ("nodelay-off-one-segment", "one-segment"),
                ("nodelay-off-elsewhere", "good"),
                ("nopush", "nopush"),
            ] {
                let Some(lab) = up(scenario, 0) else { return };
                let total = median(fetch(&lab, service, 21).iter().map(Fetched::total));
                assert!(total < 25 * MS, "{service}: {total:?}");
            }
        });
}

#[test]
fn the_named_server_block_beside_the_good_one_is_the_one_with_nagle() {
    let Some(lab) = up("nodelay-off-elsewhere", 0) else {
        return;
    };
    let to = address(&lab, "elsewhere", Family::V4);
    let (mut stream, _) = connect(lab.client(), to, Duration::from_secs(5)).expect("connects");
    let fetched: Vec<_> = (0..20)
        .map(|_| exchange(&mut stream, "elsewhere.example").expect("a response"))
        .collect();
    assert!(usual(&fetched).1 > 30 * MS, "{fetched:?}");
}

#[test]
fn a_server_that_closes_is_not_held() {
    live("a_server_that_closes_is_not_held")
        .share(SHARE)
        .run(|| {
            let Some(lab) = up("fin-closed", 0) else {
                return;
            };
            let times = (0..11).map(|_| {
                let (mut stream, _) = connect(
                    lab.client(),
                    address(&lab, "fin", Family::V4),
                    Duration::from_secs(5),
                )
                .expect("connects");
                let fetched = exchange(&mut stream, "lab").expect("a response");
                assert_eq!(stream.read(&mut [0; 16]).expect("closed in order"), 0);
                fetched.total()
            });
            assert!(median(times.collect::<Vec<_>>()) < 25 * MS);
        });
}

#[test]
fn sleeping_servers_sleep_where_they_say_and_stamp_it() {
    live("sleeping_servers_sleep_where_they_say_and_stamp_it")
        .share(SHARE)
        .run(|| {
            for (scenario, service, writes) in [
                ("server-think", "think-44", 1),
                ("server-pause", "pause-44", 2),
            ] {
                let Some(lab) = up(scenario, 8) else { return };
                let (header, body) = usual(&fetch(&lab, service, 10));
                let (slow, fast) = if writes == 1 {
                    (header, body)
                } else {
                    (body, header)
                };
                assert!(
                    slow > 40 * MS && slow < 80 * MS && fast < 30 * MS,
                    "{service}: {header:?} + {body:?}"
                );
                let stamps = stamps_once(&lab, service, 10);
                assert_eq!(stamps.len(), 10);
                for (number, stamp) in (1..).zip(&stamps) {
                    assert_eq!((stamp.number, stamp.written_ns.len()), (number, writes));
                    assert_eq!(stamp.peer.ip(), lab.client().address(Family::V4));
                    let slept = stamp.written_ns[writes - 1] - stamp.read_ns;
                    assert!(slept >= 44_000_000, "{stamp:?}");
                }
                assert!(lab.stamps("think-0").is_err());
            }
        });
}

#[test]
fn an_access_log_has_nginxs_own_stamps() {
    let text = "name = \"logged\"\ntitle = \"t\"\ntarget = \"a\"\n[[service]]\nname = \"a\"\nport = 80\n\
                server = { kind = \"nginx\", access_log = true }\n";
    let scenario = Scenario::parse("test", text).expect("a scenario");
    let Some(lab) = crate::up_as(&scenario) else {
        return;
    };
    fetch(&lab, "a", 5);
    // Each line is written after its response, so this waits for the lines.
    let begun = Instant::now();
    let lines = loop {
        let lines = lab.access_log("a").expect("reads");
        if lines.len() >= 5 || begun.elapsed() > Duration::from_secs(5) {
            break lines;
        }
        std::thread::sleep(5 * MS);
    };
    assert_eq!(
        lines
            .iter()
            .map(|line| (line.number, line.status))
            .collect::<Vec<_>>(),
        [(1, 200), (2, 200), (3, 200), (4, 200), (5, 200)]
    );
    assert!(
        lines
            .iter()
            .all(|line| line.peer.ip() == lab.client().address(Family::V4))
    );
}

#[test]
fn an_nginx_answers_with_files_of_the_sizes_that_are_named() {
    let text = "name = \"files\"\ntitle = \"t\"\ntarget = \"one\"\n[[service]]\nname = \"one\"\nport = 80\n\
                server = { kind = \"nginx\", answer = { bytes = \"300kB\" } }\n\
                [[service]]\nname = \"two\"\nport = 81\n\
                server = { kind = \"nginx\", answer = { bytes = [\"5kB\", \"40kB\"] } }\n";
    let scenario = Scenario::parse("test", text).expect("a scenario");
    let Some(lab) = crate::up_as(&scenario) else {
        return;
    };
    for (service, length) in [("one", 300_000), ("two", 5_000)] {
        assert!(
            fetch(&lab, service, 2)
                .iter()
                .all(|one| (one.status, one.length) == (200, length))
        );
    }
    let files = lab.run().folder().join("nginx/two.files/40kB");
    assert_eq!(std::fs::metadata(files).expect("a file").len(), 40_000);
}

fn try_connect(lab: &Lab, limit: Duration) -> std::io::Result<Duration> {
    let to = address(lab, &lab.scenario().target, Family::V4);
    connect(lab.client(), to, limit).map(|(_, took)| took)
}

#[test]
fn a_port_without_a_listener_refuses() {
    let Some(lab) = up("connection-refused", 8) else {
        return;
    };
    let error = try_connect(&lab, Duration::from_secs(5)).expect_err("nobody listens");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_firewall_that_drops_is_silent() {
    let Some(lab) = up("firewall-drop", 0) else {
        return;
    };
    let error = try_connect(&lab, 1500 * MS).expect_err("SYNs are dropped");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}

#[test]
fn a_lost_first_syn_costs_a_second() {
    live("a_lost_first_syn_costs_a_second")
        .standstill(1000 * MS)
        .share(SHARE)
        .run(|| {
            let Some(lab) = up("syn-loss", 0) else { return };
            let times = [(); 2].map(|()| {
                try_connect(&lab, Duration::from_secs(10)).expect("the second SYN passes")
            });
            for took in times {
                assert!(took > 900 * MS && took < 3000 * MS, "{took:?}");
            }
        });
}

/// Returns the answer of a service that does not speak HTTP to a request, and true if the service
/// then keeps the connection open.
fn answer(scenario: &str) -> Option<(Vec<u8>, bool)> {
    let lab = up(scenario, 0)?;
    let to = address(&lab, &lab.scenario().target, Family::V6);
    let (mut stream, _) = connect(lab.client(), to, Duration::from_secs(5)).expect("connects");
    stream.set_read_timeout(Some(500 * MS)).expect("a timeout");
    // If the server has already closed the connection, this write may fail.
    let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: lab\r\n\r\n");
    let mut bytes = Vec::new();
    let ended = stream.read_to_end(&mut bytes);
    let is_open = ended.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    Some((bytes, is_open))
}

#[test]
fn servers_that_speak_no_http_behave_as_described() {
    let Some(silent) = answer("never-answers") else {
        return;
    };
    assert_eq!(silent, (vec![], true));
    assert_eq!(answer("closes-at-once"), Some((vec![], false)));
    let (garbage, is_open) = answer("garbage").expect("root was there a moment ago");
    assert!(!garbage.is_empty() && !garbage.starts_with(b"HTTP") && !is_open);
    let (alert, is_open) = answer("tls-on-plain-port").expect("root was there a moment ago");
    assert_eq!((&alert[..5], is_open), (&[21, 3, 3, 0, 2][..], false));
}

#[test]
fn an_error_status_is_answered_fast_and_kept_alive() {
    let Some(lab) = up("http-error", 0) else {
        return;
    };
    assert!(
        fetch(&lab, "unavailable", 3)
            .iter()
            .all(|fetched| fetched.status == 503)
    );
}

#[test]
fn every_shipped_scenario_comes_up() {
    let scenarios = Scenario::all().expect("shipped scenarios read");
    // Two threads are enough, because bringing up a lab mostly waits for its servers. Each lab has
    // its own namespaces.
    std::thread::scope(|scope| {
        for half in scenarios.chunks(scenarios.len().div_ceil(2)) {
            scope.spawn(|| half.iter().for_each(comes_up));
        }
    });
}

fn comes_up(scenario: &Scenario) {
    match Lab::bring_up(scenario, &helper()) {
        Ok(lab) => lab.take_down().expect("comes down"),
        Err(error @ (Error::NeedsRoot | Error::MissingTool { .. })) => {
            crate::skip(&error.to_string());
        }
        Err(error) => panic!("{}: {}", scenario.name, error.chain()),
    }
}
