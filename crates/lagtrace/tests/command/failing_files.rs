//! File systems that fail, as those with quotas and those on a network do: when a file is written,
//! when it is closed, when it is to be stored, and when it is read.

use std::process::Command;

use lagtrace_trial::seed;

use super::files::corpus;
use super::program::{Run, has_root, has_tool, may_run, program, run};
use super::server::{OK, Server};

/// The program that makes the file system and runs a command in it.
const FILE_SYSTEM: &str = include_str!("failing_files.py");
/// The errors, and what the user reads of them.
const ERRORS: [(&str, &str); 4] = [
    ("EIO", "Input/output error"),
    ("EDQUOT", "Disk quota exceeded"),
    ("ENOSPC", "No space left on device"),
    ("ESTALE", "Stale file handle"),
];
/// The name of the capture in the folder, of which more is read than a file system yields that fails.
const CAPTURE: &str = "client.pcap.gz";

/// Returns an error, drawn for the test of this number.
fn drawn(number: usize) -> (&'static str, &'static str) {
    let drawn = seed().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ERRORS[(usize::try_from(drawn).unwrap() + number) % ERRORS.len()]
}

/// Runs a script of the shell in a file system that refuses an operation. The program is `$0`, and
/// the server of the test `$1`. The last line tells what the run has left.
fn in_failing_files(operation: &str, error: &str, script: &str, url: &str) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let capture = corpus::recording("nagle-delayed-ack-50ms", "client");
    let mut command = Command::new("unshare");
    command.args(["--mount", "python3", "-c", FILE_SYSTEM]);
    command.arg(folder.path()).args([operation, error]);
    command.arg(capture).args(["sh", "-c", script]);
    run(command.arg(program()).arg(url))
}

fn may_fail_files(test: &str) -> bool {
    let fuse = std::path::Path::new("/dev/fuse").exists();
    has_root(test)
        && may_run(test, "/dev/fuse", fuse)
        && has_tool(test, "unshare")
        && has_tool(test, "python3")
}

/// Runs a script with each of these operations refused: it must fail, and say what and where.
/// Returns what the last line says of the files.
#[track_caller]
fn refused(operations: &[&str], script: &str, named: &str, url: &str) -> Vec<String> {
    let tried = |(number, operation): (usize, &&str)| {
        let (error, text) = drawn(number + script.len());
        let run = in_failing_files(operation, error, script, url);
        let said = run.stderr.lines().find(|line| line.starts_with("error:"));
        let tells = said.is_some_and(|said| said.contains(text) && said.contains(named));
        assert!(tells, "{operation} {script}: {run:#?}");
        let left = run.stdout.lines().last().unwrap_or_default();
        let left = left.strip_prefix("code 2, ");
        left.unwrap_or_else(|| panic!("{operation} {script}: {run:#?}"))
            .to_owned()
    };
    operations.iter().enumerate().map(tried).collect()
}

/// Results appear when they are whole and stored: until then, the old ones stay.
#[test]
fn a_result_that_cannot_be_stored_is_an_error_and_leaves_the_old_one() {
    const TEST: &str = "a_result_that_cannot_be_stored_is_an_error_and_leaves_the_old_one";
    if !may_fail_files(TEST) {
        return;
    }
    for (arguments, named) in [
        ("-o out", "out"),
        ("--format json -o out", "out"),
        ("--format ndjson -o out", "out"),
        ("--exchanges --format ndjson -o out", "out"),
        ("--format perfetto -o out", "out"),
        ("-o /dev/null --html new.html", "new.html"),
        ("-o /dev/null --annotate out", "out"),
    ] {
        let script = format!("\"$0\" analyze {CAPTURE} -q {arguments}");
        let left = refused(&["write", "flush", "fsync"], &script, named, "");
        let old = format!("b'old', {CAPTURE} out");
        assert_eq!(left, [&*old, &*old, &*old], "{script}");
        // The file system is not at fault by itself.
        let whole = in_failing_files("none", "EIO", &script, "");
        let old = format!("code 1, {old}\n");
        assert!(whole.code == Some(0) && whole.stdout != old, "{whole:#?}");
    }
}

