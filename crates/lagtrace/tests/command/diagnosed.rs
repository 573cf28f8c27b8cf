//! Tests of `diagnose` on five scenarios: one for each owner and each kind of evidence, and one that
//! only looks like a fault. `./figures diagnosed` runs more of them; most scenarios are scored from
//! recordings.

use super::lab::{expect_truth, lab_run, verdict};

/// Checks that the truth of a service of the scenario is found, and no other cause.
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

/// A fault of the server: Nagle's algorithm, in a server other than nginx, so that no configuration
/// file explains it.
#[test]
fn another_server_that_writes_apart() {
    let test = "diagnosed::another_server_that_writes_apart";
    is_diagnosed(test, "nagle-write-write-read", "write-write-read", &SHORT);
}

/// A fault of the path: loss.
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

/// A port on which no program listens.
#[test]
fn a_port_on_which_nobody_listens() {
    let test = "diagnosed::a_port_on_which_nobody_listens";
    is_diagnosed(test, "connection-refused", "closed", &[]);
}

/// A fault of the client, which needs the scenario's own load. The load is recorded and analysed.
#[test]
fn a_client_that_reads_slowly() {
    let test = "diagnosed::a_client_that_reads_slowly";
    is_diagnosed(test, "receive-window", "small-window", &[]);
}

/// A healthy server: Nagle's algorithm is on, but each response fits into one segment, so there is
/// nothing to hold back.
#[test]
fn a_server_with_nagle_whose_answers_are_one_segment() {
    let test = "diagnosed::a_server_with_nagle_whose_answers_are_one_segment";
    let load = ["-d", "2s", "-c", "20", "--rate", "300"];
    is_diagnosed(test, "nodelay-off-one-segment", "one-segment", &load);
}
