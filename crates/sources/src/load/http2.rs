//! HTTP/2 on one connection of a lane (RFC 9113): conversion from and to frames, without I/O or
//! times.
//!
//! Only the status, the length and the end of a response are evaluated. The server may not use a
//! dynamic table (SETTINGS_HEADER_TABLE_SIZE 0), so that each field section can be decoded by
//! itself. Our flow-control windows have the maximum size, so that no response waits for them.

mod frame;
mod request;
mod sending;
mod status;

use frame::{Frame, Frames};
pub(super) use request::Request;

/// The connection preface of a client (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Maximum frame size in both directions: the minimum that every endpoint must accept.
const MAX_FRAME: usize = 16_384;
/// The maximum flow-control window (RFC 9113 §6.9.1), and the initial one.
const MAX_WINDOW: i64 = (1 << 31) - 1;
const FIRST_WINDOW: i64 = 65_535;
/// Maximum number of waiting bytes of answers to the server's own frames. A server that causes more
/// answers without reading them is not going to respond.
const MAX_WAITING: usize = 64 * 1024;

/// Frame types and flags (RFC 9113 §6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
/// Settings (RFC 9113 §6.5.2).
const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
/// Error codes (RFC 9113 §7).
const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;

/// The peer does not speak HTTP/2, or violates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotHttp2;

/// The meaning of a received frame for the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Bytes of a response: the stream, and the number of bytes.
    Bytes(u32, u64),
    /// A complete response: the stream, and the status.
    Done(u32, u16),
    /// A stream that the server reset.
    Reset(u32),
    /// A stream whose request the server has not processed; the request may be sent again.
    Unseen(u32),
    /// The last stream that the server processes; requests on later streams were not and will not
    /// be processed.
    Leaves(u32),
}

/// A stream that we opened.
#[derive(Debug)]
struct Stream {
    id: u32,
    /// Index of the request that it carries.
    part: u16,
    /// The server's flow-control window for this stream, in bytes.
    window: i64,
    /// Bytes of the body sent.
    sent: usize,
    /// Bytes received that count against our window since the last window update.
    taken: i64,
    status: Option<u16>,
}

/// The state of one connection.
#[derive(Debug)]
pub(super) struct Session {
    requests: std::sync::Arc<[Request]>,
    frames: Frames,
    streams: Vec<Stream>,
    next_id: u32,
    /// The server's limits: concurrent streams, and the initial window of a stream.
    most_streams: u32,
    first_window: i64,
    /// The server's connection window for our output, and the bytes that count against our window.
    window: i64,
    taken: i64,
    /// The field section in progress: its stream, and whether it ends the stream.
    section: Option<(u32, bool)>,
    out: Vec<u8>,
    has_settings: bool,
}

impl Session {
    /// Creates the session for a new connection on which any of `requests` may be sent.
    pub(super) fn new(requests: std::sync::Arc<[Request]>) -> Self {
        let mut session = Self {
            requests,
            frames: Frames::default(),
            streams: Vec::new(),
            next_id: 1,
            most_streams: u32::MAX,
            first_window: FIRST_WINDOW,
            window: FIRST_WINDOW,
            taken: 0,
            section: None,
            out: PREFACE.to_vec(),
            has_settings: false,
        };
        let mut settings = Vec::new();
        for (name, value) in [
            (HEADER_TABLE_SIZE, 0),
            (ENABLE_PUSH, 0),
            (INITIAL_WINDOW_SIZE, MAX_WINDOW as u32),
        ] {
            settings.extend_from_slice(&u16::to_be_bytes(name));
            settings.extend_from_slice(&u32::to_be_bytes(value));
        }
        session.frame(SETTINGS, 0, 0, &settings);
        session.widen(0, MAX_WINDOW - FIRST_WINDOW);
        session
    }

    /// Returns the number of streams that may be open.
    pub(super) fn most_streams(&self) -> usize {
        self.most_streams as usize
    }

    /// Returns true if no further stream can be opened because the stream numbers are used up.
    pub(super) fn is_used_up(&self) -> bool {
        self.next_id > i32::MAX as u32
    }

