//! Tests on real recordings of each protocol: the analysis must find their messages.
//!
//! The recordings were made with the project's lab (nginx, Redis, PostgreSQL), and with servers and
//! clients of the same kind on the loopback interface.
#![allow(clippy::disallowed_methods, reason = "tests read recordings")]

#[path = "corpus/reading.rs"]
mod reading;

use core::time::Duration;

use lagtrace_core::exchange::tls_handshake::Handshake;
use lagtrace_core::exchange::wait::WaitKind;
use lagtrace_core::exchange::{Exchange, Outcome};
use reading::{Captured, analyse, recording, segments, tiling_fault};

fn captured(name: &str) -> Vec<Captured> {
    segments(&recording(&format!("../../protocols/{name}")))
}

fn exchanges(name: &str) -> Vec<Exchange> {
    let exchanges = analyse(&captured(name)).exchanges;
    for exchange in &exchanges {
        assert_eq!(tiling_fault(exchange), None, "{name}: {exchange:#?}");
    }
    exchanges
}

fn handshake(name: &str) -> (Handshake, Exchange) {
    let first = exchanges(name).remove(0);
    let handshake = first.connecting.handshake.clone();
    (
        *handshake.unwrap_or_else(|| panic!("{name}: no handshake")),
        first,
    )
}

fn is_about(found: Duration, expected_ms: f64) -> bool {
    (found.as_secs_f64() * 1e3 - expected_ms).abs() < 1.5
}

#[test]
fn a_full_handshake_of_tls_1_2_takes_two_round_trips() {
    for name in ["tls-1.2", "tls-1.2-server"] {
        let (handshake, first) = handshake(name);
        assert_eq!(handshake.version, Some(0x0303));
        assert_eq!(handshake.offered, Some(0x0304));
        assert_eq!((handshake.round_trips(), handshake.is_resumed), (2, false));
        assert_eq!(first.outcome, Outcome::Complete(None));
        // The setup lasts from the SYN to the request.
        let setup = first.connecting.setup.expect("the first request bears it");
        assert!(is_about(setup, 132.4) || name != "tls-1.2", "{setup:?}");
    }
    let count = exchanges("tls-1.2").len();
    assert_eq!(count, 1, "alerts and handshakes are no exchanges");
}

#[test]
fn a_session_resumed_and_tls_1_3_take_one() {
    let (resumed, _) = handshake("tls-1.2-resumed");
    assert_eq!((resumed.round_trips(), resumed.is_resumed), (1, true));
    let (newer, first) = handshake("tls-1.3");
    assert_eq!(newer.version, Some(0x0304));
    assert_eq!((newer.round_trips(), newer.is_resumed), (1, false));
    // Session tickets do not count as a response: the server's think time is short.
    assert!(first.latency() < Duration::from_millis(30), "{first:#?}");
    assert_eq!(exchanges("tls-1.3").len(), 20);
}

#[test]
fn a_hello_retry_request_is_told() {
    let (handshake, _) = handshake("tls-1.3-retry");
    assert!(handshake.is_retried);
    assert_eq!(handshake.round_trips(), 2);
}

#[test]
fn the_client_s_pause_before_its_last_flight_is_its_own() {
    let (handshake, _) = handshake("tls-1.3-gnutls");
    let longest = handshake.legs.iter().map(|leg| leg.client_think).max();
    assert!(is_about(longest.unwrap_or_default(), 126.8), "{longest:?}");
}

#[test]
fn where_a_snapshot_length_cut_the_records_turns_are_left() {
    let mut cut = captured("tls-1.3");
    for (_, payload) in &mut cut {
        payload.truncate(20);
    }
    let exchanges = analyse(&cut).exchanges;
    assert!(exchanges.len() >= 20, "{}", exchanges.len());
}

