//! Detection of the end of an HTTP/1.1 response (RFC 9112 §6).
//!
//! Input: the bytes of one connection, in pieces of any size. Output: the status of each response
//! and the position of its last byte. This module uses no sockets or clocks and stores no bodies.

mod chunked;
mod fields;

use core::mem::MaybeUninit;

use chunked::ChunkedBody;
use fields::{FieldFacts, Framing};

/// Maximum length of a response head, in bytes.
pub(crate) const MAX_HEAD_LEN: usize = 64 * 1024;
/// Maximum length in bytes of a head that is kept, so that the next head can be compared with it.
const MAX_REMEMBERED: usize = 1024;
/// Maximum number of header fields in one head.
const MAX_FIELDS: usize = 128;
/// Maximum number of interim responses (1xx) before the final one.
const MAX_INTERIM: u8 = 32;
/// The bytes at the start of every response head.
const PREFIX: &[u8] = b"HTTP/1.";

/// The bytes are not an HTTP/1 response, or are a response whose end cannot be determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotHttp;

/// Information from the head of a final response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The status code, 200 to 999.
    pub(crate) status: u16,
    /// True if the connection may carry another request.
    pub(crate) keeps_alive: bool,
}

/// The state of the response after a call of `feed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The response is not complete yet.
    More,
    /// The response is complete.
    Complete {
        /// The head of the response.
        head: Head,
        /// Number of bytes of this call that belong to the response.
        used: usize,
    },
}

/// A reader of consecutive responses.
#[derive(Debug)]
pub(crate) struct ResponseReader {
    state: State,
    /// The part of a head that arrived in earlier reads.
    partial_head: Vec<u8>,
    /// The last head that arrived in one read, with the result of parsing it. Most responses on a
    /// connection have the same head as the previous response, and need no parsing then.
    last_head: Option<(Vec<u8>, ParsedHead)>,
    is_head_request: bool,
    interim: u8,
    /// The name of a field whose values are kept, and those that have not been taken yet.
    kept: Option<(&'static str, Vec<String>)>,
}

#[derive(Debug)]
enum State {
    Head,
    /// A body of known length, with the number of bytes that are still missing.
    Length(Head, u64),
    Chunked(Head, ChunkedBody),
    UntilClose(Head),
}

impl ResponseReader {
    /// Creates a reader for the responses to `HEAD` requests or, if `is_head_request` is false, to
    /// requests with other methods.
    pub(crate) fn new(is_head_request: bool) -> Self {
        Self {
            state: State::Head,
            partial_head: Vec::new(),
            last_head: None,
            is_head_request,
            interim: 0,
            kept: None,
        }
    }

    /// Starts keeping the values of fields with this name until they are taken.
    pub(crate) fn keep_field(&mut self, name: &'static str) {
        self.kept = Some((name, Vec::new()));
    }

    /// Returns the values of the kept field since the last call.
    pub(crate) fn take_values(&mut self) -> Vec<String> {
        let kept = self.kept.as_mut();
        kept.map(|(_, values)| core::mem::take(values))
            .unwrap_or_default()
    }

    /// Discards a partial response. The next byte is the first byte of a new response.
    pub(crate) fn reset(&mut self) {
        self.state = State::Head;
        self.partial_head.clear();
        self.interim = 0;
    }

    /// Processes the next bytes of the connection.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Progress, NotHttp> {
        let mut used = 0;
        loop {
            let rest = bytes.get(used..).unwrap_or_default();
            if rest.is_empty() {
                return Ok(Progress::More);
            }
            let (taken, complete) = self.step(rest)?;
            used += taken;
            if let Some(head) = complete {
                self.reset();
                return Ok(Progress::Complete { head, used });
            }
        }
    }

    /// Records that the peer closed the connection. Returns the head of a response that ends with
    /// the close; `None` if there is no such response.
    pub(crate) fn close(&mut self) -> Result<Option<Head>, NotHttp> {
        let head = match &self.state {
            State::UntilClose(head) => Some(*head),
            // The response was too short to be recognized earlier.
            State::Head if !self.partial_head.is_empty() => {
                parse_head(&self.partial_head)?;
                None
            }
            _ => None,
        };
        self.reset();
        Ok(head)
    }

    /// Consumes at least one byte of `bytes`, which is not empty.
    fn step(&mut self, bytes: &[u8]) -> Result<(usize, Option<Head>), NotHttp> {
        match &mut self.state {
            State::Head => self.read_head(bytes),
            State::Length(head, left) => {
                let taken = bytes
                    .len()
                    .min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                Ok((taken, (*left == 0).then_some(*head)))
            }
            State::Chunked(head, body) => {
                let taken = body.feed(bytes)?;
                Ok((taken, body.is_complete().then_some(*head)))
            }
            State::UntilClose(_) => Ok((bytes.len(), None)),
        }
    }

    fn read_head(&mut self, bytes: &[u8]) -> Result<(usize, Option<Head>), NotHttp> {
        if self.partial_head.is_empty() {
            if let Some(parsed) = self.parse(bytes)? {
                self.note_values(bytes.get(..parsed.len).unwrap_or_default());
                return self.enter_body(parsed, parsed.len);
            }
            self.keep(bytes)?;
            return Ok((bytes.len(), None));
        }
        // Only the bytes up to the blank line belong to the head. The head is parsed only when this
        // line has arrived, so that a slow sender costs no extra work.
        let before = self.partial_head.len();
        let Some(end) = find_head_end(&self.partial_head, bytes) else {
            self.keep(bytes)?;
            return Ok((bytes.len(), None));
        };
        self.keep(bytes.get(..end).unwrap_or_default())?;
        let parsed = parse_head(&self.partial_head)?.ok_or(NotHttp)?;
        if parsed.len != before + end {
            return Err(NotHttp);
        }
        let head = core::mem::take(&mut self.partial_head);
        self.note_values(&head);
        self.enter_body(parsed, end)
    }

