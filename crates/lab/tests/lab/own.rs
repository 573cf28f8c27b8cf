//! Tests that the built-in servers and clients have the faults that their options describe, and no
//! others.

use std::path::Path;
use std::time::{Duration, Instant};

use lagtrace_lab::client::Asked;
use lagtrace_lab::{Family, Lab, Scenario};
use lagtrace_trial::live;

use crate::client::{address, connect, exchange, fetch, median, stamps_once};

const MS: Duration = Duration::from_millis(1);
/// Maximum share of a test's time for which the machine may stand still. Beyond it, a median of the
/// requests means nothing.
const SHARE: f64 = 0.2;

/// Brings up a lab with one of the built-in servers with these options.
fn up_with(options: &str) -> Option<Lab> {
    let text = format!(
        "name = \"own\"\ntitle = \"t\"\ntarget = \"own\"\n[[service]]\nname = \"own\"\nport = 8080\n\
         server = {{ kind = \"own\", {options} }}\n"
    );
    crate::up_as(&Scenario::parse("test", &text).expect("a scenario"))
}

/// Returns the total times of requests on one connection.
fn totals(options: &str, requests: usize) -> Option<Vec<Duration>> {
    let lab = up_with(options)?;
    let fetched = fetch(&lab, "own", requests);
    Some(fetched.iter().map(|one| one.total()).collect())
}

#[test]
fn a_server_without_options_is_healthy() {
    live("a_server_without_options_is_healthy")
        .share(SHARE)
        .run(|| {
            let Some(times) = totals("stamps = false", 21) else {
                return;
            };
            assert!(median(times) < 20 * MS);
        });
}

#[test]
fn what_is_corked_leaves_after_the_probe_timer() {
    live("what_is_corked_leaves_after_the_probe_timer")
        .share(SHARE)
        .run(|| {
            for hold in ["cork", "more"] {
                let Some(times) = totals(&format!("socket.hold = \"{hold}\""), 3) else {
                    return;
                };
                let took = median(times);
                assert!(took > 180 * MS && took < 400 * MS, "{hold}: {took:?}");
            }
        });
}

#[test]
fn a_server_that_looks_at_times_makes_requests_wait_for_them() {
    live("a_server_that_looks_at_times_makes_requests_wait_for_them")
        .share(SHARE)
        .run(|| {
            let Some(times) = totals("reading.tick = \"50ms\"", 6) else {
                return;
            };
            // The requests are sequential, so each begins directly after the server has checked for
            // requests.
            let took = median(times[1..].iter().copied());
            assert!(took > 35 * MS && took < 80 * MS, "{took:?}");
        });
}

#[test]
fn only_the_first_request_of_a_process_warms_it_up() {
    live("only_the_first_request_of_a_process_warms_it_up")
        .share(SHARE)
        .run(|| {
            let Some(times) = totals("thinking.warm_up = \"300ms\"", 11) else {
                return;
            };
            assert!(times[0] >= 300 * MS && median(times[1..].iter().copied()) < 50 * MS);
        });
}

#[test]
fn one_in_so_many_thinks() {
    live("one_in_so_many_thinks")
        .standstill(50 * MS)
        .share(SHARE)
        .run(|| {
            let Some(times) = totals("thinking = { time = \"100ms\", one_in = 5 }", 10) else {
                return;
            };
            assert_eq!(times.iter().filter(|took| **took >= 100 * MS).count(), 2);
        });
}

#[test]
fn a_stop_stops_every_connection() {
    let name = "a_stop_stops_every_connection";
    live(name).standstill(120 * MS).share(SHARE).run(|| {
        let options = "thinking.stops = { every = \"400ms\", time = \"200ms\" }";
        let Some(lab) = up_with(options) else { return };
        let begun = Instant::now();
        let mut slow = 0;
        while begun.elapsed() < Duration::from_secs(2) {
            // The requests are sequential, so the first one in a stop waits for nearly the whole
            // stop.
            let took = fetch(&lab, "own", 1)[0].total();
            slow += u32::from(took > 120 * MS);
        }
        assert!((2..=6).contains(&slow), "{slow}");
    });
}

#[test]
fn connections_share_what_workers_there_are() {
    let name = "connections_share_what_workers_there_are";
    live(name).standstill(50 * MS).share(SHARE).run(|| {
        // Three requests of 100 ms each. A worker serves one request at a time.
        for (workers, least, most) in [(1, 300 * MS, Duration::MAX), (3, 100 * MS, 250 * MS)] {
            let options = format!("thinking.time = \"100ms\", accepting.workers = {workers}");
            let Some(lab) = up_with(&options) else { return };
            let begun = Instant::now();
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| fetch(&lab, "own", 1));
                }
            });
            let took = begun.elapsed();
            assert!((least..most).contains(&took), "{workers}: {took:?}");
        }
    });
}

#[test]
fn a_length_that_is_wrong_is_noticed_when_the_connection_ends() {
    let options = "response = { framing = \"too-long\", linger = \"200ms\" }";
    let Some(lab) = up_with(options) else { return };
    let to = address(&lab, "own", Family::V4);
    let (mut stream, _) = connect(lab.client(), to, Duration::from_secs(5)).expect("connects");
    let begun = Instant::now();
    assert!(exchange(&mut stream, "lab").is_err());
    assert!(begun.elapsed() >= 200 * MS);
}

