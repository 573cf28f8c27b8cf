//! Servers that call others.

use std::time::Duration;

use super::lab::verdict;
use super::program::{findings, has_root, lagtrace};
use super::server::{Manner, Server};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// The server's kernel cannot tell for whom a thread calls if another thread received the request.
/// The packets to the upstream can.
#[test]
fn a_call_by_another_thread_is_followed() {
    const TEST: &str = "upstreams::a_call_by_another_thread_is_followed";
    if !has_root(TEST) {
        return;
    }
    verdict(TEST).run(|| {
        let upstream = Server::start(Manner::AnswersAfter(Duration::from_millis(20), ANSWER));
        let proxy = Server::start(Manner::PassesOn(upstream.address()));
        let load = ["-c", "4", "-d", "2s", "--format", "json"];
        let report = lagtrace(["diagnose", &proxy.url()].iter().chain(&load)).json();
        assert!(findings(&report).contains(&"downstream-wait"), "{report:#}");
        let all = report["findings"].as_array().unwrap().iter();
        let found = all.filter(|finding| finding["cause"] == "downstream-wait");
        let summaries: Vec<_> = found.map(|finding| finding["summary"].as_str()).collect();
        let named = upstream.address().to_string();
        let is_named = |text: &Option<&str>| text.is_some_and(|text| text.contains(&named));
        assert!(summaries.iter().any(is_named), "{summaries:?}");
    });
}
