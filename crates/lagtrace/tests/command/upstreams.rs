//! Servers that call others.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lagtrace_trial::free_port;
use serde_json::Value;

use super::lab::verdict;
use super::program::{findings, has_root, has_tool, lagtrace};
use super::server::{Manner, Server};
use super::started::Started;

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

/// A server that calls another one before it answers, a number of times over one connection. Or it
/// tries in vain to connect to a listener whose queue is full.
const CALLER: &str = r#"
import http.server, socket, sys, threading, time
MANNER, EACH, BEHIND = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
listener = socket.create_server(("127.0.0.1", BEHIND), backlog=0 if MANNER == "silent" else 64)
full = [socket.socket() for _ in range(3)]
if MANNER == "silent":
    for one in full:
        one.setblocking(False)
        one.connect_ex(("127.0.0.1", BEHIND))
def answer(stream):
    while stream.recv(100):
        time.sleep(0.004)
        stream.sendall(b"there")
def accept():
    while True:
        threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()
if MANNER != "silent":
    threading.Thread(target=accept, daemon=True).start()
def call(stream):
    stream.sendall(b"who")
    stream.recv(100)
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if MANNER == "many":
            if not hasattr(self, "behind"):
                self.behind = socket.create_connection(("127.0.0.1", BEHIND))
            for _ in range(EACH):
                call(self.behind)
        else:
            try:
                socket.create_connection(("127.0.0.1", BEHIND), timeout=EACH / 100).close()
            except OSError:
                pass
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;

/// Returns the report of a watch of a server that calls another one in this manner, and the address
/// of the latter.
fn watched(manner: &str, each: u32) -> (Value, String) {
    let behind = free_port();
    let arguments = [manner, &each.to_string(), &behind.to_string()];
    let server = Started::python(CALLER, &arguments);
    let address = server.address();
    let (is_over, port) = (AtomicBool::new(false), address.port().to_string());
    let report = thread::scope(|scope| {
        scope.spawn(|| request(address, &is_over));
        let watch = ["watch", "-p", &port, "-d", "3s", "--format", "json"];
        let run = lagtrace(watch);
        is_over.store(true, Ordering::Relaxed);
        run.json()
    });
    (report, format!("127.0.0.1:{behind}"))
}

#[test]
fn many_calls_for_a_request_are_counted_by_the_kernel() {
    const TEST: &str = "upstreams::many_calls_for_a_request_are_counted_by_the_kernel";
    if !has_root(TEST) || !has_tool(TEST, "python3") {
        return;
    }
    verdict(TEST).run(|| {
        let each = 7 + u32::from(free_port() % 9);
        let (report, behind) = watched("many", each);
        assert_eq!(findings(&report)[0], "upstream-calls", "{report:#}");
        let summary = report["findings"][0]["summary"].as_str().unwrap();
        assert!(
            summary.contains(&format!("{behind} and their answers: {each} calls")),
            "{summary}"
        );
        // The near miss: as many calls as one.
        let (report, _) = watched("many", 1);
        assert!(!findings(&report).contains(&"upstream-calls"), "{report:#}");
    });
}

#[test]
fn connects_that_nobody_answers_are_seen_by_the_kernel() {
    const TEST: &str = "upstreams::connects_that_nobody_answers_are_seen_by_the_kernel";
    if !has_root(TEST) || !has_tool(TEST, "python3") {
        return;
    }
    verdict(TEST).run(|| {
        let (report, behind) = watched("silent", 25 + u32::from(free_port() % 30));
        assert_eq!(findings(&report)[0], "upstream-unreachable", "{report:#}");
        let summary = report["findings"][0]["summary"].as_str().unwrap();
        assert!(summary.contains(&behind), "{summary}");
    });
}
