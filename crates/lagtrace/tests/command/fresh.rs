//! New recordings of a fixed set of scenarios, with a fixed seed. They show whether diagnoses are
//! also correct outside the corpus. For a fault, the right cause must come first at both ends. For
//! a healthy service, no false cause may be more than possible. `./figures fresh` does this for all
//! scenarios.

use lagtrace_trial::live;
use serde_json::Value;

use super::lab::STANDSTILL;
use super::program::{has_root, has_tool, lagtrace_lab};

/// The seed of each recording's distance, port, size and random events.
const SEED: &str = "11";

/// Makes a new recording of the scenario, and checks its diagnosis at both ends.
fn is_scored_rightly(test: &str, scenario: &str) {
    let tools = ["nginx", "ip", "tcpdump", "tshark", "curl"];
    if !has_root(test) || !tools.iter().all(|tool| has_tool(test, tool)) {
        return;
    }
    // The share is small because the rule for servers that stand still needs only three standstills
    // of 20 ms, in a recording of one or two seconds.
    live(test)
        .busy()
        .standstill(STANDSTILL)
        .share(0.02)
        .run(|| {
            let score = ["score", "--fresh", "--format", "json", "-q"];
            let what = ["--seed", SEED, "--scenarios", scenario];
            let run = lagtrace_lab(score.iter().chain(&what));
            assert!(matches!(run.code, Some(0 | 1)), "{run:#?}");
            let score = run.json();
            for none in ["refused", "redrawn"] {
                assert_eq!(score[none], Value::Null, "seed {SEED}: {score:#}");
            }
            let cases = score["cases"].as_array().unwrap();
            assert_eq!(cases.len(), 2, "seed {SEED}: {score:#}");
            for case in cases {
                let is_right = match case["kind"].as_str() {
                    Some("known") => case["verdict"] == "right",
                    _ => accused_of(case).is_empty(),
                };
                assert!(is_right, "seed {SEED}: {case:#}");
            }
        });
}

/// Returns the false causes that were reported with a verdict other than possible.
fn accused_of(case: &Value) -> Vec<&Value> {
    let found = case["found"].as_array().unwrap().iter();
    let sure = found.filter(|one| one["sureness"] != "possible");
    let accused = case["accused"].as_array().unwrap();
    sure.map(|one| &one["cause"])
        .filter(|cause| accused.contains(cause))
        .collect()
}

/// A fault of the server: Nagle's algorithm.
#[test]
fn the_case() {
    is_scored_rightly("fresh::the_case", "nagle-delayed-ack");
}

/// A fault of the server: it pauses within its response.
#[test]
fn a_server_that_pauses() {
    is_scored_rightly("fresh::a_server_that_pauses", "server-pause");
}

/// A fault of the server: a slow command of the Redis protocol.
#[test]
fn a_slow_command_of_redis() {
    is_scored_rightly("fresh::a_slow_command_of_redis", "server-think-redis");
}

/// A fault of the path: its low rate.
#[test]
fn a_narrow_path() {
    is_scored_rightly("fresh::a_narrow_path", "bandwidth-limit");
}

/// A fault of the path: its low rate, which several transfers share.
#[test]
fn a_narrow_path_that_is_shared() {
    is_scored_rightly(
        "fresh::a_narrow_path_that_is_shared",
        "bandwidth-limit-shared",
    );
}

/// A fault of the path before the first request: lost SYNs.
#[test]
fn a_port_that_loses_first_syns() {
    is_scored_rightly("fresh::a_port_that_loses_first_syns", "syn-loss");
}

/// A fault of the resolver.
#[test]
fn a_slow_resolver() {
    is_scored_rightly("fresh::a_slow_resolver", "dns-slow-resolver");
}

/// A fault in HTTP/2: the client's flow-control window.
#[test]
fn windows_of_http2() {
    is_scored_rightly("fresh::windows_of_http2", "http2-flow-control");
}

/// A healthy proxy.
#[test]
fn a_healthy_proxy() {
    is_scored_rightly("fresh::a_healthy_proxy", "healthy-haproxy");
}

/// A healthy PostgreSQL server.
#[test]
fn a_healthy_database() {
    is_scored_rightly("fresh::a_healthy_database", "healthy-postgres");
}

/// A healthy server with long responses.
#[test]
fn healthy_long_responses() {
    is_scored_rightly("fresh::healthy_long_responses", "healthy-large-response");
}
