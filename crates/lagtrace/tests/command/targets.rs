//! Healthy and faulty targets on this host. No privilege is needed.

use lagtrace_trial::RefusingPort;

use super::program::{Run, findings, lagtrace, notes};
use super::server::{Manner, OK, Server};

fn diagnose(url: &str) -> Run {
    let load = ["-c", "4", "-d", "1s", "--rate", "200"];
    let load = load.iter().chain(&["--timeout", "300ms"]);
    lagtrace(["diagnose", url, "--format", "json"].iter().chain(load))
}

/// Checks that the cause is the first finding for a server with this behaviour. On a busy machine
/// there may be further findings.
#[track_caller]
fn expect_cause(manner: Manner, cause: &str) -> Run {
    let server = Server::start(manner);
    let run = diagnose(&server.url()).expect(1);
    assert_eq!(findings(&run.json()).first(), Some(&cause), "{run:#?}");
    run
}

#[test]
fn a_healthy_server_has_no_finding() {
    let server = Server::start(OK);
    let run = diagnose(&server.url()).expect(0);
    let report = run.json();
    assert_eq!(findings(&report), Vec::<&str>::new());
    assert!(report["exchanges"]["count"].as_u64().unwrap() > 0);
    for step in [
        "resolve",
        "route",
        "round trip",
        "request",
        "load",
        "timers",
    ] {
        assert!(
            run.stderr.contains(&format!("\n{step} ")) || run.stderr.starts_with(step),
            "{step}"
        );
    }
}

#[test]
fn nobody_listening_is_said_at_once() {
    let refusing = RefusingPort::new();
    let run = diagnose(&format!("http://{}/", refusing.address())).expect(1);
    let report = run.json();
    assert_eq!(findings(&report), ["connection-refused"]);
    // There is no load on a target to which no connection is possible.
    assert_eq!(report["load"], serde_json::Value::Null);
}

#[test]
fn the_first_line_is_the_verdict_and_steps_go_to_standard_error() {
    let refusing = RefusingPort::new();
    let url = format!("http://{}/", refusing.address());
    let run = lagtrace(["diagnose", &url, "-d", "1s"]).expect(1);
    let verdict = "Strong evidence: No program listens on the port.\n";
    assert!(run.stdout.starts_with(verdict), "{run:#?}");
    assert!(run.stderr.contains("resolve  "), "{run:#?}");
    let wide = run.stderr.lines().find(|line| line.chars().count() > 100);
    assert_eq!(wide, None);
}

#[test]
fn a_server_that_closes_at_once() {
    expect_cause(Manner::ClosesAtOnce, "connection-closed");
}

#[test]
fn a_server_that_never_answers() {
    expect_cause(Manner::NeverAnswers, "no-response");
}

#[test]
fn a_server_that_answers_garbage() {
    expect_cause(Manner::Answers(b"\x00\x01garbage and no end"), "not-http");
}

#[test]
fn a_server_that_speaks_tls() {
    let alert = b"\x15\x03\x01\x00\x02\x02\x46";
    let run = expect_cause(Manner::Answers(alert), "not-http");
    assert!(notes(&run.json()).contains(&"tls-on-plain-port"));
}

#[test]
fn a_server_that_answers_with_errors() {
    let error = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
    expect_cause(Manner::Answers(error), "http-error");
}

#[test]
fn a_report_can_be_compared_with_itself_and_verified() {
    let server = Server::start(OK);
    let folder = tempfile::tempdir().unwrap();
    let before = folder.path().join("before.json");
    let before = before.to_str().unwrap();
    let load = ["-c", "2", "-d", "1s", "--rate", "100"];
    let arguments = ["diagnose", &server.url(), "--format", "json", "-o", before];
    lagtrace(arguments.iter().chain(&load)).expect(0);
    lagtrace(["compare", before, before]).expect(0);
    let arguments = [
        "diagnose",
        &server.url(),
        "--format",
        "json",
        "--verify",
        before,
    ];
    let verified = lagtrace(arguments.iter().chain(&load));
    let document = verified.json();
    assert!(
        document["comparison"]["outcome"].is_string(),
        "{verified:#?}"
    );
    assert!(document["report"]["exchanges"]["count"].as_u64().unwrap() > 0);
}
