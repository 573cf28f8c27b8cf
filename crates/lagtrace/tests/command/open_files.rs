//! Limits of open files and of processes that leave too little room.

use std::process::Command;

use lagtrace_trial::{free_port, seed};
use serde_json::Value;

use super::draw::Draw;
use super::privileges::copy_for_all;
use super::program::{Run, has_root, has_tool, notes, program, run};
use super::server::{OK, Server};

/// Runs the program with a limit that `ulimit` sets by these words.
fn limited(limit: &str, arguments: &[&str]) -> Run {
    let script = format!("ulimit {limit} && exec \"$0\" \"$@\"");
    let mut shell = Command::new("bash");
    run(shell.arg("-c").arg(script).arg(program()).args(arguments))
}

/// Watches a port without requests, with at most this many open files.
fn watched(limit: &str) -> Run {
    let port = free_port().to_string();
    let watch = ["watch", "-p", &port, "-d", "300ms", "-q"];
    limited(limit, &[&watch[..], &["--format", "json"]].concat())
}

/// Either the watch is whole, or it says that the limit was reached and what to do.
#[test]
fn a_watch_that_the_limit_of_open_files_does_not_allow_says_so() {
    const TEST: &str = "a_watch_that_the_limit_of_open_files_does_not_allow_says_so";
    if !has_root(TEST) {
        return;
    }
    let mut draw = Draw::new(seed(), TEST);
    let ranges = [[4, 6], [7, 18], [19, 40], [41, 80], [81, 120], [121, 200]];
    let drawn = ranges.map(|[least, most]| draw.from(least, most));
    // Some kernels do not offer all programs.
    let whole = watched("-Sn 4096").expect(0).json();
    for limit in drawn.into_iter().chain([6, 22, 32]) {
        let run = watched(&format!("-n {limit}"));
        if run.code == Some(0) {
            assert!(limit > 80, "{limit}: {run:#?}");
            assert_eq!(notes(&run.json()), notes(&whole), "{limit}");
            continue;
        }
        let run = run.expect(2);
        let reason = format!("limit of open files is {limit},");
        assert!(run.stderr.starts_with("error: "), "{run:#?}");
        assert!(run.stderr.contains(&reason), "{run:#?}");
        assert!(run.stderr.contains("\nhint: raise the limit: ulimit -n"));
    }
}

#[test]
fn a_limit_that_may_be_raised_is_raised() {
    const TEST: &str = "a_limit_that_may_be_raised_is_raised";
    if !has_root(TEST) {
        return;
    }
    let limit = Draw::new(seed(), TEST).from(5, 64);
    let report = watched(&format!("-Sn {limit}")).expect(0).json();
    let whole = watched("-Sn 4096").expect(0).json();
    assert_eq!(notes(&report), notes(&whole), "{limit}");
}

#[test]
fn a_diagnosis_goes_on_without_what_the_limit_of_open_files_does_not_allow() {
    const TEST: &str = "a_diagnosis_goes_on_without_what_the_limit_of_open_files_does_not_allow";
    if !has_root(TEST) {
        return;
    }
    let server = Server::start(OK);
    let diagnose = [
        "diagnose",
        &server.url(),
        "-c",
        "2",
        "-d",
        "1s",
        "--rate",
        "100",
    ];
    // The load has a limit of its own.
    let run = limited("-n 84", &[&diagnose[..], &["--format", "json"]].concat());
    let report = run.expect(0).json();
    let notes = report["notes"].as_array().unwrap().iter();
    let is_watch = |note: &&Value| note["id"] == "not-measured-watch";
    let texts: Vec<String> = notes
        .filter(is_watch)
        .map(|it| it["text"].to_string())
        .collect();
    assert!(
        texts.concat().contains("limit of open files is 84"),
        "{report:#}"
    );
    assert!(texts.concat().contains("ulimit -n"), "{texts:?}");
}

/// The user has no other process, so that the limit is reached when the privileged process begins a
/// thread.
#[test]
fn a_privileged_process_that_cannot_begin_says_so() {
    const TEST: &str = "a_privileged_process_that_cannot_begin_says_so";
    if !has_root(TEST) || !has_tool(TEST, "setpriv") {
        return;
    }
    let folder = copy_for_all();
    let user = Draw::new(seed(), TEST)
        .from(100_000, 1_000_000_000)
        .to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &user, "--regid", &user, "--clear-groups"]);
    command.args(["bash", "-c", "ulimit -u 2 && exec \"$0\" analyze -"]);
    let run = run(command.arg(folder.path().join("lagtrace"))).expect(2);
    assert!(
        run.stderr.contains("starting the privileged process"),
        "{run:#?}"
    );
    assert!(run.stderr.contains("\nhint: "), "{run:#?}");
}
