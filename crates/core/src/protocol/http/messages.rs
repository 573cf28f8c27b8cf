//! The messages of one direction, parsed byte by byte.

use memchr::memchr;

use super::{Framing, Head, Role, begins_message, repeated};
use crate::protocol::{Step, skip};

/// Maximum length of a head that is kept, in bytes. A longer one is not plausible HTTP.
const MAX_HEAD: usize = 64 * 1024;
/// Maximum length of a chunk-size line in bytes, including its extensions.
const MAX_CHUNK_LINE: usize = 256;

/// The messages of one direction.
#[derive(Clone, Debug)]
pub(crate) struct Messages {
    role: Role,
    state: State,
    head: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Between messages, where stray CRLF are skipped (RFC 9112 §2.2).
    Between,
    Head,
    /// In a body; contains the number of remaining bytes.
    Length(u64),
    /// Collecting a chunk-size line in `head`.
    ChunkSize,
    /// In a chunk; contains the number of remaining bytes, including its CRLF.
    Chunk(u64),
    /// Collecting the trailer section in `head`.
    Trailer,
    /// In a body that lasts until the connection closes.
    UntilClose,
    /// After the message's last byte. The next step is the end of the message.
    Ending,
    Lost,
}

impl Messages {
    pub(crate) fn new(role: Role) -> Self {
        Self {
            role,
            state: State::Between,
            head: Vec::new(),
        }
    }

