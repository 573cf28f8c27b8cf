//! Causes that only the server's own kernel can tell apart, on the lab's real
//! servers: to packets all of them are a server that thinks.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::lab::{Lab, measured};
use super::program::{findings, has_root, has_tool, lagtrace, program, run};

/// A scenario's service under load, and what watching its server shows of it.
fn watched(test: &str, scenario: &str, load: &[&str], judge: impl Fn(&Value)) {
    let Some(lab) = Lab::up(test, scenario) else {
        return;
    };
    measured(|| {
        let url = "http://10.77.0.2:8080/";
        let mut command = lab.command(&["load", url, "-d", "5s", "-q"]);
        let mut load = command.args(load).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(1));
        let report = lagtrace(["watch", "-p", "8080", "-d", "3s", "--format", "json"]);
        load.wait().unwrap();
        judge(&report.json());
    });
}

/// The first finding, which is proven by packets and the kernel's trace.
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
    watched(TEST, "cpu-quota", &load, |report| {
        let shown = proven(report, "cpu-quota");
        assert!(shown.contains("used up its quota"), "{shown}");
        assert!(report["watch"]["throttling"]["periods"].as_u64() > Some(5));
        // Each request is found, also right after an acknowledgement.
        let [count, cut] = ["count", "cut"].map(|which| report["exchanges"][which].as_u64());
        assert!(count > Some(20) && cut < Some(5), "{count:?}, {cut:?}");
    });
}

/// In a mount namespace of its own, where the kernel's types are out of sight.
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
    assert!(
        run.stderr.contains("does not describe its types"),
        "{run:#?}"
    );
    assert!(run.stderr.contains("5.11"), "{run:#?}");
}
