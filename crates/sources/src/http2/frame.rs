//! A parser that finds the boundaries of frames (RFC 9113 §4.1).

use super::{
    CONTINUATION, DATA, GOAWAY, HEADERS, MAX_FRAME, NotHttp2, PING, RST_STREAM, SETTINGS,
    WINDOW_UPDATE,
};

/// Length of a frame's header, in bytes.
const HEADER: usize = 9;
/// Flags of HEADERS.
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) length: u32,
    pub(super) kind: u8,
    flags: u8,
    pub(super) stream: u32,
}

impl Frame {
    fn parse(bytes: [u8; HEADER]) -> Self {
        let [a, b, c, kind, flags, s, t, u, v] = bytes;
        Self {
            length: u32::from_be_bytes([0, a, b, c]),
            kind,
            flags,
            stream: u32::from_be_bytes([s & 0x7f, t, u, v]),
        }
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns the field section of a HEADERS frame, without its padding.
    pub(super) fn section(self, body: &[u8]) -> Option<&[u8]> {
        let (padding, rest) = if self.has(PADDED) {
            (usize::from(*body.first()?), body.get(1..)?)
        } else {
            (0, body)
        };
        let rest = if self.has(PRIORITY) {
            rest.get(5..)?
        } else {
            rest
        };
        rest.get(..rest.len().checked_sub(padding)?)
    }

    /// Checks that the length and the stream are valid for the frame's type.
    fn check(self) -> Result<(), NotHttp2> {
        let is_of_connection = matches!(self.kind, SETTINGS | PING | GOAWAY);
        let is_of_stream = matches!(self.kind, DATA | HEADERS | RST_STREAM | CONTINUATION);
        let is_right = match self.kind {
            RST_STREAM | WINDOW_UPDATE => self.length == 4,
            PING => self.length == 8,
            GOAWAY => self.length >= 8,
            _ => true,
        };
        let has_right_stream = match self.stream {
            0 => !is_of_stream,
            _ => !is_of_connection,
        };
        let is_short = self.length as usize <= MAX_FRAME;
        (is_right && has_right_stream && is_short)
            .then_some(())
            .ok_or(NotHttp2)
    }
}

/// A parser of the server's frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    header: [u8; HEADER],
    /// Number of header bytes received so far.
    have: usize,
    /// The frame that is being received, and the number of missing bytes.
    current: Option<(Frame, usize)>,
    /// The body received so far. The body of DATA frames is not kept.
    body: Vec<u8>,
}

impl Frames {
    /// Consumes bytes from the start of `bytes`, which is not empty. If they complete a frame,
    /// returns it with its body. For DATA frames, the body is empty.
    pub(super) fn step(&mut self, bytes: &mut &[u8]) -> Result<Option<(Frame, Vec<u8>)>, NotHttp2> {
        let (frame, left) = match self.current {
            Some(current) => current,
            None => {
                let room = self.header.get_mut(self.have..).unwrap_or_default();
                let len = room.len().min(bytes.len());
                let (taken, rest) = bytes.split_at(len);
                room.iter_mut()
                    .zip(taken)
                    .for_each(|(to, from)| *to = *from);
                *bytes = rest;
                self.have += len;
                if self.have < HEADER {
                    return Ok(None);
                }
                self.have = 0;
                let frame = Frame::parse(self.header);
                frame.check()?;
                (frame, frame.length as usize)
            }
        };
        let (taken, rest) = bytes.split_at(left.min(bytes.len()));
        *bytes = rest;
        if frame.kind != DATA {
            self.body.extend_from_slice(taken);
        }
        let left = left - taken.len();
        self.current = (left > 0).then_some((frame, left));
        Ok((left == 0).then(|| (frame, core::mem::take(&mut self.body))))
    }

    /// Reuses the memory of a body for the next one.
    pub(super) fn recycle(&mut self, mut body: Vec<u8>) {
        if self.body.capacity() == 0 {
            body.clear();
            self.body = body;
        }
    }
}
