//! Live captures.

use std::io::{BufRead as _, Write as _};
use std::process::{Command, Stdio};

use super::program::{has_root, has_tool, lagtrace, program, run};
use super::server::{OK, Server};

#[test]
fn live_packets_go_to_a_file_that_can_be_analysed() {
    if !has_root("live_packets_go_to_a_file_that_can_be_analysed") {
        return;
    }
    let server = Server::start(OK);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kept.pcap");
    let file = file.to_str().unwrap();
    let url = server.url();
    let load = ["-c", "2", "-d", "1s", "--rate", "50", "-w", file];
    lagtrace(["diagnose", &url, "-q"].iter().chain(&load)).expect(0);
    let report = lagtrace(["analyze", file, "--format", "json"])
        .expect(0)
        .json();
    assert!(
        report["exchanges"]["count"].as_u64().unwrap() > 5,
        "{report:#}"
    );
}

#[test]
fn a_full_disk_is_named_and_ends_with_2() {
    if !has_root("a_full_disk_is_named_and_ends_with_2") {
        return;
    }
    let server = Server::start(OK);
    let url = server.url();
    let mut capture = Command::new(program())
        .args(["capture", "-i", "lo", "-w", "/dev/full", "-d", "2s", "tcp"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    lagtrace([
        "diagnose",
        &url,
        "-q",
        "-c",
        "2",
        "-d",
        "1s",
        "--no-capture",
    ])
    .expect(0);
    capture.wait().unwrap();
    let output = capture.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("error: ") && said.contains("No space left"),
        "{said}"
    );
}

#[test]
fn a_full_disk_leaves_the_diagnosis_whole() {
    if !has_root("a_full_disk_leaves_the_diagnosis_whole") {
        return;
    }
    let server = Server::start(OK);
    let url = server.url();
    let load = ["-c", "2", "-d", "1s", "-w", "/dev/full", "--format", "json"];
    let run = lagtrace(["diagnose", &url].iter().chain(&load)).expect(0);
    assert!(run.stdout.contains("packets-not-kept"), "{run:#?}");
    std::io::stderr().flush().unwrap();
}

#[test]
fn interfaces_and_filters_that_are_none() {
    if !has_root("interfaces_and_filters_that_are_none") {
        return;
    }
    for arguments in [
        &["capture", "-i", "no-such-if", "-d", "1s"][..],
        &["capture", "-i", "lo", "-d", "1s", "tcp", "prot", "80"],
    ] {
        let run = run(Command::new(program()).args(arguments)).expect(2);
        assert!(
            run.stderr.contains("error: ") && run.stderr.contains("hint: "),
            "{run:#?}"
        );
    }
}

#[test]
fn a_capture_that_tcpdump_is_writing_is_reported_when_both_are_interrupted() {
    const TEST: &str = "a_capture_that_tcpdump_is_writing_is_reported_when_both_are_interrupted";
    if !has_root(TEST) || !has_tool(TEST, "tcpdump") {
        return;
    }
    let server = Server::start(OK);
    let url = server.url();
    let port = url.trim_end_matches("/page").rsplit(':').next().unwrap();
    let mut tcpdump = Command::new("tcpdump")
        .args([
            "-i",
            "lo",
            "-U",
            "--immediate-mode",
            "-w",
            "-",
            "tcp",
            "port",
            port,
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pipe = tcpdump.stdout.take().unwrap();
    let analyze = Command::new(program())
        .args(["analyze", "-", "--format", "json", "-q"])
        .stdin(Stdio::from(pipe))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // tcpdump says so when it has begun to listen.
    let mut said = std::io::BufReader::new(tcpdump.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("listening on") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "tcpdump ended");
    }
    let load = ["-c", "2", "-d", "1s", "--rate", "50", "--no-capture"];
    lagtrace(["diagnose", &url, "-q"].iter().chain(&load)).expect(0);
    // Ctrl-C in a terminal sends the signal to both programs at once.
    let ids = [tcpdump.id().to_string(), analyze.id().to_string()];
    assert!(
        Command::new("kill")
            .arg("-INT")
            .args(ids)
            .status()
            .unwrap()
            .success()
    );
    let output = analyze.wait_with_output().unwrap();
    tcpdump.wait().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(
        report["exchanges"]["count"].as_u64().unwrap() > 20,
        "{report:#}"
    );
}