/// Runs one of the built-in clients with these options and returns its actions.
fn ask(lab: &Lab, client: &str) -> Vec<Asked> {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.json");
    let to = address(lab, "own", Family::V4);
    std::fs::write(&plan, format!("{{\"client\":{client},\"to\":\"{to}\"}}")).expect("writes");
    let output = run_helper(lab, &plan);
    let lines = output.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("a line of a client"))
        .collect()
}

fn run_helper(lab: &Lab, plan: &Path) -> String {
    let helper = Path::new(env!("CARGO_BIN_EXE_lagtrace-lab-helper"));
    let mut command = lab.client().command(helper).expect("a host");
    let output = command.arg("ask").arg(plan).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn latency(asked: &[Asked]) -> Duration {
    assert!(asked.iter().all(|one| one.ok), "{asked:?}");
    median(asked.iter().map(|one| Duration::from_nanos(one.latency_ns)))
}

#[test]
fn a_client_without_options_is_healthy() {
    live("a_client_without_options_is_healthy")
        .share(SHARE)
        .run(|| {
            let Some(lab) = up_with("stamps = true") else {
                return;
            };
            let asked = ask(&lab, "{\"connections\":2,\"requests\":5}");
            assert_eq!(asked.len(), 10);
            assert!(latency(&asked) < 20 * MS);
            let stamps = stamps_once(&lab, "own", 10);
            assert_eq!(stamps.len(), 10);
            for one in &asked {
                let end = one.begin_ns + one.latency_ns;
                let within = |at: &u64| (one.begin_ns..=end).contains(at);
                assert!(stamps.iter().any(|stamp| within(&stamp.read_ns)), "{one:?}");
            }
        });
}

#[test]
fn a_request_in_two_writes_waits_for_the_servers_delayed_ack() {
    live("a_request_in_two_writes_waits_for_the_servers_delayed_ack")
        .share(SHARE)
        .run(|| {
            let Some(lab) = up_with("stamps = false") else {
                return;
            };
            let split =
                "{\"socket\":{\"nagle\":true},\"request\":{\"body\":\"300B\",\"apart\":true}}";
            let took = latency(&ask(&lab, split));
            assert!(took > 30 * MS && took < 80 * MS, "{took:?}");
            let healthy = "{\"request\":{\"body\":\"300B\",\"apart\":true}}";
            assert!(latency(&ask(&lab, healthy)) < 20 * MS);
        });
}

#[test]
fn clients_are_slow_where_they_are_asked_to_be() {
    live("clients_are_slow_where_they_are_asked_to_be").share(SHARE).run(|| {
        let Some(lab) = up_with("response.body = \"50kB\"") else {
            return;
        };
        for (client, least, most) in [
            (
                "{\"requests\":5,\"response\":{\"late\":\"100ms\"}}",
                100,
                200,
            ),
            (
                "{\"requests\":5,\"request\":{\"body\":\"40B\",\"piece\":\"10B\",\"between\":\"20ms\"}}",
                60,
                140,
            ),
            ("{\"requests\":5,\"action\":3,\"think\":\"30ms\"}", 60, 140),
            ("{\"requests\":5,\"pause\":\"100ms\"}", 0, 50),
            (
                "{\"requests\":5,\"request\":{\"after_connecting\":\"100ms\"}}",
                0,
                50,
            ),
            ("{\"requests\":5,\"action\":4,\"pipelined\":true}", 0, 50),
            ("{\"requests\":5,\"ending\":\"half-close\"}", 0, 50),
        ] {
            let took = latency(&ask(&lab, client));
            assert!(took >= least * MS && took < most * MS, "{client}: {took:?}");
        }
    });
}

#[test]
fn a_request_that_waits_for_a_connection_is_measured_from_when_it_was_wanted() {
    let name = "a_request_that_waits_for_a_connection_is_measured_from_when_it_was_wanted";
    live(name).share(SHARE).run(|| {
        let Some(lab) = up_with("thinking.time = \"20ms\"") else {
            return;
        };
        // The last request is due after 45 ms. Ten requests of 20 ms take at least 200 ms, so its
        // latency is at least 155 ms.
        let queue = ask(&lab, "{\"requests\":10,\"every\":\"5ms\"}");
        let last = queue.last().expect("ten requests").latency_ns;
        assert!(last >= 155_000_000, "{last}");
        let pool = ask(
            &lab,
            "{\"connections\":10,\"requests\":1,\"every\":\"5ms\"}",
        );
        assert!(latency(&pool) < 60 * MS);
    });
}

#[test]
fn a_dead_connection_is_replaced_once() {
    live("a_dead_connection_is_replaced_once")
        .share(SHARE)
        .run(|| {
            let Some(lab) = up_with("reading.idle = \"100ms\"") else {
                return;
            };
            let asked = ask(&lab, "{\"requests\":3,\"pause\":\"250ms\"}");
            assert_eq!(asked.len(), 3);
            assert!(latency(&asked) < 50 * MS);
        });
}

#[test]
fn a_response_that_is_cut_short_is_a_failure() {
    let Some(lab) = up_with("response.framing = \"too-long\"") else {
        return;
    };
    let asked = ask(&lab, "{\"requests\":2}");
    assert_eq!(
        asked.iter().map(|one| one.ok).collect::<Vec<_>>(),
        [false; 2]
    );
}
