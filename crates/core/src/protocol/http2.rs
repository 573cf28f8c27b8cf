//! HTTP/2 frames in clear text (RFC 9113 §4, §6): with prior knowledge, or after an upgrade from
//! HTTP/1.1 (`h2c`).
//!
//! The parser reads the positions of frames, their streams, requests and responses, and the
//! flow-control windows.

mod grpc;
mod hpack;
mod huffman;

pub(crate) use grpc::{GrpcMessages, status_name};
pub(crate) use hpack::{Fields, StreamType};

use super::{Step, skip};
use hpack::HpackDecoder;

/// The preface, the first bytes that a client sends (RFC 9113 §3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Length of a frame's header, in bytes.
pub(crate) const HEADER: u64 = 9;
/// Maximum length of a field section that is kept, in bytes, including its continuations.
const LONGEST_SECTION: usize = 64 * 1024;

/// Frame types (RFC 9113 §6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
/// Flags of frames (RFC 9113 §6).
const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// Identifiers of settings (RFC 9113 §6.5.2).
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;

/// Progress in a direction's frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The header of a frame is complete; it began [`HEADER`] bytes earlier.
    Began(FrameHeader),
    /// The last byte of a frame arrived. Contains the frame's meaning.
    Ended(FrameHeader, Meaning),
}

/// A frame's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) length: u32,
    kind: u8,
    flags: u8,
    pub(crate) stream: u32,
}

/// Meaning of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The first bytes of the data, as far as they were captured and a gRPC message's length may be
    /// in them.
    Data(Option<[u8; grpc::PREFIX]>),
    /// A field section is complete; `None` if it could not be read.
    Headers(Option<Box<Fields>>),
    Settings(Settings),
    WindowUpdate(u32),
    /// The stream ends now, with this error code (RFC 9113 §6.4).
    Reset(u32),
    /// The sender ends the connection (RFC 9113 §6.8).
    GoAway(GoAway),
    Other,
}

/// The settings that matter to the peer's requests; `None` if they stay as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The initial size of each stream's window.
    pub(crate) initial_window: Option<u32>,
    /// The maximum number of streams that the peer may have open at the same time.
    pub(crate) most_streams: Option<u32>,
}

/// The announcement that a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GoAway {
    /// The last stream that its sender processes.
    pub(crate) last_stream: u32,
    pub(crate) code: u32,
}

impl FrameHeader {
    pub(crate) fn is_data(&self) -> bool {
        self.kind == DATA
    }

    pub(crate) fn is_headers(&self) -> bool {
        self.kind == HEADERS
    }

    /// Returns true if the frame's sender sends nothing more on the stream.
    pub(crate) fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }

    fn parse(bytes: &[u8; HEADER as usize]) -> Self {
        let &[a, b, c, kind, flags, s, t, u, v] = bytes;
        Self {
            length: u32::from_be_bytes([0, a, b, c]),
            kind,
            flags,
            stream: u32::from_be_bytes([s & 0x7f, t, u, v]),
        }
    }

    /// Returns true if this can be a frame: its type is known, its length does not exceed the
    /// default limit, and its type is allowed on its stream.
    fn is_plausible(&self) -> bool {
        let is_of_connection = matches!(self.kind, SETTINGS | 6 | 7);
        let has_right_stream = match self.kind {
            WINDOW_UPDATE => true,
            _ => (self.stream == 0) == is_of_connection,
        };
        self.kind <= CONTINUATION && self.length <= 1 << 14 && has_right_stream
    }

    /// Returns true if a client may send the frame: its stream, its flags and its length are right
    /// for its type.
    fn is_of_client(&self) -> bool {
        let is_odd = self.stream % 2 == 1;
        let has_only = |flags: u8| self.flags & !flags == 0;
        match self.kind {
            DATA => is_odd && has_only(END_STREAM | PADDED),
            HEADERS => {
                is_odd
                    && self.length > 0
                    && self.flags & END_HEADERS != 0
                    && has_only(END_STREAM | END_HEADERS | PADDED | PRIORITY)
            }
            RST_STREAM => is_odd && self.length == 4 && has_only(0),
            SETTINGS => self.length.is_multiple_of(6) && has_only(ACK),
            PING => self.length == 8 && has_only(ACK),
            WINDOW_UPDATE => self.length == 4 && has_only(0),
            _ => false,
        }
    }

    fn is_kept(&self) -> bool {
        matches!(
            self.kind,
            HEADERS | CONTINUATION | SETTINGS | WINDOW_UPDATE | PUSH_PROMISE | RST_STREAM | GOAWAY
        )
    }
}

/// Returns true if `bytes` match the preface of an HTTP/2 client as far as they go.
pub(crate) fn begins_preface(bytes: &[u8]) -> bool {
    // At least five bytes are needed, which cannot begin a method of HTTP/1.x.
    bytes.len() >= 5 && bytes.iter().zip(PREFACE).all(|(a, b)| a == b)
}

