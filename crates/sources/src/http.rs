//! Where an HTTP/1.1 response ends (RFC 9112 §6).
//!
//! In: the bytes of one connection, split as they come. Out: the status and
//! the response's last byte. No sockets and no time; bodies are not stored.

mod chunked;
mod fields;

use core::mem::MaybeUninit;

use chunked::ChunkedBody;
use fields::{FieldFacts, Framing};

/// Longest response head accepted, in bytes.
pub(crate) const MAX_HEAD_LEN: usize = 64 * 1024;
/// Longest head that is held against the next one.
const MAX_REMEMBERED: usize = 1024;
/// Most header fields accepted in one head.
const MAX_FIELDS: usize = 128;
/// Most interim responses (1xx) accepted before the final one.
const MAX_INTERIM: u8 = 32;
/// What a field begins with that sets a cookie.
const SET_COOKIE: &[u8] = b"set-cookie:";
/// What every head begins with.
const PREFIX: &[u8] = b"HTTP/1.";

/// The bytes are no HTTP/1 response, or one whose end cannot be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotHttp;

/// What a final response's head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The status code, 200 to 999.
    pub(crate) status: u16,
    /// Whether the connection may carry another request.
    pub(crate) keeps_alive: bool,
}

/// How far the bytes led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The response goes on.
    More,
    /// The response is whole; `used` bytes of those fed belong to it.
    Complete {
        /// Its head.
        head: Head,
        /// Bytes of the last feed that belong to it.
        used: usize,
    },
}

/// Reads one response after another.
#[derive(Debug)]
pub(crate) struct ResponseReader {
    state: State,
    /// The part of a head that came in earlier reads.
    partial_head: Vec<u8>,
    /// The last head that came in one piece, and what it said: most responses
    /// on a connection begin as the one before.
    last_head: Option<(Vec<u8>, ParsedHead)>,
    is_head_request: bool,
    interim: u8,
    /// `Set-Cookie` fields that were not taken so far; `None` where nobody
    /// wants them.
    cookies: Option<Vec<String>>,
}

#[derive(Debug)]
enum State {
    Head,
    /// A body of known length: bytes to come.
    Length(Head, u64),
    Chunked(Head, ChunkedBody),
    UntilClose(Head),
}

impl ResponseReader {
    /// A reader of responses to `HEAD` requests, or to requests of other methods.
    pub(crate) fn new(is_head_request: bool) -> Self {
        Self {
            state: State::Head,
            partial_head: Vec::new(),
            last_head: None,
            is_head_request,
            interim: 0,
            cookies: None,
        }
    }

    /// From now on keeps what `Set-Cookie` fields say until it is taken.
    pub(crate) fn keep_cookies(&mut self) {
        self.cookies = Some(Vec::new());
    }

    /// What `Set-Cookie` fields said since this was last asked.
    pub(crate) fn take_cookies(&mut self) -> Vec<String> {
        self.cookies
            .as_mut()
            .map(core::mem::take)
            .unwrap_or_default()
    }

    /// Forgets a response begun: what comes next is a new one's first byte.
    pub(crate) fn reset(&mut self) {
        self.state = State::Head;
        self.partial_head.clear();
        self.interim = 0;
    }

    /// Takes the next bytes of the connection.
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

    /// The peer closed: the head of a response that this completes, or none.
    pub(crate) fn close(&mut self) -> Result<Option<Head>, NotHttp> {
        let head = match &self.state {
            State::UntilClose(head) => Some(*head),
            // Garbage is garbage, even where it was too short to be sure before.
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
                self.note_cookies(bytes.get(..parsed.len).unwrap_or_default());
                return self.enter_body(parsed, parsed.len);
            }
            self.keep(bytes)?;
            return Ok((bytes.len(), None));
        }
        // Only bytes up to the blank line belong to the head, and the head is
        // parsed once, when that line is there: slow senders cost no more.
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
        self.note_cookies(&head);
        self.enter_body(parsed, end)
    }

    /// A head at the beginning of `bytes`, if it is whole. A head ends where it
    /// says itself, so equal bytes need no second look.
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

    fn note_cookies(&mut self, head: &[u8]) {
        let Some(cookies) = &mut self.cookies else {
            return;
        };
        for line in head.split(|&byte| byte == b'\n') {
            let name = line.get(..SET_COOKIE.len()).unwrap_or_default();
            if name.eq_ignore_ascii_case(SET_COOKIE) && cookies.len() < MAX_FIELDS {
                let value = line.get(SET_COOKIE.len()..).unwrap_or_default();
                cookies.push(String::from_utf8_lossy(value).trim().to_owned());
            }
        }
    }

    /// Keeps a part of a head until the rest comes.
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

    /// What follows the head (RFC 9112 §6.3).
    fn enter_body(
        &mut self,
        parsed: ParsedHead,
        taken: usize,
    ) -> Result<(usize, Option<Head>), NotHttp> {
        if parsed.status < 200 {
            // 101 would change the protocol, which was not asked for.
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

/// Parses a head; `None` when it is not whole yet.
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

/// Where in `bytes`, which follow `before`, the blank line after a head ends.
fn find_head_end(before: &[u8], bytes: &[u8]) -> Option<usize> {
    let tail = before
        .get(before.len().saturating_sub(2)..)
        .unwrap_or_default();
    // How much of `\n` or `\n\r` stands right before.
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
