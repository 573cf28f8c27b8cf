//! Bytes of one direction in order, for reading messages.

use std::collections::BTreeMap;

use crate::attribution::packet::Span;
use crate::protocol::http::{Head, Role};
use crate::protocol::{Parser, Protocol, Step};

/// Maximum number of bytes kept while earlier ones are missing; of any further data only the
/// position is kept, as if the capture had cut it.
const MAX_PENDING: usize = 256 * 1024;
/// Maximum number of separate stretches kept; beyond that, the missing bytes are given up.
const MAX_STRETCHES: usize = 1024;

/// Reorders payloads and reads messages from them.
#[derive(Debug)]
pub(crate) struct Stream {
    /// End of the bytes that were passed to the parser.
    delivered: Option<u64>,
    pending: BTreeMap<u64, (Vec<u8>, u64)>,
    pending_bytes: usize,
    pub(crate) messages: Parser,
}

impl Stream {
    pub(crate) fn new(role: Role) -> Self {
        Self {
            delivered: None,
            pending: BTreeMap::new(),
            pending_bytes: 0,
            messages: Protocol::Http.parser(role),
        }
    }

    /// Returns the memory that the stream holds, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        /// A stretch in the map, and the allocation of its bytes.
        const STRETCH: usize = 64;
        /// A buffer that grows leaves smaller ones behind, and the allocator rounds up.
        const GROWING: usize = 2;
        let buffers = self.pending_bytes + self.messages.held_bytes();
        self.pending.len() * STRETCH + GROWING * buffers
    }

    /// Switches to another protocol from here on.
    pub(crate) fn speak(&mut self, protocol: Protocol, role: Role) {
        self.messages = protocol.parser(role);
    }

    /// Records that the stream begins with the byte at offset 0, although later ones may come first.
    /// Otherwise the first payload counts as the beginning.
    #[inline]
    pub(crate) fn has_start(&mut self) {
        self.delivered.get_or_insert(0);
    }

    /// Takes in a payload at `span`, of which `bytes` were captured.
    pub(crate) fn add_payload(
        &mut self,
        span: Span,
        bytes: &[u8],
        mut on: impl FnMut(&mut Parser, u64, Step),
    ) {
        let delivered = *self.delivered.get_or_insert(span.start);
        if span.end <= delivered {
            return;
        }
        if span.start > delivered {
            self.put_by(span, bytes);
            if self.pending.len() > MAX_STRETCHES {
                self.skip(span, on);
            }
            return;
        }
        let known = usize::try_from(delivered - span.start).unwrap_or(usize::MAX);
        self.deliver(bytes.get(known..).unwrap_or_default(), span.end, &mut on);
        self.drain(&mut on);
    }

    /// Skips a stretch if it is the next one and within a body, so that there is nothing to parse
    /// in it; returns true if so.
    pub(crate) fn pass(&mut self, span: Span) -> bool {
        let is_body = self.is_next(span) && self.messages.pass(span.end - span.start);
        if is_body {
            self.delivered = Some(span.end);
        }
        is_body
    }

    /// Takes in a payload that is one whole message, whose head was read before, as most payloads
    /// are under load. Returns the head and its length. `None` if the payload may be anything else:
    /// nothing was taken in. Its steps would be the message's beginning, its head and its end.
    pub(crate) fn whole(&mut self, span: Span, bytes: &[u8]) -> Option<(Head, u64)> {
        let is_captured = bytes.len() as u64 == span.end - span.start;
        if !is_captured || !self.is_next(span) {
            return None;
        }
        let (head, length) = self.messages.whole(bytes)?;
        self.delivered = Some(span.end);
        Some((head, length as u64))
    }

    /// Returns true if the parser has seen all bytes before `span`, and none of its own.
    fn is_next(&self, span: Span) -> bool {
        self.delivered == Some(span.start) && self.pending.is_empty()
    }

    /// Skips the bytes of `span`, which will not come because the capture missed them.
    pub(crate) fn skip(&mut self, span: Span, mut on: impl FnMut(&mut Parser, u64, Step)) {
        let end = span.end;
        let delivered = *self.delivered.get_or_insert(span.start);
        if end > delivered {
            // Skips the bytes before each stored stretch, and then passes the stretch on.
            while let Some(&start) = self.pending.keys().next().filter(|&&start| start < end) {
                self.deliver(&[], start, &mut on);
                self.drain(&mut on);
            }
            if self.delivered.is_some_and(|delivered| delivered < end) {
                self.deliver(&[], end, &mut on);
            }
            self.drain(&mut on);
        }
    }

    /// Returns the offset of the next byte for the parser.
    pub(crate) fn position(&self) -> u64 {
        self.delivered.unwrap_or_default()
    }

    /// Resumes parsing at `offset`, as at a message's beginning.
    pub(crate) fn restart(&mut self, offset: u64) {
        self.delivered = Some(offset);
        self.pending.clear();
        self.pending_bytes = 0;
        self.messages.reset();
    }

    pub(crate) fn retire(&mut self) {
        self.pending = BTreeMap::new();
        self.pending_bytes = 0;
        self.messages.reset();
    }

    fn put_by(&mut self, span: Span, bytes: &[u8]) {
        let has_room = self.pending_bytes + bytes.len() <= MAX_PENDING;
        let bytes = if has_room { bytes } else { &[] };
        let before = self.pending.range_mut(..=span.start).next_back();
        if let Some((_, (_, end))) = before.filter(|(_, (_, end))| *end >= span.start)
            && (bytes.is_empty() || *end >= span.end)
        {
            *end = span.end.max(*end);
            return;
        }
        self.pending_bytes += bytes.len();
        if let Some((old, _)) = self.pending.insert(span.start, (bytes.to_vec(), span.end)) {
            self.pending_bytes -= old.len();
        }
    }

    fn drain(&mut self, on: &mut impl FnMut(&mut Parser, u64, Step)) {
        while let Some((&start, _)) = self.pending.first_key_value() {
            if start > self.position() {
                break;
            }
            let Some((_, (bytes, end))) = self.pending.pop_first() else {
                break;
            };
            self.pending_bytes -= bytes.len();
            if end > self.position() {
                let known = usize::try_from(self.position() - start).unwrap_or(usize::MAX);
                self.deliver(bytes.get(known..).unwrap_or_default(), end, on);
            }
        }
    }

    /// Passes the stretch up to `end` to the parser: first `bytes`, then the bytes that were not
    /// captured.
    fn deliver(&mut self, bytes: &[u8], end: u64, on: &mut impl FnMut(&mut Parser, u64, Step)) {
        let length = end.saturating_sub(self.position());
        let captured = (bytes.len() as u64).min(length);
        let mut rest = bytes.get(..captured as usize).unwrap_or_default();
        let mut missing = length - captured;
        loop {
            let step = self.messages.step(&mut rest, &mut missing);
            if matches!(step, Step::NeedMore) {
                break;
            }
            let at = end - missing - rest.len() as u64;
            on(&mut self.messages, at, step);
        }
        self.delivered = Some(end);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Feeds payloads as `(offset, bytes)` and lists where steps were taken.
    fn steps(pieces: &[(u64, &[u8])]) -> (Vec<(u64, Step)>, Stream) {
        let mut stream = Stream::new(Role::Response);
        let mut steps = Vec::new();
        for &(start, bytes) in pieces {
            let span = Span {
                start,
                end: start + bytes.len() as u64,
            };
            stream.add_payload(span, bytes, |_, at, step| steps.push((at, step)));
        }
        (steps, stream)
    }

    const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 600000\r\n\r\n";

    /// A payload: the message in it, what precedes and follows the message, the number of bytes that
    /// the capture cut off, and the length of the payload if the message goes on in the next one.
    type Payload = (&'static str, &'static str, &'static str, u64, usize);

    const REQUESTS: [&str; 4] = [
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab",
        "PUT / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    ];
    const RESPONSES: [&str; 5] = [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 204 OK\r\nServer: x\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 101 OK\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    ];

    fn payloads(messages: &'static [&'static str]) -> impl Strategy<Value = Vec<Payload>> {
        let before = prop_oneof![30 => Just(""), 1 => Just("\r\n"), 1 => Just("x")];
        let after = prop_oneof![9 => Just(""), 1 => Just("\r\n"), 2 => Just("c")];
        let cut = prop_oneof![5 => Just(0), 1 => 1..4_u64];
        let length = prop_oneof![9 => Just(usize::MAX), 1 => 1..60_usize];
        let message = prop::sample::select(messages);
        prop::collection::vec((message, before, after, cut, length), 1..20)
    }

    /// Returns the steps of these payloads, and the stream after them; in the short way where the
    /// stream takes it if `is_short`.
    fn steps_of(role: Role, payloads: &[Payload], is_short: bool) -> (Vec<(u64, Step)>, Stream) {
        let mut stream = Stream::new(role);
        let mut steps = Vec::new();
        let mut start = 1;
        for &(message, before, after, cut, length) in payloads {
            let all = format!("{before}{message}{after}");
            let (one, other) = all.split_at(length.min(all.len()));
            for part in [one, other].into_iter().filter(|part| !part.is_empty()) {
                let end = start + part.len() as u64;
                let span = Span { start, end };
                let captured = part.len().saturating_sub(cut as usize);
                let bytes = &part.as_bytes()[..captured];
                match is_short.then(|| stream.whole(span, bytes)).flatten() {
                    Some((head, length)) => steps.extend([
                        (start, Step::Began),
                        (start + length, Step::Head(head)),
                        (end, Step::Ended),
                    ]),
                    None => stream.add_payload(span, bytes, |_, at, step| steps.push((at, step))),
                }
                start = end;
            }
        }
        (steps, stream)
    }

    proptest! {
        #[test]
        fn a_whole_message_has_the_same_steps_in_the_short_way(
            requests in payloads(&REQUESTS),
            responses in payloads(&RESPONSES),
        ) {
            for (role, payloads) in [(Role::Request, requests), (Role::Response, responses)] {
                let (steps, stream) = steps_of(role, &payloads, false);
                let (short_steps, short_stream) = steps_of(role, &payloads, true);
                prop_assert_eq!(short_steps, steps);
                prop_assert_eq!(format!("{short_stream:?}"), format!("{stream:?}"));
            }
        }
    }

    #[test]
    fn a_repeated_message_is_taken_in_the_short_way() {
        let mut stream = Stream::new(Role::Request);
        let bytes = REQUESTS[1].as_bytes();
        let ways = (0..4).map(|number| {
            let start = number * bytes.len() as u64;
            let end = start + bytes.len() as u64;
            let is_short = stream.whole(Span { start, end }, bytes).is_some();
            if !is_short {
                stream.add_payload(Span { start, end }, bytes, |_, _, _| {});
            }
            is_short
        });
        assert!(ways.last().expect("four messages"));
    }

    #[test]
    fn more_than_fits_behind_a_hole_is_remembered_by_its_place() {
        let block = vec![b'x'; 1000];
        let head = HEAD.len() as u64;
        let mut pieces: Vec<(u64, &[u8])> = vec![(0, HEAD)];
        pieces.extend((1..600).map(|n| (head + n * 1000, block.as_slice())));
        pieces.push((head, &block));
        let (steps, stream) = steps(&pieces);
        assert_eq!(steps.last(), Some(&(head + 600_000, Step::Ended)));
        assert_eq!((stream.pending.len(), stream.pending_bytes), (0, 0));
    }

    #[test]
    fn too_many_holes_are_given_up() {
        let mut pieces: Vec<(u64, &[u8])> = vec![(0, HEAD)];
        pieces.extend((0..100_000).map(|n| (1000 + n * 2, &b"x"[..])));
        let (_, stream) = steps(&pieces);
        assert!(stream.pending.len() <= MAX_STRETCHES);
        assert!(stream.position() > 100_000);
    }

    #[test]
    fn a_stream_that_begins_with_missing_bytes_loses_its_thread() {
        let mut stream = Stream::new(Role::Response);
        let mut steps = Vec::new();
        let span = Span { start: 0, end: 680 };
        stream.skip(span, |_, _, step| steps.push(step));
        assert_eq!(steps, [Step::Lost]);
    }
}