/// Returns true if `bytes` may begin a frame.
pub(crate) fn begins_frame(bytes: &[u8]) -> bool {
    bytes
        .first_chunk()
        .is_some_and(|header| FrameHeader::parse(header).is_plausible())
}

/// Returns true if `bytes`, the payload of a whole segment, are frames of a client, and not data
/// alone: a connection whose beginning was not seen.
pub(crate) fn are_frames(bytes: &[u8]) -> bool {
    let (mut rest, mut has_other) = (bytes, false);
    while !rest.is_empty() {
        let Some((header, after)) = rest.split_first_chunk() else {
            return false;
        };
        let frame = FrameHeader::parse(header);
        if !frame.is_plausible() || !frame.is_of_client() {
            return false;
        }
        has_other |= !frame.is_data();
        let Some(next) = after.get(frame.length as usize..) else {
            return false;
        };
        rest = next;
    }
    has_other
}

/// The frames of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frames {
    state: State,
    header: [u8; HEADER as usize],
    /// The captured part of the current frame's body, if the body is needed.
    body: Vec<u8>,
    is_torn: bool,
    /// The field section that is being read.
    section: Vec<u8>,
    /// True if a part of that section is missing.
    is_section_torn: bool,
    opened: Option<FrameHeader>,
    decoder: HpackDecoder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the preface; contains the number of its bytes that have arrived.
    Preface(usize),
    Header(usize),
    Body(FrameHeader, u32),
    Lost,
}

impl Default for State {
    fn default() -> Self {
        Self::Header(0)
    }
}

impl Frames {
    /// Creates the parser of a direction; `has_preface` is true if it begins with the preface.
    pub(crate) fn new(has_preface: bool) -> Self {
        Self {
            state: if has_preface {
                State::Preface(0)
            } else {
                State::Header(0)
            },
            ..Self::default()
        }
    }