#[test]
fn streams_of_http2_are_exchanges_that_overlap() {
    let exchanges = exchanges("http2");
    let told: Vec<(Option<&str>, Outcome)> = exchanges
        .iter()
        .map(|exchange| (exchange.request.as_deref(), exchange.outcome))
        .collect();
    let whole = Outcome::Complete(Some(200));
    assert_eq!(told, [(Some("GET /a"), whole), (Some("GET /b"), whole)]);
    assert!(exchanges[1].begin < exchanges[0].end);
    // With windows of 4 kB, both responses stopped in the middle.
    for exchange in &exchanges {
        let mut waits = exchange.waits.iter();
        assert!(
            waits.any(|wait| wait.kind == WaitKind::FlowControl),
            "{exchange:#?}"
        );
    }
}

/// Lists the requests of a recording's exchanges. The outcome is added if it is not complete.
fn told(name: &str) -> Vec<String> {
    let exchanges = exchanges(name);
    let line = |exchange: &Exchange| {
        let request = exchange.request.as_deref().unwrap_or_default().to_owned();
        match exchange.outcome {
            Outcome::Complete(None) => request,
            outcome => format!("{request}: {outcome}"),
        }
    };
    exchanges.iter().map(line).collect()
}

#[test]
fn redis_s_commands_have_one_reply_each_though_pipelined() {
    let expected = [
        "SET",
        "GET",
        "INCR: error reply",
        "PING",
        "SET",
        "GET",
        "MGET",
        "HELLO",
        "HGETALL",
        "GET",
    ];
    assert_eq!(told("redis"), expected);
}

#[test]
fn postgres_s_queries_last_until_it_is_ready() {
    let told = told("postgres");
    assert_eq!(told.first().map(String::as_str), Some("SSLREQUEST"));
    assert_eq!(told.get(1).map(String::as_str), Some("STARTUP"));
    assert_eq!(told.len(), 14);
    assert!(
        told.iter().skip(2).all(|request| request == "SELECT"),
        "{told:?}"
    );
}

#[test]
fn mysql_s_commands_go_by_turns() {
    let expected = [
        "LOGIN",
        "SELECT",
        "SELECT",
        "SELECT",
        "USE",
        "SELCT: error reply",
        "SELECT",
        "SHOW",
    ];
    assert_eq!(told("mysql"), expected);
}

#[test]
fn memcached_s_commands_go_by_turns() {
    let expected = [
        "SET",
        "GET",
        "GET",
        "NONSENSE: error reply ERROR",
        "SET",
        "MG",
        "MG",
        "MS",
        "INCR: error reply CLIENT_ERROR",
        "STATS",
        "VERSION",
    ];
    assert_eq!(told("memcached"), expected);
}

/// Returns a connection whose segments are 10 ms apart. Each part is a sender (true for the client)
/// and its bytes.
fn conversation(parts: &[(bool, &[u8])]) -> Vec<Captured> {
    let mut template = captured("redis");
    template.truncate(3);
    let (syn, ack) = (template[0].0, template[2].0);
    let mut next = [syn.seq.wrapping_add(1), ack.ack];
    for (number, (is_client, payload)) in (4_u64..).zip(parts) {
        let (mine, other) = if *is_client { (0, 1) } else { (1, 0) };
        let mut segment = ack;
        segment.number = number;
        segment.at = ack.at + Duration::from_millis(10 * number);
        if !is_client {
            segment.direction = ack.direction.reverse();
        }
        (segment.seq, segment.ack) = (next[mine], next[other]);
        segment.payload_len = payload.len() as u32;
        next[mine] = next[mine].wrapping_add(segment.payload_len);
        template.push((segment, payload.to_vec()));
    }
    template
}

fn frame(kind: u8, flags: u8, stream: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, body.len() as u8, kind, flags, 0, 0, 0, stream];
    bytes.extend(body);
    bytes
}