    /// Returns the memory that the parser holds, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.head.capacity()
    }

    /// Starts over at the first byte of a message.
    pub(crate) fn reset(&mut self) {
        self.state = State::Between;
        self.head = Vec::new();
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.state == State::Lost
    }

    /// Returns the number of body bytes of the current message that are still to come; `None` if
    /// the message does not announce its length.
    pub(crate) fn awaited_bytes(&self) -> Option<u64> {
        match self.state {
            State::Length(left) => Some(left),
            _ => None,
        }
    }

    /// Returns true if the current message lasts until the connection ends.
    pub(crate) fn ends_with_connection(&self) -> bool {
        self.state == State::UntilClose
    }

    /// Skips `length` bytes at once if all of them are in the body and do not end it. Returns true
    /// if they were skipped.
    pub(crate) fn pass(&mut self, length: u64) -> bool {
        match &mut self.state {
            State::Length(left) | State::Chunk(left) if *left > length => {
                *left -= length;
                true
            }
            State::UntilClose | State::Lost => true,
            _ => false,
        }
    }

    /// Returns the head of a message and its length, if exactly these bytes are the message, and its
    /// head was read before. Then the state after it is the one before it.
    pub(crate) fn whole(&self, bytes: &[u8]) -> Option<(Head, usize)> {
        let is_between = self.state == State::Between;
        is_between.then(|| repeated::whole(self.role, bytes))?
    }

    /// Records that the response whose head was just read has no body, because it answers `HEAD`.
    pub(crate) fn no_body(&mut self) {
        self.state = State::Ending;
    }

    /// Continues with `bytes` and then `missing` bytes that were not captured. Each step removes
    /// what it consumed from both.
    pub(crate) fn step(&mut self, bytes: &mut &[u8], missing: &mut u64) -> Step {
        loop {
            match self.state {
                State::Lost => {
                    *bytes = &[];
                    *missing = 0;
                    return Step::NeedMore;
                }
                State::Ending => {
                    self.state = State::Between;
                    return Step::Ended;
                }
                _ if bytes.is_empty() && *missing == 0 => return Step::NeedMore,
                State::UntilClose => {
                    *bytes = &[];
                    *missing = 0;
                }
                State::Length(left) => {
                    let left = skip(left, bytes, missing);
                    self.state = if left == 0 {
                        State::Ending
                    } else {
                        State::Length(left)
                    };
                }
                State::Chunk(left) => {
                    let left = skip(left, bytes, missing);
                    self.state = if left == 0 {
                        State::ChunkSize
                    } else {
                        State::Chunk(left)
                    };
                }
                _ if bytes.is_empty() => return self.lose(),
                State::Between => {
                    if let Some(step) = self.begin(bytes) {
                        return step;
                    }
                }
                State::Head => {
                    if let Some(step) = self.read_head(bytes) {
                        return step;
                    }
                }
                State::ChunkSize => {
                    if !self.read_chunk_size(bytes) {
                        return self.lose();
                    }
                }
                State::Trailer => {
                    if !self.read_trailer(bytes) {
                        return self.lose();
                    }
                }
            }
        }
    }

    fn lose(&mut self) -> Step {
        self.state = State::Lost;
        self.head = Vec::new();
        Step::Lost
    }

    fn begin(&mut self, bytes: &mut &[u8]) -> Option<Step> {
        let stray = bytes
            .iter()
            .take_while(|&&byte| byte == b'\r' || byte == b'\n')
            .count();
        *bytes = bytes.get(stray..).unwrap_or_default();
        if bytes.is_empty() {
            return None;
        }
        if !begins_message(self.role, bytes) {
            return Some(self.lose());
        }
        self.head.clear();
        self.state = State::Head;
        Some(Step::Began)
    }

    /// Consumes bytes up to and including the head's empty line. Most heads arrive in one piece.
    fn read_head(&mut self, bytes: &mut &[u8]) -> Option<Step> {
        if self.head.is_empty()
            && let Some((head, framing, len)) = repeated::read(self.role, bytes)
        {
            *bytes = bytes.get(len..).unwrap_or_default();
            return Some(self.enter_body(head, framing));
        }
        while let Some(newline) = memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(newline + 1);
            *bytes = rest;
            self.head.extend_from_slice(line);
            if self.head.len() > MAX_HEAD {
                return Some(self.lose());
            }
            if self.head.ends_with(b"\n\r\n") || self.head.ends_with(b"\n\n") {
                let whole = core::mem::take(&mut self.head);
                return Some(match repeated::read(self.role, &whole) {
                    Some((head, framing, _)) => self.enter_body(head, framing),
                    None => self.lose(),
                });
            }
        }
        self.head.extend_from_slice(bytes);
        *bytes = &[];
        (self.head.len() > MAX_HEAD).then(|| self.lose())
    }

    fn enter_body(&mut self, head: Head, framing: Framing) -> Step {
        self.state = match framing {
            Framing::Empty => State::Ending,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => State::ChunkSize,
            Framing::UntilClose => State::UntilClose,
        };
        Step::Head(head)
    }

    /// Reads `chunk-size [ext] CRLF` (RFC 9112 §7.1), and the CRLF before it. Returns false if they
    /// are malformed.
    fn read_chunk_size(&mut self, bytes: &mut &[u8]) -> bool {
        let Some(line) = self.take_line(bytes) else {
            return self.head.len() <= MAX_CHUNK_LINE;
        };
        let size = line
            .split(|&byte| byte == b';')
            .next()
            .unwrap_or_default()
            .trim_ascii();
        if size.is_empty() || size.len() > 16 {
            return false;
        }
        let Some(size) = core::str::from_utf8(size)
            .ok()
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        else {
            return false;
        };
        // The chunk's CRLF of two bytes is counted with the chunk.
        self.state = match size {
            0 => State::Trailer,
            size => State::Chunk(size.saturating_add(2)),
        };
        true
    }

    fn read_trailer(&mut self, bytes: &mut &[u8]) -> bool {
        let Some(line) = self.take_line(bytes) else {
            return self.head.len() <= MAX_HEAD;
        };
        if line.trim_ascii().is_empty() {
            self.state = State::Ending;
        }
        true
    }

    /// Consumes one line with its newline. If the newline has not arrived, stores the available
    /// bytes and returns `None`.
    fn take_line(&mut self, bytes: &mut &[u8]) -> Option<Vec<u8>> {
        let Some(newline) = memchr(b'\n', bytes) else {
            self.head.extend_from_slice(bytes);
            *bytes = &[];
            return None;
        };
        let (line, rest) = bytes.split_at(newline + 1);
        *bytes = rest;
        self.head.extend_from_slice(line);
        Some(core::mem::take(&mut self.head))
    }
}