    /// Returns the memory that the parser holds, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.body.capacity() + self.section.capacity() + self.decoder.held_bytes()
    }

    /// Starts over at the first byte of a frame. The missed bytes may have changed the dynamic
    /// table, so field sections are no longer decoded.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
        self.decoder.miss();
    }

    /// Waits for the first byte of a frame, because the bytes so far may be in the middle of one.
    pub(crate) fn join(&mut self) {
        self.reset();
        self.state = State::Lost;
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.state == State::Lost
    }

    pub(crate) fn step(&mut self, bytes: &mut &[u8], missing: &mut u64) -> Step {
        loop {
            match self.state {
                State::Lost => {
                    *bytes = &[];
                    *missing = 0;
                    return Step::NeedMore;
                }
                State::Body(frame, 0) => {
                    self.state = State::Header(0);
                    let (frame, meaning) = self.finish(frame);
                    return Step::Http2(Event::Ended(frame, meaning));
                }
                _ if bytes.is_empty() && *missing == 0 => return Step::NeedMore,
                State::Body(frame, left) => {
                    self.state = State::Body(frame, self.read_body(frame, left, bytes, missing));
                }
                _ if bytes.is_empty() => return self.lose(),
                State::Preface(have) => {
                    let left = PREFACE.get(have..).unwrap_or_default();
                    let count = left.len().min(bytes.len());
                    let (taken, rest) = bytes.split_at(count);
                    if taken != left.get(..count).unwrap_or_default() {
                        return self.lose();
                    }
                    *bytes = rest;
                    self.state = match have + count {
                        all if all >= PREFACE.len() => State::Header(0),
                        some => State::Preface(some),
                    };
                }
                State::Header(have) => {
                    if let Some(step) = self.read_header(have, bytes) {
                        return step;
                    }
                }
            }
        }
    }

    fn lose(&mut self) -> Step {
        self.reset();
        self.state = State::Lost;
        Step::Lost
    }

    fn read_header(&mut self, have: usize, bytes: &mut &[u8]) -> Option<Step> {
        let place = self.header.get_mut(have..)?;
        let count = place.len().min(bytes.len());
        let (taken, after) = bytes.split_at(count);
        place
            .iter_mut()
            .zip(taken)
            .for_each(|(to, &from)| *to = from);
        *bytes = after;
        if have + count < HEADER as usize {
            self.state = State::Header(have + count);
            return None;
        }
        let frame = FrameHeader::parse(&self.header);
        // Unknown types are ignored (RFC 9113 §4.1). A length above 1 MiB shows that this is not a
        // frame.
        if frame.length > 1 << 20 {
            return Some(self.lose());
        }
        self.body.clear();
        self.is_torn = false;
        self.state = State::Body(frame, frame.length);
        Some(Step::Http2(Event::Began(frame)))
    }

    fn read_body(
        &mut self,
        frame: FrameHeader,
        left: u32,
        bytes: &mut &[u8],
        missing: &mut u64,
    ) -> u32 {
        let captured = (left as usize).min(bytes.len());
        if frame.is_data() {
            let wanted = grpc::PREFIX.saturating_sub(self.body.len()).min(captured);
            let taken = bytes.get(..wanted).unwrap_or_default();
            let is_first = self.body.len() as u32 == frame.length - left;
            self.body.extend(taken.iter().filter(|_| is_first));
        } else if frame.is_kept() {
            let taken = bytes.get(..captured).unwrap_or_default();
            let has_room = self.body.len() + captured <= LONGEST_SECTION;
            self.is_torn |= !has_room || captured < left as usize && *missing > 0;
            if has_room {
                self.body.extend_from_slice(taken);
            }
        }
        skip(u64::from(left), bytes, missing) as u32
    }

    fn finish(&mut self, frame: FrameHeader) -> (FrameHeader, Meaning) {
        let body = core::mem::take(&mut self.body);
        let meaning = match frame.kind {
            DATA => Meaning::Data(body.first_chunk().copied()),
            RST_STREAM => body.first_chunk().map_or(Meaning::Other, |&code| {
                Meaning::Reset(u32::from_be_bytes(code))
            }),
            GOAWAY => go_away(&body).map_or(Meaning::Other, Meaning::GoAway),
            HEADERS | PUSH_PROMISE | CONTINUATION => return self.section(frame, &body),
            SETTINGS if frame.flags & ACK == 0 => Meaning::Settings(settings(&body)),
            WINDOW_UPDATE => match body.first_chunk() {
                Some(bytes) => Meaning::WindowUpdate(u32::from_be_bytes(*bytes) & 0x7fff_ffff),
                None => Meaning::Other,
            },
            _ => Meaning::Other,
        };
        self.body = body;
        (frame, meaning)
    }

    /// Processes a frame that contains a field section or a part of one.
    fn section(&mut self, frame: FrameHeader, body: &[u8]) -> (FrameHeader, Meaning) {
        if frame.kind != CONTINUATION {
            self.section.clear();
            self.is_section_torn = false;
            self.opened = Some(frame);
        }
        let fragment = fragment(frame, body).filter(|_| !self.is_torn);
        let has_room = self.section.len() + body.len() <= LONGEST_SECTION;
        match fragment.filter(|_| has_room) {
            Some(fragment) => self.section.extend_from_slice(fragment),
            None => {
                self.is_section_torn = true;
                self.decoder.miss();
            }
        }
        if frame.flags & END_HEADERS == 0 {
            return (frame, Meaning::Other);
        }
        let opened = self.opened.take().unwrap_or(frame);
        let section = core::mem::take(&mut self.section);
        let is_whole = !self.is_section_torn;
        let fields = is_whole.then(|| self.decoder.decode(&section)).flatten();
        let fields = fields.map(Box::new);
        match opened.kind {
            // A promised request is not sent by the client.
            PUSH_PROMISE => (frame, Meaning::Other),
            _ => (opened, Meaning::Headers(fields)),
        }
    }
}

/// Returns the field section in a frame's body, without padding and priority (RFC 9113 §6.2, §6.6).
fn fragment(frame: FrameHeader, body: &[u8]) -> Option<&[u8]> {
    if frame.kind == CONTINUATION {
        return Some(body);
    }
    let is_padded = frame.flags & PADDED != 0;
    let padding = if is_padded {
        usize::from(*body.first()?)
    } else {
        0
    };
    let has_priority = frame.kind == HEADERS && frame.flags & PRIORITY != 0;
    let promised = usize::from(frame.kind == PUSH_PROMISE) * 4;
    let begin = usize::from(is_padded) + usize::from(has_priority) * 5 + promised;
    body.get(begin..body.len().checked_sub(padding)?)
}

fn settings(body: &[u8]) -> Settings {
    let mut settings = Settings::default();
    for setting in body.as_chunks().0 {
        let &[a, b, c, d, e, f] = setting;
        let value = Some(u32::from_be_bytes([c, d, e, f]));
        match u16::from_be_bytes([a, b]) {
            MAX_CONCURRENT_STREAMS => settings.most_streams = value,
            INITIAL_WINDOW_SIZE => settings.initial_window = value,
            _ => {}
        }
    }
    settings
}

fn go_away(body: &[u8]) -> Option<GoAway> {
    let &[a, b, c, d, e, f, g, h] = body.first_chunk()?;
    Some(GoAway {
        last_stream: u32::from_be_bytes([a & 0x7f, b, c, d]),
        code: u32::from_be_bytes([e, f, g, h]),
    })
}

/// Returns the name of an error code (RFC 9113 §7).
pub(crate) fn error_name(code: u32) -> &'static str {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    NAMES.get(code as usize).copied().unwrap_or("unknown code")
}
