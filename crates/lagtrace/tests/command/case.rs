//! The case on the paths where a newcomer tries it first, loopback, and with jumbo frames, by
//! `diagnose`, `watch` and `analyze`. `./figures case` draws many more paths, servers, buffers and
//! loads.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::lab::{Lab, expect_the_case, expect_truth, lab_run, until, verdict};
use super::program::{findings, has_tool, lagtrace};

/// Asserts that `diagnose` proves the case, and finds nothing in its healthy twin. The test runs
/// alone, because the twin would be delayed by other tests on the same processors.
fn is_solved(test: &str, scenario: &str, load: &[&str]) {
    verdict(test).alone().run(|| {
        let Some(run) = lab_run(test, &[&[scenario, "--", "-d", "2s"][..], load].concat()) else {
            return;
        };
        let services = expect_truth(&run);
        expect_the_case(&services);
        let good = services
            .iter()
            .find(|one| one["service"] == "good")
            .unwrap();
        assert_eq!(findings(&good["report"]), Vec::<&str>::new(), "{good:#}");
    });
}

#[test]
fn diagnose_solves_it_on_loopback() {
    is_solved(
        "case::diagnose_solves_it_on_loopback",
        "nagle-delayed-ack-loopback",
        &["-c", "10", "--rate", "100"],
    );
}

#[test]
fn diagnose_solves_it_on_one_connection() {
    is_solved(
        "case::diagnose_solves_it_on_one_connection",
        "nagle-delayed-ack-loopback-ipv6",
        &["-c", "1"],
    );
}

#[test]
fn diagnose_solves_it_with_a_small_receive_buffer() {
    is_solved(
        "case::diagnose_solves_it_with_a_small_receive_buffer",
        "nagle-delayed-ack-loopback-small-buffer",
        &["-c", "20", "--rate", "200"],
    );
}

#[test]
fn diagnose_solves_it_with_jumbo_frames() {
    is_solved(
        "case::diagnose_solves_it_with_jumbo_frames",
        "nagle-delayed-ack-jumbo",
        &["-c", "10", "--rate", "100"],
    );
}

/// Asserts that a report of `watch` or `analyze` has the case as its first finding, with this
/// verdict. It must affect at least nine of ten requests, not counting one for each connection,
/// because the first response of a connection is not held.
fn names_the_case(report: &Value, sureness: &str, connections: u64) {
    let finding = &report["findings"][0];
    assert_eq!(finding["cause"], "nagle-delayed-ack", "{report:#}");
    assert_eq!(finding["culprit"], "server", "{finding:#}");
    assert_eq!(finding["verdict"], sureness, "{finding:#}");
    let count = |part: &str| finding["affected"][part].as_u64().unwrap();
    let kept = count("of").saturating_sub(connections);
    assert!(count("exchanges") * 10 >= kept * 9, "{finding:#}");
}

#[test]
fn watch_and_analyze_name_it_on_loopback() {
    const TEST: &str = "case::watch_and_analyze_name_it_on_loopback";
    const CONNECTIONS: u64 = 20;
    verdict(TEST).run(|| {
        if !has_tool(TEST, "wrk") || !has_tool(TEST, "tcpdump") {
            return;
        }
        let Some(lab) = Lab::up(TEST, "nagle-delayed-ack-loopback") else {
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        for (port, is_slow) in [("8080", true), ("80", false)] {
            let (watched, captured) = seen(&lab, port, CONNECTIONS, folder.path());
            if is_slow {
                names_the_case(&watched, "proven", CONNECTIONS);
                names_the_case(&captured, "strong", CONNECTIONS);
            } else {
                assert_eq!(findings(&watched), Vec::<&str>::new(), "{watched:#}");
                assert_eq!(findings(&captured), Vec::<&str>::new(), "{captured:#}");
            }
        }
    });
}

/// Runs `watch` and a capture during a load, and returns the reports of `watch` and of `analyze`.
fn seen(lab: &Lab, port: &str, connections: u64, folder: &Path) -> (Value, Value) {
    let on_host = |program: &str| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &lab.namespace("server"), program]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let file = folder.join(format!("{port}.pcap"));
    let mut capture = on_host("tcpdump");
    capture.args(["-i", "lo", "-s", "200", "-w"]).arg(&file);
    let mut capture = capture.arg(format!("tcp port {port}")).spawn().unwrap();
    until("the capture has begun", || file.exists());
    let url = format!("http://127.0.0.1:{port}/");
    let load = ["load", &url, "-c", &connections.to_string(), "-d", "4s"];
    let mut load = lab.command(&[&load[..], &["--rate", "400", "-q"]].concat());
    let mut load = load.stdout(Stdio::null()).spawn().unwrap();
    until("it is asked", || lab.connections(port) > 0);
    let server = lab.namespace("server");
    let watch = ["watch", "-p", port, "--netns", &server, "-d", "2s", "-q"];
    let watched = lagtrace(watch.iter().chain(&["--format", "json"]));
    load.wait().unwrap();
    let pid = capture.id().to_string();
    let ended = Command::new("kill").args(["-INT", &pid]).status();
    assert!(ended.unwrap().success());
    capture.wait().unwrap();
    let file = file.to_str().unwrap();
    let captured = lagtrace(["analyze", file, "--format", "json", "-q"]);
    (watched.json(), captured.json())
}
