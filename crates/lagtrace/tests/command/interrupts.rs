//! Ctrl-C in every phase: what was measured is reported, nothing is left.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use super::program::{Run, during};
use super::server::{OK, Server};

fn interrupt(process: u32) {
    let status = Command::new("kill")
        .args(["-INT", &process.to_string()])
        .status();
    assert!(status.unwrap().success());
}

/// Interrupts a diagnosis after a while.
fn interrupted_after(millis: u64) -> Run {
    let server = Server::start(OK);
    let url = server.url();
    let load = ["-c", "2", "-d", "3s", "--rate", "100", "--format", "json"];
    during(["diagnose", &url].iter().chain(&load), |process| {
        sleep(Duration::from_millis(millis));
        interrupt(process);
    })
}

#[test]
fn the_report_holds_what_was_measured() {
    // In the first part of the load, in its observed part, and behind it.
    for millis in [1_000, 2_900, 4_200] {
        let run = interrupted_after(millis);
        assert!(run.took < Duration::from_secs(9), "{run:#?}");
        assert!(matches!(run.code, Some(0 | 1)), "{millis}: {run:#?}");
        let report = run.json();
        assert!(
            report["exchanges"]["count"].as_u64().unwrap() > 0,
            "{millis}"
        );
    }
}

#[test]
fn before_anything_was_measured_it_ends_with_130() {
    // Nothing answers at this address (RFC 5737), so the probe waits.
    let run = during(["diagnose", "http://192.0.2.1/", "-d", "1s"], |process| {
        sleep(Duration::from_millis(300));
        interrupt(process);
    });
    assert!(matches!(run.code, Some(130 | 1)), "{run:#?}");
    assert!(run.took < Duration::from_secs(5), "{run:#?}");
}

#[test]
fn a_silent_pipe_can_be_left() {
    let mut child = Command::new(super::program::program())
        .args(["analyze", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // `wait` closes the pipe, so this end of it is held until then.
    let writer = child.stdin.take();
    sleep(Duration::from_millis(300));
    interrupt(child.id());
    let code = child.wait().unwrap().code();
    drop(writer);
    assert!(matches!(code, Some(130 | 2)), "{code:?}");
}
