//! `diagnose` on a fixed set of scenarios: one for each owner, each kind of path and each kind of
//! evidence, and what only looks like a fault. Most scenarios are scored from recordings.

use super::lab::{expect_truth, lab_run, verdict};

/// Checks that what is true of a service of the scenario is found, and nothing else.
fn is_diagnosed(test: &str, scenario: &str, service: &str, load: &[&str]) {
    verdict(test).run(|| {
        let chosen = [scenario, "--service", service, "--"];
        if let Some(run) = lab_run(test, &[&chosen[..], load].concat()) {
            let services = expect_truth(&run);
            assert_eq!(services.len(), 1);
        }
    });
}

/// A load of two seconds on twenty connections.
const SHORT: [&str; 4] = ["-d", "2s", "-c", "20"];

/// The server, by Nagle's algorithm, and no nginx: nobody's configuration names it.
#[test]
fn another_server_that_writes_apart() {
    let test = "diagnosed::another_server_that_writes_apart";
    is_diagnosed(test, "nagle-write-write-read", "write-write-read", &SHORT);
}

/// The server, before its answer.
#[test]
fn a_server_that_thinks() {
    is_diagnosed(
        "diagnosed::a_server_that_thinks",
        "server-think",
        "think-44",
        &SHORT,
    );
}

/// The server, within its answer.
#[test]
fn a_server_that_pauses() {
    is_diagnosed(
        "diagnosed::a_server_that_pauses",
        "server-pause",
        "pause-44",
        &SHORT,
    );
}

/// The path, by loss.
#[test]
fn a_path_that_loses_packets() {
    let load = ["-d", "3s", "-c", "20"];
    is_diagnosed(
        "diagnosed::a_path_that_loses_packets",
        "packet-loss",
        "good",
        &load,
    );
}

/// The path, by a queue that the load itself fills.
#[test]
fn a_queue_before_a_narrow_link() {
    let load = ["-d", "3s"];
    is_diagnosed(
        "diagnosed::a_queue_before_a_narrow_link",
        "path-queueing",
        "good",
        &load,
    );
}

/// Nobody answers at all.
#[test]
fn a_port_on_which_nobody_listens() {
    let test = "diagnosed::a_port_on_which_nobody_listens";
    is_diagnosed(test, "connection-refused", "closed", &[]);
}

/// The client, by its own load, which is recorded and analysed.
#[test]
fn a_client_that_reads_slowly() {
    let test = "diagnosed::a_client_that_reads_slowly";
    is_diagnosed(test, "receive-window", "small-window", &[]);
}

/// A healthy one: Nagle's algorithm is on, and has nothing to hold back.
#[test]
fn a_server_with_nagle_whose_answers_are_one_segment() {
    let test = "diagnosed::a_server_with_nagle_whose_answers_are_one_segment";
    let load = ["-d", "2s", "-c", "20", "--rate", "300"];
    is_diagnosed(test, "nodelay-off-one-segment", "one-segment", &load);
}
