//! Tests of `lagtrace watch` on connections with TLS: the flights of a handshake are no requests.

use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::lab::verdict;
use super::program::{has_tool, run};
use super::secured::{ELLIPTIC, Secured};
use super::streamed::Streamed;

/// Number of connections of a load, each with two requests.
const CONNECTIONS: u64 = 20;

/// Sends two requests, one after the other, over a connection of their own.
fn ask_twice(server: &Secured, options: &[&str]) {
    let url = format!("https://127.0.0.1:{}/page", server.port);
    let mut curl = Command::new("curl");
    curl.args(["-sSk", "--fail", "--http1.1"]).args(options);
    curl.args(["-o", "/dev/null", &url, "-o", "/dev/null", &url]);
    run(&mut curl).expect(0);
}

/// Watches a load on nginx. Returns the watch's exchanges, and the other lines of the report.
fn watched(server: &Secured, client: &[&str], options: &[&str]) -> (Vec<Value>, Vec<Value>) {
    let port = server.port.to_string();
    let watch = ["watch", "-p", &port, "--format", "ndjson", "-q"];
    let mut watch = Streamed::start(watch.iter().chain(options));
    watch.provoke(
        || ask_twice(server, client),
        |line| line.contains("\"exchange\""),
    );
    for _ in 0..CONNECTIONS {
        ask_twice(server, client);
    }
    // The last records are on their way.
    thread::sleep(Duration::from_millis(500));
    watch.interrupt();
    let run = watch.end();
    assert!(matches!(run.code, Some(0 | 1)), "{run:#?}");
    let parsed = |line: &str| serde_json::from_str(line).unwrap();
    let lines: Vec<Value> = run.stdout.lines().map(parsed).collect();
    lines
        .into_iter()
        .partition(|line| line["type"] == "exchange")
}

/// Returns the number of requests that the kernel counted.
fn counted(report: &[Value]) -> u64 {
    let watch = report.iter().find(|line| line["type"] == "watch").unwrap();
    watch["latency_ns"]["count"].as_u64().unwrap()
}

/// Checks the requests of a load: each connection has two, however many flights its handshake has.
/// The first connections end before the watch has begun, or while it begins.
#[track_caller]
fn has_two_for_each_connection(exchanges: &[Value], report: &[Value]) {
    let connections: std::collections::BTreeSet<_> = exchanges
        .iter()
        .map(|exchange| exchange["client"].to_string())
        .collect();
    let (requests, connections) = (exchanges.len() as u64, connections.len() as u64);
    assert!(connections >= CONNECTIONS, "{connections}");
    let all = requests..=requests + 2;
    assert!(requests + 2 >= connections * 2 && requests <= connections * 2);
    assert!(all.contains(&counted(report)), "{}", counted(report));
    // A response of nginx has 20 KB: tickets are no part of it, and no response.
    for exchange in exchanges {
        let bytes = exchange["response_bytes"].as_u64().unwrap();
        assert!((20_000..21_000).contains(&bytes), "{exchange:#}");
    }
}

fn flights_are_no_requests(test: &str, lines: &str, client: &[&str]) {
    verdict(test).run(|| {
        let server = has_tool(test, "curl").then(|| Secured::start(test, lines, &ELLIPTIC));
        let Some(server) = server.flatten() else {
            return;
        };
        let (exchanges, report) = watched(&server, client, &[]);
        has_two_for_each_connection(&exchanges, &report);
    });
}

#[test]
fn flights_of_tls_1_3_are_no_requests() {
    flights_are_no_requests(
        "flights_of_tls_1_3_are_no_requests",
        "ssl_protocols TLSv1.3;",
        &[],
    );
}

/// The server asks for another hello, because it wants another group.
#[test]
fn flights_after_another_hello_are_no_requests() {
    flights_are_no_requests(
        "flights_after_another_hello_are_no_requests",
        "ssl_protocols TLSv1.3; ssl_ecdh_curve secp384r1;",
        &["--curves", "X25519:P-384"],
    );
}

#[test]
fn flights_of_tls_1_2_are_no_requests() {
    flights_are_no_requests(
        "flights_of_tls_1_2_are_no_requests",
        "ssl_protocols TLSv1.2;",
        &[],
    );
}

/// Without payload, only the kernel tells requests from handshakes, and the report says so.
#[test]
fn without_payload_the_kernel_alone_counts_requests() {
    const TEST: &str = "without_payload_the_kernel_alone_counts_requests";
    verdict(TEST).run(|| {
        let server = has_tool(TEST, "curl").then(|| Secured::start(TEST, "", &ELLIPTIC));
        let Some(server) = server.flatten() else {
            return;
        };
        let (exchanges, report) = watched(&server, &[], &["--no-payload"]);
        let counted = counted(&report);
        assert!((2 * CONNECTIONS..=2 * CONNECTIONS + 8).contains(&counted));
        assert!(exchanges.len() as u64 > counted, "{}", exchanges.len());
        let told = |line: &Value| line.to_string().contains("watch-tls-unread");
        assert!(report.iter().any(told), "{report:#?}");
    });
}
