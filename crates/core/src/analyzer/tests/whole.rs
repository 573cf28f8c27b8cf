//! Messages that are one segment each, whose heads were read before and whose heads were not.

use proptest::prelude::*;

use super::*;

/// Heads, each without its last line and its empty line, and what follows it.
const REQUESTS: [(&str, &str); 4] = [
    ("GET / HTTP/1.1\r\nHost: x", ""),
    ("HEAD / HTTP/1.1\r\nHost: x", ""),
    ("GET / HTTP/1.1\r\nConnection: close", ""),
    (
        "PUT / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1",
        "a",
    ),
];
const RESPONSES: [(&str, &str); 5] = [
    ("HTTP/1.1 200 OK\r\nContent-Length: 1", "a"),
    ("HTTP/1.1 200 OK\r\nContent-Length: 1", ""),
    ("HTTP/1.1 304 OK\r\nServer: x", ""),
    ("HTTP/1.1 100 Continue\r\nA: b", ""),
    ("HTTP/1.1 101 OK\r\nUpgrade: h2c\r\nConnection: Upgrade", ""),
];

/// Returns a message with `number` in its head. All heads have the same length: a head is
/// remembered if the one read before it was as long.
fn message((head, rest): (&str, &str), number: u64) -> String {
    let width = 100 - head.len();
    format!("{head}\r\nX: {number:0width$}\r\n\r\n{rest}")
}

/// Returns the exchanges of a connection on which these messages follow each other: true and the
/// number of a request, false and the number of a response. No two heads of different runs are
/// alike.
fn exchanges(messages: &[(bool, usize)], run: u32) -> Vec<String> {
    let [client, server] =
        [(1, 40_000), (2, 80)].map(|(last, port)| Endpoint::new([10, 0, 0, last].into(), port));
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = told.clone();
    let sink = move |exchange: &Exchange| {
        tell.lock()
            .expect("one thread")
            .push(format!("{exchange:?}"));
    };
    let mut analyzer = Analyzer::new(Options::default()).with_sink(Box::new(sink));
    let (mut asked, mut answered) = (1, 1);
    for (number, &(is_request, kind)) in (1..).zip(messages) {
        let (ends, list): (_, &[(&str, &str)]) = if is_request {
            ((client, server), &REQUESTS)
        } else {
            ((server, client), &RESPONSES)
        };
        let unique = u64::from(run) << 8 | number as u64;
        let payload = message(list[kind % list.len()], unique);
        let payload = payload.as_bytes();
        let (seq, ack) = if is_request {
            (asked, answered)
        } else {
            (answered, asked)
        };
        let at = Timestamp::from_nanos(number * 20_000_000);
        let segment = Segment {
            number: number as u64,
            seq,
            ack,
            flags: ACK,
            payload_len: payload.len() as u32,
            ..Segment::sent(ends.0, ends.1, at)
        };
        analyzer.segment(&segment, payload);
        let own = if is_request {
            &mut asked
        } else {
            &mut answered
        };
        *own += payload.len() as u32;
    }
    analyzer.finish();
    let told = told.lock().expect("one thread");
    told.clone()
}

proptest! {
    /// Heads that were read lately are remembered, and then whole messages are read in a short way.
    #[test]
    fn exchanges_are_the_same_whether_their_heads_were_read_before(
        messages in prop::collection::vec((any::<bool>(), 0..5_usize), 1..8),
        run in any::<u32>(),
    ) {
        let first = exchanges(&messages, run);
        for _ in 0..2 {
            prop_assert_eq!(exchanges(&messages, run), first.clone());
        }
    }
}
