//! New recordings of two scenarios that are drawn, with drawn parameters. They show whether diagnoses
//! are also correct outside the corpus. For a fault, the right cause must come first at both ends.
//! For a healthy service, no false cause may be more than possible. `LAGTRACE_SEED` is the seed of
//! everything; `./figures fresh` does this for all scenarios.

use lagtrace_trial::{live, seed};
use serde_json::Value;

use super::lab::STANDSTILL;
use super::program::{has_root, has_tool, lagtrace_lab};

/// Faults of servers, paths and a resolver, in several protocols.
const FAULTS: [&str; 8] = [
    "nagle-delayed-ack",
    "server-pause",
    "server-think-redis",
    "bandwidth-limit",
    "bandwidth-limit-shared",
    "syn-loss",
    "dns-slow-resolver",
    "http2-flow-control",
];

/// A healthy proxy, a database, and a server with long responses.
const HEALTHY: [&str; 3] = [
    "healthy-haproxy",
    "healthy-postgres",
    "healthy-large-response",
];

/// Makes a new recording of one of the scenarios, and checks its diagnosis at both ends.
fn is_scored_rightly(test: &str, scenarios: &[&str]) {
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
            let seed = seed();
            let scenario = scenarios[(seed % scenarios.len() as u64) as usize];
            let told = format!("LAGTRACE_SEED={seed}, {scenario}");
            let score = ["score", "--fresh", "--format", "json", "-q"];
            let seed = seed.to_string();
            let what = ["--seed", &seed, "--scenarios", scenario];
            let run = lagtrace_lab(score.iter().chain(&what));
            assert!(matches!(run.code, Some(0 | 1)), "{run:#?}");
            let score = run.json();
            for none in ["refused", "redrawn"] {
                assert_eq!(score[none], Value::Null, "{told}: {score:#}");
            }
            let cases = score["cases"].as_array().unwrap();
            // One end sees everything on loopback.
            let ends = if cases[0]["end"] == "loopback" { 1 } else { 2 };
            assert_eq!(cases.len(), ends, "{told}: {score:#}");
            for case in cases {
                let is_right = match case["kind"].as_str() {
                    Some("known") => case["verdict"] == "right",
                    _ => accused_of(case).is_empty(),
                };
                assert!(is_right, "{told}: {case:#}");
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

#[test]
fn a_fault_that_is_drawn() {
    is_scored_rightly("fresh::a_fault_that_is_drawn", &FAULTS);
}

#[test]
fn a_healthy_service_that_is_drawn() {
    is_scored_rightly("fresh::a_healthy_service_that_is_drawn", &HEALTHY);
}
