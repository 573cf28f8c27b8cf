//! The client's side of HTTP/2 on one connection (RFC 9113). Converts requests to frames and frames to events,
//! without I/O or times.
//!
//! Only the status, the length and the end of a response are used. SETTINGS_HEADER_TABLE_SIZE is 0,
//! so that the server uses no dynamic table and each field section can be decoded by itself. This
//! side's flow-control windows have the maximum size, so that no response waits for them.

mod frame;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod request;
mod sending;
mod status;
mod trailers;

use frame::{Frame, Frames};
pub(crate) use request::Encoded;

/// The connection preface of a client (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Maximum frame size in both directions, in bytes. Every endpoint must accept at least this size.
const MAX_FRAME: usize = 16_384;
/// The maximum flow-control window and the initial one, in bytes (RFC 9113 §6.9.1).
const MAX_WINDOW: i64 = (1 << 31) - 1;
const FIRST_WINDOW: i64 = 65_535;
/// Maximum number of bytes in unsent replies to the server's frames. A server that does not read so
/// many replies will not respond either.
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

/// The peer does not use HTTP/2, or violates its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotHttp2;

/// The meaning of a received frame for the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Bytes of a response. Contains the stream and the number of bytes.
    Bytes(u32, u64),
    /// A complete response. Contains the stream and the status.
    Done(u32, u16),
    /// A call of gRPC that failed. Contains the stream and the `grpc-status`.
    CallFailed(u32, u8),
    /// The server has reset this stream.
    Reset(u32),
    /// The server has not processed the request on this stream. The request may be sent again.
    Unseen(u32),
    /// The server accepts no further requests. Contains the last stream that it processes; requests
    /// on later streams are not processed.
    Leaves(u32),
}

/// A stream that this side opened.
#[derive(Debug)]
struct Stream {
    id: u32,
    /// Index of the request on this stream.
    part: u16,
    /// The request, if it differs from others of this index.
    own: Option<std::sync::Arc<Encoded>>,
    /// The server's flow-control window for this stream, in bytes, less the initial window: a change of
    /// that one concerns all open streams, and costs nothing for each.
    beyond_first: i64,
    /// Number of bytes of the request's body sent so far.
    sent: usize,
    /// Bytes received since the last WINDOW_UPDATE, which reduce this side's window.
    taken: i64,
    status: Option<u16>,
    /// The `grpc-status` of the response.
    grpc: Option<u8>,
}

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Session {
    requests: std::sync::Arc<[Encoded]>,
    frames: Frames,
    streams: Vec<Stream>,
    next_id: u32,
    /// The server's limits: number of concurrent streams, and initial window of each stream in
    /// bytes.
    most_streams: u32,
    first_window: i64,
    /// The server's window for the connection, and the received bytes that reduce this side's
    /// window.
    window: i64,
    taken: i64,
    /// The incomplete field section: its stream, and true if the section ends the stream.
    section: Option<(u32, bool)>,
    out: Vec<u8>,
    has_settings: bool,
}

impl Session {
    /// Creates the session of a new connection that can send any of `requests`.
    pub(crate) fn new(requests: std::sync::Arc<[Encoded]>) -> Self {
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

    /// Returns the number of streams that may be open at the same time.
    pub(crate) fn most_streams(&self) -> usize {
        self.most_streams as usize
    }

    /// Returns true if no further stream can be opened because the stream numbers are used up.
    pub(crate) fn is_used_up(&self) -> bool {
        self.next_id > i32::MAX as u32
    }

    /// Processes received bytes, and appends the resulting events to `events`.
    pub(crate) fn feed(
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
        // The first frame must be SETTINGS (RFC 9113 §3.4). After an incomplete field section, only
        // CONTINUATION frames may come (§6.10).
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
                    // Interim responses precede the final one. Trailers follow it and have no
                    // status.
                    let is_final = stream.status.is_some_and(|status| status >= 200);
                    let section = frame.section(body).ok_or(NotHttp2)?;
                    if !is_final {
                        stream.status = Some(status::of(section).ok_or(NotHttp2)?);
                    }
                    stream.grpc = trailers::grpc_status(section).or(stream.grpc);
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
        let (status, grpc, part) = (stream.status, stream.grpc, stream.part);
        let sent = stream.sent;
        let own = stream.own.take();
        let shared = self.requests.get(usize::from(part));
        let request = own.as_deref().or(shared);
        let is_grpc = request.is_some_and(|request| request.is_grpc);
        let has_unsent = request.is_some_and(|request| sent < request.body.len());
        if has_unsent {
            // The response came before the request was sent completely. The server does not need
            // the other bytes.
            self.cancel(id);
        } else {
            self.forget(id);
        }
        events.push(match status {
            Some(200) if is_grpc => match grpc.unwrap_or(trailers::UNKNOWN) {
                0 => Event::Done(id, 200),
                code => Event::CallFailed(id, code),
            },
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
                    // The change applies to open streams too, whose windows may become negative
                    // (§6.9.2).
                    self.first_window = first;
                }
                _ => {}
            }
        }
        self.frame(SETTINGS, ACK, 0, &[]);
        Ok(())
    }

    fn take_window(&mut self, id: u32, more: i64) -> Result<(), NotHttp2> {
        let (first, beyond) = match id {
            0 => (0, Some(&mut self.window)),
            _ => {
                let first = self.first_window;
                (
                    first,
                    self.stream(id).map(|stream| &mut stream.beyond_first),
                )
            }
        };
        if let Some(beyond) = beyond {
            *beyond += more;
            if first + *beyond > MAX_WINDOW || more == 0 {
                return Err(NotHttp2);
            }
        }
        Ok(())
    }

    fn stream(&mut self, id: u32) -> Option<&mut Stream> {
        self.streams.iter_mut().find(|stream| stream.id == id)
    }

    /// Removes a stream. Returns true if it existed.
    fn forget(&mut self, id: u32) -> bool {
        let at = self.streams.iter().position(|stream| stream.id == id);
        at.map(|at| self.streams.swap_remove(at)).is_some()
    }
}

/// Returns the first four bytes as a number; `None` if there are fewer.
fn word(body: &[u8]) -> Option<u32> {
    body.first_chunk().copied().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests;
