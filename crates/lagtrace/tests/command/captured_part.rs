//! Loads of which the captured packets explain only a part.

use std::time::Duration;

use super::lab::verdict;
use super::program::{has_root, lagtrace};
use super::server::{Manner, Server};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
/// The delay of an answer.
const DELAY: Duration = Duration::from_millis(20);
/// Number of answers that are delayed: about half of those in the part of the load before packets
/// are captured.
const DELAYED: u64 = 108;

/// Diagnoses a server for two seconds, of which the last 0.7 are captured.
fn diagnose(server: &Server, format: &[&str]) -> super::program::Run {
    let url = server.url();
    let load = ["-c", "20", "-d", "2s", "--rate", "200"];
    let load = ["diagnose", &url, "-q"].into_iter().chain(load);
    lagtrace(load.chain(format.iter().copied()))
}

#[test]
fn requests_that_the_capture_missed_are_not_explained_by_it() {
    const TEST: &str = "requests_that_the_capture_missed_are_not_explained_by_it";
    if has_root(TEST) {
        verdict(TEST).run(missed_requests);
    }
}

fn missed_requests() {
    let server = Server::start(Manner::AnswersLateAtFirst(DELAYED, DELAY, ANSWER));
    let report = diagnose(&server, &["--format", "json"]).json();
    let part = &report["load"]["captured_part"];
    assert_eq!(part["differs"], true, "{part:#}");
    let overall = &report["overall"];
    assert_ne!(overall["result"], "nothing-found", "{overall:#}");
    let caveats = overall["caveats"].as_array().unwrap();
    assert!(caveats.contains(&"captured-part-differs".into()));
    for layer in report["layers"].as_array().unwrap() {
        let name = layer["layer"].as_str().unwrap();
        let is_from_packets = ["connection", "transport", "server"].contains(&name);
        assert!(!is_from_packets || layer["state"] != "cleared", "{layer:#}");
    }
    let server = Server::start(Manner::AnswersLateAtFirst(DELAYED, DELAY, ANSWER));
    let page = diagnose(&server, &[]).stdout;
    assert!(
        page.contains("Outside the captured part of the load"),
        "{page}"
    );
}

#[test]
fn requests_that_took_as_long_are_explained_by_those_captured() {
    const TEST: &str = "requests_that_took_as_long_are_explained_by_those_captured";
    if has_root(TEST) {
        verdict(TEST).run(equal_requests);
    }
}

fn equal_requests() {
    let server = Server::start(Manner::AnswersAfter(DELAY, ANSWER));
    let report = diagnose(&server, &["--format", "json"]).json();
    let part = &report["load"]["captured_part"];
    assert_eq!(part["differs"], false, "{part:#}");
    assert!(part["responses"].as_u64().unwrap() > 50, "{part:#}");
}
