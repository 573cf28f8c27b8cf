//! Tests of requests that wait for what other clients send.

use super::starved::{Step, opened, segments};
use super::*;

/// Commands of Redis with a key.
const BLPOP: &[u8] = b"*2\r\n$5\r\nBLPOP\r\n$4\r\njobs\r\n";
const LRANGE: &[u8] = b"*2\r\n$6\r\nLRANGE\r\n$4\r\njobs\r\n";

/// Returns the causes found with five connections, on each of which this command is answered after
/// 90 ms.
fn found(command: &'static [u8]) -> Vec<Id> {
    let steps: [Step; 6] = [
        (10, true, ACK, command),
        (10, false, ACK, b""),
        (100, false, ACK, b"$2\r\nok\r\n"),
        (100, true, ACK, b""),
        (101, true, FIN, b""),
        (102, false, FIN, b""),
    ];
    let all = (0..5).flat_map(|port| segments(port, opened(steps)));
    causes(Analyzer::new(Options::default()), all.collect())
}

#[test]
fn a_command_that_waits_for_another_client_is_no_delay_of_the_server() {
    let of_server = |command| {
        let found = found(command);
        let is_servers = |id: &Id| matches!(id, Id::ServerThink | Id::TimeInServer);
        found.iter().any(is_servers)
    };
    assert!(!of_server(BLPOP));
    assert!(of_server(LRANGE));
}
