//! Tests of data after a FIN: a half-closed client that still reads, and lost bytes at the end.

use core::time::Duration;

use super::*;
use crate::exchange::wait::WaitKind;
use crate::exchange::{Exchange, Outcome};

const RST: TcpFlags = TcpFlags::RST;
const OLD: &[u8] = b"GET / HTTP/1.0\r\n\r\n";
const UNTIL_CLOSE: &[u8] = b"HTTP/1.0 200 OK\r\n\r\n";
const PART: &[u8] = &[b'x'; 1000];
const CLIENT: bool = true;
const SERVER: bool = false;
/// The sequence number after the client's request.
const ASKED: u32 = 1 + OLD.len() as u32;
/// The sequence numbers after the server's head, and after each of the first two parts.
const HEAD: u32 = 1 + UNTIL_CLOSE.len() as u32;
const FIRST: u32 = HEAD + PART.len() as u32;
const SECOND: u32 = FIRST + PART.len() as u32;

/// A segment: true if sent by the client, its millisecond, flags, sequence and acknowledgement
/// number, and payload.
type Step = (bool, i64, TcpFlags, u32, u32, &'static [u8]);

/// The handshake, and a request of an HTTP/1.0 client.
const OPENING: [Step; 4] = [
    (CLIENT, 0, TcpFlags::SYN, 0, 0, b""),
    (SERVER, 10, TcpFlags::SYN.with(ACK), 0, 1, b""),
    (CLIENT, 10, ACK, 1, 1, b""),
    (CLIENT, 11, ACK, 1, 1, OLD),
];

/// Returns the exchanges of one connection.
fn exchanges(steps: &[Step]) -> Vec<Exchange> {
    let ends =
        [(1, 30_000), (2, 80)].map(|(host, port)| Endpoint::new([10, 0, 0, host].into(), port));
    let told = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&told);
    let mut analyzer = Analyzer::new(Options::default()).with_sink(Box::new(move |exchange| {
        list.lock().expect("whole").push(exchange.clone());
    }));
    let steps = OPENING.iter().chain(steps);
    for (number, &(by_client, ms, flags, seq, ack, payload)) in (1..).zip(steps) {
        let [from, to] = if by_client { ends } else { [ends[1], ends[0]] };
        let at = Timestamp::from_nanos(1_700_000_000_000_000_000 + ms * 1_000_000);
        let segment = Segment {
            number,
            seq,
            ack,
            flags,
            payload_len: payload.len() as u32,
            ..Segment::sent(from, to, at)
        };
        analyzer.segment(&segment, payload);
    }
    analyzer.finish();
    std::mem::take(&mut *told.lock().expect("whole"))
}

/// Returns the outcome of a connection's only exchange, and its duration in milliseconds.
fn outcome(steps: &[Step]) -> (Outcome, u128) {
    let list = exchanges(steps);
    let [only] = list.as_slice() else {
        panic!("{list:#?}");
    };
    let sum: Duration = only.waits.iter().map(|wait| wait.duration()).sum();
    assert!(only.outcome == Outcome::Cut || sum == only.latency());
    (only.outcome, only.latency().as_millis())
}

const WHOLE: Outcome = Outcome::Complete(Some(200));
/// The client's FIN right after its request, and the server's acknowledgement of it.
const HALF: [Step; 2] = [
    (CLIENT, 11, FIN, ASKED, 1, b""),
    (SERVER, 21, ACK, 1, ASKED + 1, b""),
];

#[test]
fn who_has_said_all_and_reads_on_is_answered_until_the_server_ends() {
    let answer = [
        (SERVER, 321, ACK, 1, ASKED + 1, UNTIL_CLOSE),
        (SERVER, 321, FIN, HEAD, ASKED + 1, PART),
        (CLIENT, 321, ACK, ASKED + 1, FIRST + 1, b""),
    ];
    assert_eq!(outcome(&[&HALF[..], &answer].concat()), (WHOLE, 310));
}

#[test]
fn who_has_left_refuses_the_answer_or_never_takes_it() {
    let answer = [
        (SERVER, 321, ACK, 1, ASKED + 1, UNTIL_CLOSE),
        (SERVER, 321, FIN, HEAD, ASKED + 1, PART),
    ];
    let refused = [(CLIENT, 321, RST, ASKED + 1, 0, b"".as_slice())];
    let unheard = [&HALF[..], &answer].concat();
    let refused = [unheard.as_slice(), &refused].concat();
    for steps in [unheard, refused] {
        assert!(!matches!(outcome(&steps).0, Outcome::Complete(_)));
    }
}

#[test]
fn who_leaves_with_all_that_came_so_far_has_not_read_on() {
    let steps = [
        (SERVER, 21, ACK, 1, ASKED, UNTIL_CLOSE),
        (CLIENT, 22, ACK, ASKED, HEAD, b"".as_slice()),
        (CLIENT, 500, FIN, ASKED, HEAD, b""),
        (SERVER, 510, FIN, HEAD, ASKED + 1, b""),
        // This acknowledges the FIN, not data.
        (CLIENT, 510, ACK, ASKED + 1, HEAD + 1, b""),
    ];
    assert!(!matches!(outcome(&steps).0, Outcome::Complete(_)));
}

/// Returns the steps of a response whose second segment is missing when the server's FIN arrives.
/// The segment follows at the millisecond `late`.
fn lost(steps: &[Step], late: i64) -> Vec<Step> {
    let behind = [
        (SERVER, 21, ACK, 1, ASKED, UNTIL_CLOSE),
        (SERVER, 22, FIN, FIRST, ASKED, PART),
        (CLIENT, 22, ACK, ASKED, HEAD, b""),
        (SERVER, late, ACK, HEAD, ASKED, PART),
        (CLIENT, late, ACK, ASKED, SECOND + 1, b""),
    ];
    [steps, &behind].concat()
}

#[test]
fn an_answer_ends_with_what_was_lost_of_it_and_not_with_the_fin_that_came_before() {
    let half = HALF.get(..1).unwrap_or_default();
    for steps in [&[][..], half] {
        let steps = lost(steps, 252);
        assert_eq!(outcome(&steps), (WHOLE, 241));
        let list = exchanges(&steps);
        let waits = list.iter().flat_map(|exchange| &exchange.waits);
        let of_loss = waits.filter(|wait| wait.kind == WaitKind::Recovery);
        let repaired: Duration = of_loss.map(|wait| wait.duration()).sum();
        assert!(repaired > Duration::from_millis(200), "{list:#?}");
    }
}

#[test]
fn what_never_comes_is_not_taken_for_a_whole_answer() {
    let mut steps = lost(&[], 252);
    steps.truncate(3);
    assert_eq!(outcome(&steps).0, Outcome::Cut);
}

#[test]
fn a_fin_in_its_turn_ends_an_answer_at_once() {
    let steps = [
        (SERVER, 21, ACK, 1, ASKED, UNTIL_CLOSE),
        (SERVER, 22, FIN, HEAD, ASKED, PART),
    ];
    assert_eq!(outcome(&steps), (WHOLE, 11));
}
