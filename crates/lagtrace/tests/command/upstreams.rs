//! Servers that call others.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
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

/// Sends one request after the other on a connection, until `is_over`.
fn request(server: SocketAddr, is_over: &AtomicBool) {
    let mut stream = TcpStream::connect(server).unwrap();
    while !is_over.load(Ordering::Relaxed) {
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
            .unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
    }
}

/// Of the services that are called for a request, the one that takes longest is named, whether it is
/// called first or last.
#[test]
fn of_two_calls_the_longer_one_is_named() {
    const TEST: &str = "upstreams::of_two_calls_the_longer_one_is_named";
    if !has_root(TEST) {
        return;
    }
    verdict(TEST).run(|| {
        let slow = Server::start(Manner::AnswersAfter(Duration::from_millis(30), ANSWER));
        let quick = Server::start(Manner::AnswersAfter(Duration::from_millis(3), ANSWER));
        let (slow, quick) = (slow.address(), quick.address());
        for order in [[slow, quick], [quick, slow]] {
            let server = Server::start(Manner::Calls(order, ANSWER));
            let (is_over, port) = (AtomicBool::new(false), server.port().to_string());
            let report = thread::scope(|scope| {
                scope.spawn(|| request(server.address(), &is_over));
                let watch = ["watch", "-p", &port, "-d", "2s", "--format", "json"];
                let run = lagtrace(watch);
                is_over.store(true, Ordering::Relaxed);
                run.json()
            });
            assert_eq!(findings(&report)[0], "downstream-wait", "{report:#}");
            let summary = report["findings"][0]["summary"].as_str().unwrap();
            assert!(summary.contains(&slow.to_string()), "{order:?}: {summary}");
            assert!(
                !summary.contains(&quick.to_string()),
                "{order:?}: {summary}"
            );
        }
    });
}
