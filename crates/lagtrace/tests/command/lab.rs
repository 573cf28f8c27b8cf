//! The lab through the command, start to end.

use std::time::Duration;

use serde_json::Value;

use super::program::{Run, has_root, has_tool, lagtrace};

/// Runs a scenario of the lab; `None` where that is not possible here.
fn lab_run(test: &str, arguments: &[&str]) -> Option<Run> {
    if !has_root(test) || !has_tool(test, "nginx") || !has_tool(test, "ip") {
        return None;
    }
    let all = ["lab", "run", "--format", "json"];
    Some(lagtrace(all.iter().chain(arguments)))
}

/// Every service of the run was diagnosed as is true.
#[track_caller]
fn expect_truth(run: &Run) -> Vec<Value> {
    assert_eq!(run.code, Some(0), "{run:#?}");
    let services = run.json().as_array().unwrap().clone();
    for service in &services {
        assert_eq!(service["misses"], serde_json::json!([]), "{service:#}");
    }
    services
}

#[test]
fn the_case_is_solved() {
    let load = ["nagle-delayed-ack", "--", "-d", "3s", "-c", "20"];
    if let Some(run) = lab_run("the_case_is_solved", &load) {
        let services = expect_truth(&run);
        assert_eq!(services.len(), 2);
        let case = services.iter().find(|s| s["service"] == "latency").unwrap();
        let finding = &case["report"]["findings"][0];
        assert_eq!(finding["cause"], "nagle-delayed-ack");
        assert_eq!(finding["culprit"], "server");
        assert_eq!(finding["verdict"], "proven");
    }
}

#[test]
fn the_case_is_solved_without_rights() {
    let load = [
        "nagle-delayed-ack",
        "--unprivileged",
        "--",
        "-d",
        "3s",
        "-c",
        "20",
    ];
    if let Some(run) = lab_run("the_case_is_solved_without_rights", &load) {
        let services = expect_truth(&run);
        let case = services.iter().find(|s| s["service"] == "latency").unwrap();
        assert_eq!(case["report"]["findings"][0]["verdict"], "proven");
    }
}

#[test]
fn a_filtered_target_is_called_so_within_ten_seconds() {
    const TEST: &str = "a_filtered_target_is_called_so_within_ten_seconds";
    if !has_tool(TEST, "nft") {
        return;
    }
    if let Some(run) = lab_run(TEST, &["firewall-drop"]) {
        expect_truth(&run);
        // Bringing the lab up and down is in it.
        assert!(run.took < Duration::from_secs(14), "{:?}", run.took);
    }
}

#[test]
fn labs_are_listed_and_shown() {
    let list = lagtrace(["lab", "list"]).expect(0);
    assert!(list.stdout.contains("nagle-delayed-ack"), "{list:#?}");
    let shown = lagtrace(["lab", "show", "nagle-delayed-ack"]).expect(0);
    assert!(shown.stdout.contains("latency on port 8080"), "{shown:#?}");
}

/// The case at each distance: named first, proven, the server's; and its
/// healthy twin stays without a finding.
#[test]
fn the_case_is_solved_at_every_distance() {
    for rtt in ["8", "50"] {
        let load = [
            "nagle-delayed-ack",
            "--rtt",
            rtt,
            "--",
            "-d",
            "3s",
            "-c",
            "20",
        ];
        let Some(run) = lab_run("the_case_is_solved_at_every_distance", &load) else {
            return;
        };
        let services = expect_truth(&run);
        let case = services.iter().find(|s| s["service"] == "latency").unwrap();
        let finding = &case["report"]["findings"][0];
        assert_eq!(
            finding["cause"], "nagle-delayed-ack",
            "{rtt} ms: {finding:#}"
        );
        assert_eq!(finding["culprit"], "server", "{rtt} ms");
        assert_eq!(finding["verdict"], "proven", "{rtt} ms");
        let good = services.iter().find(|s| s["service"] == "good").unwrap();
        assert_eq!(
            good["report"]["findings"],
            serde_json::json!([]),
            "{rtt} ms"
        );
    }
}

#[test]
fn a_healthy_server_stays_without_a_finding_time_after_time() {
    for _ in 0..5 {
        let load = [
            "nagle-delayed-ack",
            "--service",
            "good",
            "--rtt",
            "8",
            "--",
            "-d",
            "2s",
        ];
        let Some(run) = lab_run("a_healthy_server_stays_without_a_finding", &load) else {
            return;
        };
        let services = expect_truth(&run);
        assert_eq!(services[0]["report"]["findings"], serde_json::json!([]));
    }
}

/// Decoys, faults and look-alikes: what is true of each is found, and nothing else.
#[test]
fn every_scenario_is_diagnosed_rightly() {
    // These have tests of their own.
    const ELSEWHERE: [&str; 2] = ["nagle-delayed-ack", "firewall-drop"];
    let mut wrong = Vec::new();
    for scenario in lagtrace_lab::Scenario::all().expect("the scenarios are well-formed") {
        let name = scenario.name.as_str();
        if ELSEWHERE.contains(&name) {
            continue;
        }
        // Where timers of seconds expire, a short run sees too few of them.
        let duration = if name == "case-on-lossy-path" {
            "10s"
        } else {
            "3s"
        };
        let arguments = [name, "--", "-d", duration];
        let Some(run) = lab_run("every_scenario_is_diagnosed_rightly", &arguments) else {
            return;
        };
        for service in run.json().as_array().unwrap() {
            if service["misses"] != serde_json::json!([]) {
                let misses = &service["misses"];
                wrong.push(format!("{name}, {}: {misses}", service["service"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