/// The shell has opened these: what was there before is gone.
#[test]
fn standard_output_that_cannot_be_written_is_an_error() {
    const TEST: &str = "standard_output_that_cannot_be_written_is_an_error";
    if !may_fail_files(TEST) {
        return;
    }
    let server = Server::start(OK);
    for command in [
        format!("analyze {CAPTURE} -q"),
        format!("analyze {CAPTURE} -q --format json"),
        format!("analyze {CAPTURE} -q --format ndjson"),
        format!("analyze {CAPTURE} -q --html -"),
        "probe $1 -c 1 -q --format ndjson".to_owned(),
        "man".to_owned(),
        "completions bash".to_owned(),
    ] {
        let script = format!("\"$0\" {command} >out");
        refused(
            &["write", "flush"],
            &script,
            "write",
            &server.address().to_string(),
        );
    }
}

/// Others can follow these while they grow.
#[test]
fn packets_and_lines_that_cannot_be_stored_are_an_error() {
    const TEST: &str = "packets_and_lines_that_cannot_be_stored_are_an_error";
    if !may_fail_files(TEST) {
        return;
    }
    for arguments in ["-d 300ms -w out", "-d 300ms -w out -s 64"] {
        let script = format!("\"$0\" capture -i lo -q {arguments}");
        refused(&["write", "flush", "fsync"], &script, "out", "");
    }
    let server = Server::start(OK);
    let address = server.address().to_string();
    let script = "\"$0\" probe $1 -c 1 -q --format ndjson -o out";
    refused(&["write", "flush", "fsync"], script, "out", &address);
}

/// A diagnosis says what its packets and its observations lack.
#[test]
fn a_diagnosis_tells_of_packets_that_cannot_be_stored() {
    const TEST: &str = "a_diagnosis_tells_of_packets_that_cannot_be_stored";
    if !may_fail_files(TEST) {
        return;
    }
    let server = Server::start(OK);
    let script = r#""$0" diagnose "$1" -c 1 -d 1s --rate 50 -q --format json -w out >/dev/fd/2"#;
    for (number, operation) in ["write", "flush", "fsync"].into_iter().enumerate() {
        let (error, text) = drawn(number);
        let run = in_failing_files(operation, error, script, &server.url());
        let report: serde_json::Value = serde_json::from_str(&run.stderr).unwrap();
        let notes = report["notes"].as_array().unwrap();
        let lost = notes.iter().find(|note| note["id"] == "packets-not-kept");
        let lost = lost.map_or("", |note| note["text"].as_str().unwrap());
        assert!(
            lost.contains(text) && lost.contains("out"),
            "{operation} {notes:#?}"
        );
    }
}

#[test]
fn an_input_whose_file_system_fails_is_read_as_far_as_possible() {
    const TEST: &str = "an_input_whose_file_system_fails_is_read_as_far_as_possible";
    if !may_fail_files(TEST) {
        return;
    }
    let (error, text) = drawn(0);
    let script = format!("\"$0\" analyze {CAPTURE} -q --format json >/dev/fd/2");
    let run = in_failing_files("read", error, &script, "");
    let report: serde_json::Value = serde_json::from_str(&run.stderr).unwrap();
    let capture = &report["capture"];
    assert!(capture["packets"].as_u64() > Some(0), "{capture:#}");
    let damage = capture["points"][0]["damage"].as_str().unwrap();
    assert!(damage.contains(text), "{damage}");
    // Half of a report is none.
    let script = format!(
        "\"$0\" analyze {CAPTURE} -q --format json -o out; \"$0\" compare out out; exit $?"
    );
    refused(&["read"], &script, "out", "");
}
