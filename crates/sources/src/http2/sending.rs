//! Output: requests, as much of their bodies as the flow-control windows allow, and replies to the
//! server's frames.

use super::{
    CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, MAX_FRAME, RST_STREAM, Session,
    Stream, WINDOW_UPDATE,
};

/// Length of the output at which no more body data is added in one call, in bytes.
const BODIES_LEN: usize = 64 * 1024;

impl Session {
    /// Opens a stream with the request of this part. Returns the stream's number.
    pub(crate) fn ask(&mut self, part: u16) -> u32 {
        let id = self.next_id;
        self.next_id += 2;
        let requests = std::sync::Arc::clone(&self.requests);
        let Some(shared) = requests.get(usize::from(part)) else {
            return id;
        };
        let own = shared.own().map(std::sync::Arc::new);
        let request = own.as_deref().unwrap_or(shared);
        let ends = if request.body.is_empty() {
            END_STREAM
        } else {
            0
        };
        let mut parts = request.section.chunks(MAX_FRAME).peekable();
        let mut kind = (HEADERS, ends);
        while let Some(part) = parts.next() {
            let last = if parts.peek().is_none() {
                END_HEADERS
            } else {
                0
            };
            self.frame(kind.0, kind.1 | last, id, part);
            kind = (CONTINUATION, 0);
        }
        self.streams.push(Stream {
            id,
            part,
            own,
            beyond_first: 0,
            sent: 0,
            taken: 0,
            status: None,
            grpc: None,
        });
        id
    }

    /// Cancels a stream.
    pub(crate) fn cancel(&mut self, id: u32) {
        self.forget(id);
        self.frame(RST_STREAM, 0, id, &CANCEL.to_be_bytes());
    }

    /// Appends output to `to`: all waiting bytes, and body data up to the limit of one call.
    /// Further calls return more body data.
    pub(crate) fn take_output(&mut self, to: &mut Vec<u8>) {
        self.send_bodies();
        to.append(&mut self.out);
    }

    /// Returns the maximum total length of the request heads on all streams, in bytes.
    pub(super) fn heads_len(&self) -> usize {
        let sections = self.requests.iter().map(|request| request.section.len());
        let section = sections.max().unwrap_or(0);
        self.streams.len() * (section + 9 * section.div_ceil(MAX_FRAME))
    }

    /// Sends as much of the bodies as the server's flow-control windows allow.
    fn send_bodies(&mut self) {
        let requests = std::sync::Arc::clone(&self.requests);
        if requests.iter().all(|request| request.body.is_empty()) {
            return;
        }
        for at in 0..self.streams.len() {
            while let Some(stream) = self.streams.get_mut(at) {
                if self.out.len() >= BODIES_LEN {
                    return;
                }
                let shared = requests.get(usize::from(stream.part));
                let own = stream.own.clone();
                let request = own.as_deref().or(shared);
                let body = request.map_or(&[][..], |request| request.body.as_slice());
                let rest = body.get(stream.sent..).unwrap_or_default();
                let room = (self.first_window + stream.beyond_first)
                    .min(self.window)
                    .max(0);
                let len = rest
                    .len()
                    .min(MAX_FRAME)
                    .min(usize::try_from(room).unwrap_or(0));
                let part = rest.get(..len).unwrap_or_default();
                if part.is_empty() {
                    break;
                }
                stream.sent += len;
                stream.beyond_first -= len as i64;
                self.window -= len as i64;
                let id = stream.id;
                let flags = if len == rest.len() { END_STREAM } else { 0 };
                self.frame(DATA, flags, id, part);
            }
        }
    }

    pub(super) fn widen(&mut self, id: u32, more: i64) {
        let more = u32::try_from(more).unwrap_or(0);
        self.frame(WINDOW_UPDATE, 0, id, &more.to_be_bytes());
    }

    pub(super) fn frame(&mut self, kind: u8, flags: u8, id: u32, body: &[u8]) {
        let [_, a, b, c] = (body.len() as u32).to_be_bytes();
        self.out.extend_from_slice(&[a, b, c, kind, flags]);
        self.out.extend_from_slice(&id.to_be_bytes());
        self.out.extend_from_slice(body);
    }
}
