//! Causes that only the server's own kernel can distinguish, on the lab's real servers. Packets
//! show only a server that is slow before its response.

use std::process::Command;

use serde_json::Value;

use super::lab::{Lab, Load, until, verdict};
use super::program::{findings, has_root, has_tool, lagtrace, program, run};
use super::streamed::Streamed;

/// Passes to `judge` the report of watching a scenario's server under load for two seconds.
fn watched(test: &str, scenario: &str, load: &[&str], judge: impl FnOnce(&Value)) {
    watched_for(test, scenario, load, "2s", judge);
}

fn watched_for(
    test: &str,
    scenario: &str,
    load: &[&str],
    duration: &str,
    judge: impl FnOnce(&Value),
) {
    verdict(test).run(|| {
        if let Some(lab) = Lab::up(test, scenario) {
            judge(&watch_for(&lab, "8080", load, duration));
        }
    });
}

/// Watches a service's namespace for two seconds under load, and returns the report.
fn watch_under_load(lab: &Lab, port: &str, load: &[&str]) -> Value {
    watch_for(lab, port, load, "2s")
}

fn watch_for(lab: &Lab, port: &str, load: &[&str], duration: &str) -> Value {
    let _load = Load::begin(lab, port, load);
    let server = lab.namespace("server");
    let watched = ["watch", "-p", port, "--netns", &server, "-d", duration];
    lagtrace(watched.iter().chain(&["--format", "json"])).json()
}

/// Checks that the first finding is this cause, proven, and returns its evidence from the kernel.
#[track_caller]
fn proven(report: &Value, cause: &str) -> String {
    assert_eq!(findings(report)[0], cause, "{report:#}");
    let finding = &report["findings"][0];
    assert_eq!(finding["verdict"], "proven", "{finding:#}");
    let evidence = finding["evidence"].as_array().unwrap();
    let traced = evidence
        .iter()
        .find(|piece| piece["kind"] == "kernel-trace");
    traced.unwrap()["text"].as_str().unwrap().to_owned()
}

#[test]
fn requests_that_nobody_reads_are_told_from_work() {
    const TEST: &str = "requests_that_nobody_reads_are_told_from_work";
    watched(TEST, "socket-queue-dwell", &["-c", "4"], |report| {
        let shown = proven(report, "socket-queue-dwell");
        assert!(shown.contains("in the sockets' queues"), "{shown}");
    });
}

#[test]
fn whom_a_proxy_waits_for_is_named() {
    const TEST: &str = "whom_a_proxy_waits_for_is_named";
    watched(TEST, "downstream-wait-proxy", &["-c", "1"], |report| {
        let shown = proven(report, "downstream-wait");
        assert!(shown.contains("127.0.0.1:9001"), "{shown}");
    });
}

#[test]
fn a_quota_that_is_used_up_is_told_from_work() {
    const TEST: &str = "a_quota_that_is_used_up_is_told_from_work";
    let load = ["-c", "2", "-H", "Accept-Encoding: gzip"];
    watched_for(TEST, "cpu-quota", &load, "3s", |report| {
        let shown = proven(report, "cpu-quota");
        assert!(shown.contains("used up its quota"), "{shown}");
        assert!(report["watch"]["throttling"]["periods"].as_u64() > Some(5));
        // The server's threads wait for the quota's next period, so this is not a stop of the whole
        // program.
        assert!(!findings(report).contains(&"stop-the-world"), "{report:#}");
        // Every request is found, including those that directly follow a bare ACK.
        let [count, cut] = ["count", "cut"].map(|which| report["exchanges"][which].as_u64());
        assert!(count > Some(20) && cut < Some(5), "{count:?}, {cut:?}");
    });
}

/// Returns the number of bytes in the queue of the server's device.
fn backlog(lab: &Lab) -> u64 {
    let namespace = lab.namespace("server");
    let mut tc = Command::new("tc");
    tc.args([
        "-json", "-n", &namespace, "-s", "qdisc", "show", "dev", "path0",
    ]);
    let said: Value = serde_json::from_str(&run(&mut tc).expect(0).stdout).unwrap();
    said[0]["backlog"].as_u64().unwrap()
}

/// Four downloads that fill the queue of the server's own device.
#[test]
fn answers_in_the_queue_of_the_servers_device_are_told_from_work() {
    const TEST: &str = "answers_in_the_queue_of_the_servers_device_are_told_from_work";
    verdict(TEST).run(|| {
        let Some(lab) = Lab::up(TEST, "qdisc-dwell") else {
            return;
        };
        let bulk = Load::begin(&lab, "8081", &["-c", "4"]);
        until("the queue stands", || backlog(&lab) > 10_000);
        let report = watch_under_load(&lab, "8080", &["-c", "2"]);
        drop(bulk);
        let shown = proven(&report, "qdisc-dwell");
        assert!(shown.contains("the device's driver"), "{shown}");
        until("the queue is gone", || backlog(&lab) == 0);
        // Alone in the queue, a response does not wait for packets before it.
        let report = watch_under_load(&lab, "8080", &["-c", "1", "--rate", "20"]);
        let causes = findings(&report);
        assert!(!causes.contains(&"qdisc-dwell"), "{report:#}");
        let watched = &report["watch"]["services"][0];
        assert!(watched["turns"].as_u64() > Some(0), "{report:#}");
        a_download_waits_only_behind_itself(&lab);
    });
}