#[test]
fn an_upgrade_from_http_1_1_makes_the_request_stream_1() {
    let asks = b"GET /first HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\n\
        Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n";
    let mut agrees = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
        Upgrade: h2c\r\n\r\n"
        .to_vec();
    agrees.extend(frame(4, 0, 0, &[]));
    let mut speaks = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    speaks.extend(frame(4, 0, 0, &[]));
    speaks.extend(frame(1, 5, 3, &[0x82, 0x86, 0x84]));
    let answers = [frame(1, 4, 1, &[0x88]), frame(0, 1, 1, b"one")].concat();
    // The response on stream 3 begins before the one on stream 1 ends.
    let overlap = [frame(1, 5, 3, &[0x8d])].concat();
    let parts: [(bool, &[u8]); 5] = [
        (true, asks),
        (false, &agrees),
        (true, &speaks),
        (false, &overlap),
        (false, &answers),
    ];
    let found = analyse(&conversation(&parts)).exchanges;
    let told: Vec<(Option<&str>, Outcome)> = found
        .iter()
        .map(|exchange| (exchange.request.as_deref(), exchange.outcome))
        .collect();
    assert_eq!(
        told,
        [
            (Some("GET /"), Outcome::Complete(Some(404))),
            (Some("GET /first"), Outcome::Complete(Some(200))),
        ]
    );
    assert_eq!(found.iter().filter_map(tiling_fault).next(), None);
}

/// Returns the exchanges of eleven calls over HTTP/2, on a connection on which the server sends
/// first. A PING precedes each response but the first.
///
/// The capture keeps `kept` bytes of each payload. The heads of the first request and its response
/// are longer than 100 bytes. The bodies of later responses have `later` bytes.
fn calls(kept: usize, later: usize) -> Vec<Exchange> {
    let mut opens = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    opens.extend(frame(4, 0, 0, &[]));
    // A literal field without indexing, with a name of two bytes.
    let field = [&[0, 2, b'a', b'b', 120][..], &[b'x'; 120]].concat();
    let response = |stream: u8, head: &[u8], body: usize| {
        let trailers = frame(1, 5, stream, &[0x88]);
        [
            frame(1, 4, stream, head),
            frame(0, 0, stream, &vec![7; body]),
            trailers,
        ]
        .concat()
    };
    let ping = frame(6, 0, 0, &[0; 8]);
    let asks = [&[0x82, 0x86, 0x84][..], &field].concat();
    let mut parts = vec![
        (false, frame(4, 0, 0, &[])),
        (true, opens),
        (
            true,
            [frame(1, 4, 1, &asks), frame(0, 1, 1, b"ask")].concat(),
        ),
        (false, response(1, &[&[0x88][..], &field].concat(), 10)),
    ];
    for stream in [3, 5, 7, 9, 11, 13, 15, 17, 19, 21] {
        let asks = [
            frame(1, 4, stream, &[0x82, 0x86, 0x84]),
            frame(0, 1, stream, b"ask"),
        ];
        parts.push((true, asks.concat()));
        parts.push((false, ping.clone()));
        parts.push((true, ping.clone()));
        parts.push((false, response(stream, &[0x88], later)));
    }
    let parts: Vec<(bool, &[u8])> = parts.iter().map(|(by, part)| (*by, &part[..])).collect();
    let mut made = conversation(&parts);
    for (_, payload) in &mut made {
        payload.truncate(kept);
    }
    analyse(&made).exchanges
}

#[test]
fn calls_are_told_apart_though_a_snapshot_length_cut_the_first_of_them() {
    let whole = |exchanges: &[Exchange]| {
        let is_whole = |exchange: &&Exchange| matches!(exchange.outcome, Outcome::Complete(_));
        exchanges.iter().filter(is_whole).count()
    };
    assert_eq!(whole(&calls(1000, 10)), 11);
    let cut = calls(100, 10);
    assert_eq!(whole(&cut), 10);
    let pauses = |wait: &lagtrace_core::exchange::wait::Wait| {
        matches!(wait.kind, WaitKind::ServerPause | WaitKind::RequestPause)
    };
    assert!(!cut.iter().flat_map(|exchange| &exchange.waits).any(pauses));
    // If the capture cuts off the end of each response, only the alternating turns show the
    // exchanges.
    assert!(whole(&calls(100, 200)) >= 5);
}