    /// Processes received bytes; appends the resulting events to `events`.
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), NotHttp2> {
        while !bytes.is_empty() {
            if let Some((frame, body)) = self.frames.step(&mut bytes)? {
                self.take(frame, &body, events)?;
                self.frames.recycle(body);
            }
            if self.out.len() > MAX_WAITING + self.heads_len() {
                return Err(NotHttp2);
            }
        }
        Ok(())
    }

    fn take(&mut self, frame: Frame, body: &[u8], events: &mut Vec<Event>) -> Result<(), NotHttp2> {
        // The first frame is SETTINGS (RFC 9113 §3.4), and nothing comes within
        // a field section but the rest of it (§6.10).
        let is_first = !core::mem::replace(&mut self.has_settings, true);
        let is_rest = frame.kind == CONTINUATION;
        if (is_first && frame.kind != SETTINGS) || is_rest != self.section.is_some() {
            return Err(NotHttp2);
        }
        let id = frame.stream;
        if matches!(frame.kind, DATA | HEADERS | CONTINUATION) {
            events.push(Event::Bytes(id, u64::from(frame.length) + 9));
        }
        match frame.kind {
            DATA => self.take_data(frame, events),
            HEADERS => {
                let ends_stream = frame.has(END_STREAM);
                if let Some(stream) = self.stream(id) {
                    // Interim responses come before the final one; trailers
                    // behind it have no status.
                    let is_final = stream.status.is_some_and(|status| status >= 200);
                    if !is_final {
                        let section = frame.section(body).ok_or(NotHttp2)?;
                        stream.status = Some(status::of(section).ok_or(NotHttp2)?);
                    }
                }
                self.section = Some((id, ends_stream));
                self.end_section(frame, events);
            }
            CONTINUATION if self.section.is_some_and(|(of, _)| of == id) => {
                self.end_section(frame, events);
            }
            CONTINUATION | PUSH_PROMISE => return Err(NotHttp2),
            RST_STREAM => {
                let code = word(body).ok_or(NotHttp2)?;
                if self.forget(id) {
                    events.push(match code {
                        REFUSED_STREAM => Event::Unseen(id),
                        _ => Event::Reset(id),
                    });
                }
            }
            SETTINGS if !frame.has(ACK) => self.take_settings(body)?,
            PING if !frame.has(ACK) => self.frame(PING, ACK, 0, body),
            GOAWAY => {
                let last = word(body).ok_or(NotHttp2)? & 0x7fff_ffff;
                self.streams.retain(|stream| stream.id <= last);
                events.push(Event::Leaves(last));
            }
            WINDOW_UPDATE => {
                let more = i64::from(word(body).ok_or(NotHttp2)? & 0x7fff_ffff);
                self.take_window(id, more)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn end_section(&mut self, frame: Frame, events: &mut Vec<Event>) {
        if !frame.has(END_HEADERS) {
            return;
        }
        if let Some((id, true)) = self.section.take() {
            self.end_stream(id, events);
        }
    }

    fn end_stream(&mut self, id: u32, events: &mut Vec<Event>) {
        let Some(stream) = self.stream(id) else {
            return;
        };
        let (status, part, sent) = (stream.status, stream.part, stream.sent);
        let request = self.requests.get(usize::from(part));
        let has_unsent = request.is_some_and(|request| sent < request.body.len());
        if has_unsent {
            // Answered before the request was sent to its end: the rest is not wanted.
            self.cancel(id);
        } else {
            self.forget(id);
        }
        events.push(match status {
            Some(status) => Event::Done(id, status),
            None => Event::Reset(id),
        });
    }

    fn take_data(&mut self, frame: Frame, events: &mut Vec<Event>) {
        let length = i64::from(frame.length);
        self.taken += length;
        if self.taken > MAX_WINDOW / 2 {
            let taken = core::mem::take(&mut self.taken);
            self.widen(0, taken);
        }
        if frame.has(END_STREAM) {
            return self.end_stream(frame.stream, events);
        }
        let Some(stream) = self.stream(frame.stream) else {
            return;
        };
        stream.taken += length;
        if stream.taken > MAX_WINDOW / 2 {
            let taken = core::mem::take(&mut stream.taken);
            self.widen(frame.stream, taken);
        }
    }

    fn take_settings(&mut self, body: &[u8]) -> Result<(), NotHttp2> {
        if !body.len().is_multiple_of(6) {
            return Err(NotHttp2);
        }
        for setting in body.chunks_exact(6) {
            let &[a, b, c, d, e, f] = setting else {
                return Err(NotHttp2);
            };
            let value = u32::from_be_bytes([c, d, e, f]);
            match u16::from_be_bytes([a, b]) {
                MAX_CONCURRENT_STREAMS => self.most_streams = value,
                INITIAL_WINDOW_SIZE => {
                    let first = i64::from(value);
                    if first > MAX_WINDOW {
                        return Err(NotHttp2);
                    }
                    // Also for streams that are open; they may go below zero (§6.9.2).
                    let more = first - self.first_window;
                    self.streams.iter_mut().for_each(|s| s.window += more);
                    self.first_window = first;
                }
                _ => {}
            }
        }
        self.frame(SETTINGS, ACK, 0, &[]);
        Ok(())
    }

    fn take_window(&mut self, id: u32, more: i64) -> Result<(), NotHttp2> {
        let window = match id {
            0 => Some(&mut self.window),
            _ => self.stream(id).map(|stream| &mut stream.window),
        };
        if let Some(window) = window {
            *window += more;
            if *window > MAX_WINDOW || more == 0 {
                return Err(NotHttp2);
            }
        }
        Ok(())
    }

    fn stream(&mut self, id: u32) -> Option<&mut Stream> {
        self.streams.iter_mut().find(|stream| stream.id == id)
    }

    /// Removes a stream; returns true if it was known.
    fn forget(&mut self, id: u32) -> bool {
        let at = self.streams.iter().position(|stream| stream.id == id);
        at.map(|at| self.streams.swap_remove(at)).is_some()
    }
}

/// Returns the first four bytes as a number.
fn word(body: &[u8]) -> Option<u32> {
    body.first_chunk().copied().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests;
