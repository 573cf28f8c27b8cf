//! Tests of connections with more open requests than are followed.

use super::starved::{opened, segments};
use super::*;
use crate::exchange::Outcome;

/// More than the limit of 1,024.
const MANY: usize = 1_100;

/// Returns the request lines of the exchanges of a connection, and true for those with a response. The
/// client sends `parts`, one each millisecond, and then the server sends `answer`.
fn told(parts: Vec<Vec<u8>>, answer: &'static [u8]) -> Vec<(String, bool)> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&seen);
    let mut analyzer = Analyzer::new(Options::default()).with_sink(Box::new(move |exchange| {
        let request = exchange.request.as_deref().unwrap_or_default().to_owned();
        let is_answered = matches!(exchange.outcome, Outcome::Complete(_));
        into.lock().expect("whole").push((request, is_answered));
    }));
    let asked = (1..).zip(parts).map(|(ms, part)| {
        let part: &'static [u8] = part.leak();
        (ms, true, ACK, part)
    });
    let answered = (2_000, false, ACK, answer);
    for (segment, payload) in segments(0, opened(asked.chain([answered]))) {
        analyzer.segment(&segment, payload);
    }
    analyzer.finish();
    std::mem::take(&mut *seen.lock().expect("whole"))
}

#[test]
fn a_request_beyond_the_limit_does_not_change_the_one_before() {
    let one = |number| format!("GET /{number} HTTP/1.1\r\nHost: example\r\n\r\n").into_bytes();
    let told = told((0..MANY).map(one).collect(), b"");
    let lines: Vec<String> = told.into_iter().map(|(line, _)| line).collect();
    let wanted: Vec<String> = (0..1_024).map(|number| format!("GET /{number}")).collect();
    assert_eq!(lines, wanted);
}

/// Trailers, and a stream whose number is not higher than the last one's, begin no request.
#[test]
fn streams_begin_in_the_order_of_their_numbers() {
    let headers = |stream: u32, path: u8| {
        let mut frame = vec![0, 0, 5, 1, 5];
        frame.extend(stream.to_be_bytes());
        // GET, and a literal path of two bytes (RFC 7541 appendix A).
        frame.extend([0x82, 0x04, 2, b'/', path]);
        frame
    };
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    let streams = [(1, b'a'), (3, b'b'), (1, b'x'), (7, b'c'), (5, b'y')];
    let frames = streams.map(|(stream, path)| headers(stream, path));
    let told = told([vec![preface], frames.to_vec()].concat(), b"");
    let lines: Vec<String> = told.into_iter().map(|(line, _)| line).collect();
    assert_eq!(lines, ["GET /a", "GET /b", "GET /c"]);
}

/// The last stream that is followed keeps its number, and gets its response.
#[test]
fn a_stream_beyond_the_limit_does_not_change_the_one_before() {
    let streams = (0..MANY as u32).map(|number| {
        let mut frame = vec![0, 0, 1 + 2 + 8, 1, 5];
        frame.extend((number * 2 + 1).to_be_bytes());
        frame.extend([0x82, 0x04, 8]);
        frame.extend(format!("/{number:07}").into_bytes());
        frame
    });
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    // An empty SETTINGS frame, and `:status: 200` on the stream 2047.
    let answer = b"\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\x05\0\0\x07\xff\x88";
    let told = told(std::iter::once(preface).chain(streams).collect(), answer);
    let answered: Vec<_> = told
        .iter()
        .filter(|(_, is_answered)| *is_answered)
        .collect();
    assert_eq!(told.len(), 1_024);
    assert_eq!(answered, [&("GET /0001023".to_owned(), true)]);
}
