//! Tests of an exchange in which the client sends several messages: a login with a challenge.

use super::starved::{Step, opened, segments};
use super::*;

const STARTUP: &[u8] = b"\0\0\0\x10\0\x03\0\0user\0ab\0";
const CHALLENGE: &[u8] = b"R\0\0\0\x0c\0\0\0\x0aSCRA";
const PROOF: &[u8] = b"p\0\0\0\x09proof";
const READY: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";

/// Returns the causes found with five logins. The client sends its proof `after` milliseconds after
/// the challenge, and the server is ready `then` milliseconds later.
fn found(after: i64, then: i64) -> Vec<Id> {
    let (challenged, proven) = (12, 12 + after);
    let told = proven + then;
    let steps: [Step; 8] = [
        (10, true, ACK, STARTUP),
        (challenged, false, ACK, CHALLENGE),
        (challenged, true, ACK, b""),
        (proven, true, ACK, PROOF),
        (proven, false, ACK, b""),
        (told, false, ACK, READY),
        (told + 1, true, FIN, b""),
        (told + 2, false, FIN, b""),
    ];
    let all = (0..5).flat_map(|port| segments(port, opened(steps)));
    causes(Analyzer::new(Options::default()), all.collect())
}

#[test]
fn a_server_does_not_pause_while_the_client_has_to_send_its_proof() {
    let found = found(90, 1);
    assert!(!found.contains(&Id::ServerPause), "{found:?}");
    assert!(found.contains(&Id::TimeInClient), "{found:?}");
}

#[test]
fn a_server_that_checks_the_proof_is_told() {
    let found = found(1, 90);
    assert!(!found.contains(&Id::ServerPause), "{found:?}");
    let is_servers = |id: &Id| matches!(id, Id::ServerThink | Id::TimeInServer);
    assert!(found.iter().any(is_servers), "{found:?}");
}
