//! Tests of requests that were answered before they were complete.

use super::starved::{Step, opened, segments};
use super::*;

const UPLOAD: &[u8] = b"POST /x HTTP/1.1\r\nHost: example\r\nContent-Length: 10000\r\n\r\n";
const REFUSED: &[u8] =
    b"HTTP/1.1 413 Too large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
const PART: &[u8] = &[b'x'; 1000];
/// The milliseconds at which the server's window closes and opens.
const SHUT: (i64, i64) = (30, 900);

/// An upload that is answered at the millisecond `answered`. Its parts are 1 ms apart, except while
/// the server's window is closed.
fn upload(answered: i64) -> Vec<Step> {
    let before = (0..5).map(|n| 10 + n);
    let after = (0..5).map(|n| SHUT.1 + n);
    let parts = before.chain(after).map(|ms| (ms, true, ACK, PART));
    let shut = [(SHUT.0, false), (500, true), (500, false), (SHUT.1, false)];
    let shut = shut.map(|(ms, by_client)| (ms, by_client, ACK, b"".as_slice()));
    let fin = [(950, false, FIN, b"".as_slice()), (951, true, FIN, b"")];
    let (head, answer) = ((9, true, ACK, UPLOAD), (answered, false, ACK, REFUSED));
    let mut steps: Vec<Step> = [head, answer]
        .into_iter()
        .chain(parts)
        .chain(shut)
        .collect();
    steps.sort_by_key(|&(ms, ..)| ms);
    opened(steps.into_iter().chain(fin))
}

/// Returns the causes found with five of these uploads.
fn found(answered: i64, is_shut: bool) -> Vec<Id> {
    let mut all: Vec<_> = (0..5)
        .flat_map(|port| segments(port, upload(answered)))
        .collect();
    let opens = super::starved::at(SHUT.1);
    for (segment, _) in all.iter_mut().filter(|_| is_shut) {
        let is_server = segment.flow.source(segment.direction).port == 80;
        if is_server && segment.at >= super::starved::at(SHUT.0) && segment.at < opens {
            segment.window = 0;
        }
    }
    causes(Analyzer::new(Options::default()), all)
}

#[test]
fn a_server_that_has_answered_and_has_no_room_for_the_rest_is_told() {
    assert!(found(12, true).contains(&Id::ZeroWindow));
}

#[test]
fn so_is_one_that_answers_when_it_has_all() {
    assert!(found(940, true).contains(&Id::ZeroWindow));
}

#[test]
fn a_client_that_rests_is_not_held_by_anybody() {
    assert!(!found(12, false).contains(&Id::ZeroWindow));
    assert!(!found(940, false).contains(&Id::ZeroWindow));
}