    /// Parses a head at the beginning of `bytes`, if it is complete. Bytes that equal the last head
    /// are not parsed again.
    fn parse(&mut self, bytes: &[u8]) -> Result<Option<ParsedHead>, NotHttp> {
        if let Some((known, parsed)) = &self.last_head
            && bytes.starts_with(known)
        {
            return Ok(Some(*parsed));
        }
        let parsed = parse_head(bytes)?;
        let remembered = parsed.filter(|parsed| parsed.len <= MAX_REMEMBERED);
        if let Some((parsed, head)) =
            remembered.and_then(|parsed| Some((parsed, bytes.get(..parsed.len)?)))
        {
            let (known, said) = self.last_head.get_or_insert((Vec::new(), parsed));
            known.clear();
            known.extend_from_slice(head);
            *said = parsed;
        }
        Ok(parsed)
    }

    fn note_values(&mut self, head: &[u8]) {
        let Some((name, values)) = &mut self.kept else {
            return;
        };
        for line in head.split(|&byte| byte == b'\n') {
            let Some(colon) = line.iter().position(|&byte| byte == b':') else {
                continue;
            };
            let (named, value) = line.split_at(colon);
            if named.eq_ignore_ascii_case(name.as_bytes()) && values.len() < MAX_FIELDS {
                let value = value.get(1..).unwrap_or_default();
                values.push(String::from_utf8_lossy(value).trim().to_owned());
            }
        }
    }

    /// Keeps a part of a head until the other parts arrive.
    fn keep(&mut self, bytes: &[u8]) -> Result<(), NotHttp> {
        if self.partial_head.len() + bytes.len() > MAX_HEAD_LEN {
            return Err(NotHttp);
        }
        self.partial_head.extend_from_slice(bytes);
        let known = self.partial_head.len().min(PREFIX.len());
        if self.partial_head.get(..known) == PREFIX.get(..known) {
            Ok(())
        } else {
            Err(NotHttp)
        }
    }

    /// Determines the framing of the body after the head (RFC 9112 §6.3).
    fn enter_body(
        &mut self,
        parsed: ParsedHead,
        taken: usize,
    ) -> Result<(usize, Option<Head>), NotHttp> {
        if parsed.status < 200 {
            // Status 101 would change the protocol, which no request asks for.
            self.interim += 1;
            let is_acceptable = parsed.status != 101 && self.interim <= MAX_INTERIM;
            return if is_acceptable {
                Ok((taken, None))
            } else {
                Err(NotHttp)
            };
        }
        let head = Head {
            status: parsed.status,
            keeps_alive: parsed.keeps_alive,
        };
        let has_no_body = self.is_head_request || matches!(parsed.status, 204 | 304);
        self.state = match parsed.framing {
            _ if has_no_body => return Ok((taken, Some(head))),
            Framing::Length(0) => return Ok((taken, Some(head))),
            Framing::Length(length) => State::Length(head, length),
            Framing::Chunked => State::Chunked(head, ChunkedBody::default()),
            Framing::UntilClose => State::UntilClose(Head {
                keeps_alive: false,
                ..head
            }),
        };
        Ok((taken, None))
    }
}

#[derive(Clone, Copy, Debug)]
struct ParsedHead {
    len: usize,
    status: u16,
    keeps_alive: bool,
    framing: Framing,
}

/// Parses a head; `None` if it is not complete yet.
fn parse_head(bytes: &[u8]) -> Result<Option<ParsedHead>, NotHttp> {
    let known = bytes.len().min(PREFIX.len());
    if bytes.get(..known) != PREFIX.get(..known) {
        return Err(NotHttp);
    }
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        bytes,
        &mut fields,
    );
    let len = match parsed {
        Ok(httparse::Status::Complete(len)) if len <= MAX_HEAD_LEN => len,
        Ok(httparse::Status::Partial) if bytes.len() <= MAX_HEAD_LEN => return Ok(None),
        _ => return Err(NotHttp),
    };
    let status = response.code.filter(|&code| code >= 100).ok_or(NotHttp)?;
    let mut facts = FieldFacts::default();
    for field in response.headers.iter() {
        facts.note(field)?;
    }
    Ok(Some(ParsedHead {
        len,
        status,
        keeps_alive: facts.keeps_alive(response.version == Some(1)),
        framing: facts.framing(),
    }))
}

/// Returns the position in `bytes` after the blank line that ends a head. `before` contains the
/// bytes before `bytes`.
fn find_head_end(before: &[u8], bytes: &[u8]) -> Option<usize> {
    let tail = before
        .get(before.len().saturating_sub(2)..)
        .unwrap_or_default();
    // The end of `before` can be a part of the blank line: `\n` or `\n\r`.
    let mut is_line_start = tail.ends_with(b"\n") || tail.ends_with(b"\n\r");
    let mut saw_return = tail.ends_with(b"\n\r");
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'\n' if is_line_start => return Some(at + 1),
            b'\n' => (is_line_start, saw_return) = (true, false),
            b'\r' if is_line_start && !saw_return => saw_return = true,
            _ => (is_line_start, saw_return) = (false, false),
        }
    }
    None
}

#[cfg(test)]
mod tests;
