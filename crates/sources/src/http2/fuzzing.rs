//! Answers of HTTP/2 servers from anyone.

use std::sync::Arc;

use super::{Encoded, Session};

/// Processes a server's bytes in pieces, and makes a request before each, with a body every second
/// time. The first byte is the length of the pieces. What waits to be sent stays bounded.
pub fn http2_answer(bytes: &[u8]) {
    /// The most that may wait to be sent: the waiting replies, the requests and their bodies.
    const MOST: usize = 1 << 20;
    /// The number of requests that are made.
    const ASKED: usize = 100;
    let requests = [0, 70_000].map(Encoded::with_body);
    let mut session = Session::new(Arc::from(requests));
    let (mut events, mut sent) = (Vec::new(), Vec::new());
    let (first, bytes) = bytes.split_first().unwrap_or((&0, &[]));
    for (number, part) in bytes.chunks(1 + usize::from(*first)).enumerate() {
        if number < ASKED && !session.is_used_up() {
            session.ask(u16::from(number % 2 == 1));
        }
        if session.feed(part, &mut events).is_err() {
            return;
        }
        events.clear();
        session.take_output(&mut sent);
        assert!(sent.len() < MOST);
        sent.clear();
    }
}