fn a_download_waits_only_behind_itself(lab: &Lab) {
    let server = lab.namespace("server");
    let watch = ["watch", "-p", "8081", "--netns", &server, "-d", "60s"];
    let mut watching = Streamed::start(watch.iter().chain(&["--format", "ndjson"]));
    // The download takes four seconds.
    let _load = Load::begin(lab, "8081", &["-c", "1", "--timeout", "20s"]);
    let is_whole = |line: &str| line.contains(r#""status":200"#);
    watching.until(|line| line.contains(r#""type":"exchange""#) && is_whole(line));
    watching.interrupt();
    let lines = watching.end().stdout;
    assert!(!lines.contains("qdisc-dwell"), "{lines}");
}

/// Uploads for which the socket has no memory. If the receive buffers were small from the
/// beginning, the same uploads are limited by the receive window instead, and no packet is dropped.
#[test]
fn what_a_socket_has_no_memory_for_is_told_from_a_closed_window() {
    const TEST: &str = "what_a_socket_has_no_memory_for_is_told_from_a_closed_window";
    verdict(TEST).run(|| {
        if let Some(lab) = Lab::up(TEST, "socket-memory-pressure") {
            no_memory_is_told_from_a_closed_window(&lab);
        }
    });
}

fn no_memory_is_told_from_a_closed_window(lab: &Lab) {
    let body = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&body, vec![b'x'; 60_000]).unwrap();
    let body = body.path().to_str().unwrap();
    let upload = ["-c", "2", "--fresh", "-X", "POST", "--yes", "--body", body];
    let report = watch_under_load(lab, "8080", &upload);
    let shown = proven(&report, "socket-memory-pressure");
    assert!(
        shown.contains("because their sockets had no memory"),
        "{shown}"
    );
    let drops = report["watch"]["drops"].as_array().unwrap();
    assert!(
        drops.iter().any(|drop| drop["reason"] == "PROTO_MEM"),
        "{drops:?}"
    );
    let report = watch_under_load(lab, "8081", &upload);
    let causes = findings(&report);
    assert!(!causes.contains(&"socket-memory-pressure"), "{report:#}");
    let watched = &report["watch"]["services"][0];
    assert!(watched["turns"].as_u64() > Some(0), "{report:#}");
}

/// All processes of nginx are stopped from time to time.
#[test]
fn a_server_that_is_stopped_is_told_from_one_that_works() {
    const TEST: &str = "a_server_that_is_stopped_is_told_from_one_that_works";
    let load = ["-c", "6", "--rate", "150"];
    // The rule needs three stops, and there is at most one in 800 ms.
    watched_for(TEST, "stop-the-world-nginx", &load, "5s", |report| {
        let shown = proven(report, "stop-the-world");
        assert!(shown.contains("stay unread"), "{shown}");
    });
}

#[test]
fn equal_addresses_in_two_namespaces_are_told_apart() {
    const TEST: &str = "equal_addresses_in_two_namespaces_are_told_apart";
    verdict(TEST).run(|| {
        let Some(lab) = Lab::up(TEST, "socket-queue-dwell") else {
            return;
        };
        let Some(other) = Lab::up(TEST, "nagle-delayed-ack") else {
            return;
        };
        let _load = Load::begin(&other, "8080", &["-c", "4"]);
        let report = watch_under_load(&lab, "8080", &["-c", "4"]);
        let services = report["watch"]["services"].as_array().unwrap();
        assert_eq!(services.len(), 1, "{report:#}");
        let programs = services[0]["programs"].as_array().unwrap();
        assert_eq!(programs.len(), 1, "{programs:?}");
        assert_eq!(findings(&report)[0], "socket-queue-dwell");
    });
    for place in ["no-such-place", "/dev/null", "4194305"] {
        let run = lagtrace(["watch", "-p", "8080", "--netns", place]).expect(2);
        assert!(run.stderr.contains("hint"), "{run:#?}");
    }
}

/// The keeper opens the namespace of another process, by its PID or by its file.
#[test]
fn the_namespace_of_a_process_is_named_in_two_ways() {
    if !has_root("the_namespace_of_a_process_is_named_in_two_ways") {
        return;
    }
    let mut process = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = process.id();
    for place in [pid.to_string(), format!("/proc/{pid}/ns/net")] {
        let watch = ["watch", "-p", "8080", "-d", "1s", "--netns", &place];
        let run = lagtrace(watch);
        assert_eq!(run.code, Some(0), "{place}: {run:#?}");
    }
    process.kill().unwrap();
    process.wait().unwrap();
}

/// A kernel without BTF, which a mount namespace simulates by hiding the file.
#[test]
fn a_kernel_that_does_not_describe_its_types_is_said() {
    const TEST: &str = "a_kernel_that_does_not_describe_its_types_is_said";
    if !has_root(TEST) || !has_tool(TEST, "unshare") {
        return;
    }
    let hidden = "mount -t tmpfs none /sys/kernel/btf && exec \"$0\" watch -p 80 -d 1s";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", hidden]).arg(program());
    let run = run(&mut command).expect(2);
    assert!(run.stderr.contains("has no type information"), "{run:#?}");
    assert!(run.stderr.contains("5.11"), "{run:#?}");
}
