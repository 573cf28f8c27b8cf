//! Real recordings of each protocol: what is read from them, packet by packet.
//!
//! They were made with the project's lab (nginx, Redis, PostgreSQL) and with
//! servers and clients of the same kind on the loopback interface.
#![allow(clippy::disallowed_methods, reason = "tests read recordings")]

#[path = "corpus/reading.rs"]
mod reading;

use core::time::Duration;

use lagtrace_core::exchange::{Exchange, Outcome};
use lagtrace_core::handshake::Handshake;
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
    let handshake = first.handshake.clone();
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
        // From the SYN to the request, and from there to the response's end.
        let setup = first.setup.expect("the first request bears it");
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
    // Tickets are no response: the server's own time is short.
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
