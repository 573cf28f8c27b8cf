//! PostgreSQL's protocol 3 (PostgreSQL documentation, "Frontend/Backend Protocol", §55.2, §55.7).
//!
//! A request is a simple query, or all messages up to a Sync. Its response lasts until
//! ReadyForQuery. A client may send requests before earlier responses arrive: each Sync has its own
//! ReadyForQuery. Encrypted data after an SSLRequest is not parsed.

use super::Step;
use super::messages::{Input, command, error, first_word};
use super::reply_error::ReplyError;
use crate::protocol::http::Role;

/// Codes in place of a version: SSLRequest and GSSENCRequest.
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
/// Maximum length of a startup message in bytes (`MAX_STARTUP_PACKET_LENGTH`).
const LONGEST_STARTUP: u32 = 10_000;
/// Number of bytes of a statement that are searched for its first word.
const STATEMENT: usize = 256;

/// Messages of one direction.
#[derive(Clone, Debug)]
pub(crate) struct Messages {
    role: Role,
    state: State,
    kept: Vec<u8>,
    /// True if a request or response has begun.
    is_open: bool,
    has_head: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The connection's first message, which has no type.
    First,
    /// Between messages, or in the type and length of a message.
    Header,
    /// In a message; contains its type and the number of remaining bytes.
    Body(u8, u64),
    /// After the last byte of the request or response.
    Ending,
    Lost,
}

fn startup_code(bytes: &[u8]) -> Option<u32> {
    let (length, rest) = bytes.split_first_chunk()?;
    let length = u32::from_be_bytes(*length);
    let code = u32::from_be_bytes(*rest.first_chunk()?);
    let is_version = code >> 16 == 3 && code & 0xffff <= 2;
    let is_startup = (8..=LONGEST_STARTUP).contains(&length)
        && (is_version || matches!(code, SSL_REQUEST | GSS_REQUEST));
    is_startup.then_some(code)
}

/// Returns true if `bytes` are the beginning of a connection, or a complete query on an established
/// one.
pub(super) fn begins_connection(bytes: &[u8]) -> bool {
    startup_code(bytes).is_some() || begins_query(bytes)
}

/// Returns true if these bytes are one complete simple query.
pub(super) fn begins_query(bytes: &[u8]) -> bool {
    let Some((b'Q', rest)) = bytes.split_first() else {
        return false;
    };
    let length = rest.first_chunk().map(|length| u32::from_be_bytes(*length));
    length == u32::try_from(rest.len()).ok() && rest.last() == Some(&0)
}

impl Messages {
    pub(super) fn new(role: Role) -> Self {
        Self {
            role,
            state: State::First,
            kept: Vec::new(),
            is_open: false,
            has_head: false,
        }
    }

    /// Returns the memory that the parser holds, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.kept.capacity()
    }

    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.role);
        self.state = State::Header;
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.state == State::Lost
    }

    pub(crate) fn step(&mut self, bytes: &mut &[u8], missing: &mut u64) -> Step {
        let mut input = Input { bytes, missing };
        loop {
            match self.state {
                State::Lost => {
                    input.skip(u64::MAX);
                    return Step::NeedMore;
                }
                State::Ending => {
                    (self.is_open, self.has_head) = (false, false);
                    self.state = State::Header;
                    return Step::Ended;
                }
                _ if input.is_empty() => return Step::NeedMore,
                State::Body(kind, left) => {
                    if let Some(step) = self.body(kind, left, &mut input) {
                        return step;
                    }
                }
                _ if input.is_torn() => return self.lose(),
                State::First => {
                    if let Some(step) = self.first(&mut input) {
                        return step;
                    }
                }
                State::Header => {
                    if let Some(step) = self.header(&mut input) {
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

    /// Begins a request or response, unless one is in progress.
    fn open(&mut self) -> Option<Step> {
        let is_new = !core::mem::replace(&mut self.is_open, true);
        is_new.then_some(Step::Began)
    }

    /// Reads the client's startup message, or the server's answer to an SSLRequest.
    fn first(&mut self, input: &mut Input<'_, '_>) -> Option<Step> {
        let begins_later = match self.role {
            // The server answers an SSLRequest with a single byte, which is not a message. The byte
            // says if the connection is encrypted from then on.
            Role::Response => !matches!(input.bytes.first(), Some(b'N' | b'S' | b'G')),
            Role::Request => begins_query(input.bytes),
        };
        if begins_later {
            self.state = State::Header;
            return None;
        }
        if let Some(step) = self.open() {
            return Some(step);
        }
        if self.role == Role::Response {
            self.kept.clear();
            input.fill(&mut self.kept, 1);
            self.kept.clear();
            self.state = State::Ending;
            return None;
        }
        if !input.fill(&mut self.kept, 8) {
            return None;
        }
        let code = startup_code(&self.kept);
        let length = self
            .kept
            .first_chunk()
            .map_or(8, |length| u32::from_be_bytes(*length));
        self.kept.clear();
        let Some(code) = code else {
            return Some(self.lose());
        };
        // After a rejected SSLRequest the client sends a startup message.
        let kind = u8::from(matches!(code, SSL_REQUEST | GSS_REQUEST));
        self.state = State::Body(kind, u64::from(length.saturating_sub(8)));
        self.has_head = true;
        Some(command(if kind == 1 { b"SSLRequest" } else { b"Startup" }))
    }

    fn header(&mut self, input: &mut Input<'_, '_>) -> Option<Step> {
        let &kind = self.kept.first().or(input.bytes.first())?;
        let is_message = match self.role {
            // Terminate, passwords and copied data are not requests.
            Role::Request => matches!(
                kind,
                b'Q' | b'P' | b'B' | b'D' | b'E' | b'C' | b'H' | b'F' | b'S'
            ),
            // Notices, parameters and notifications may arrive at any time, and belong to no
            // response.
            Role::Response => !matches!(kind, b'N' | b'S' | b'A'),
        };
        if is_message
            && self.kept.is_empty()
            && let Some(step) = self.open()
        {
            return Some(step);
        }
        if !input.fill(&mut self.kept, 5) {
            return None;
        }
        let length = self.kept.get(1..).and_then(|rest| rest.first_chunk());
        let length = length.map_or(0, |length| u32::from_be_bytes(*length));
        self.kept.clear();
        if length < 4 || !kind.is_ascii_alphanumeric() || length > 1 << 30 {
            return Some(self.lose());
        }
        self.state = State::Body(kind, u64::from(length - 4));
        None
    }

    fn body(&mut self, kind: u8, left: u64, input: &mut Input<'_, '_>) -> Option<Step> {
        let is_statement =
            self.role == Role::Request && matches!(kind, b'Q' | b'P') && !self.has_head;
        let is_error = self.role == Role::Response && kind == b'E';
        if (is_statement || is_error) && self.kept.len() < STATEMENT {
            let count = (left as usize).min(input.bytes.len()).min(STATEMENT);
            self.kept.extend(input.bytes.iter().take(count));
        }
        let left = input.skip(left);
        self.state = State::Body(kind, left);
        if left > 0 {
            return None;
        }
        self.finish(kind)
    }

    /// Ends a complete message.
    fn finish(&mut self, kind: u8) -> Option<Step> {
        let kept = core::mem::take(&mut self.kept);
        self.state = State::Header;
        match (self.role, kind) {
            (Role::Request, 0) => self.state = State::Ending,
            (Role::Request, 1) => {
                // The next message has no type either.
                self.is_open = false;
                self.has_head = false;
                self.state = State::First;
                return Some(Step::Ended);
            }
            (Role::Request, b'Q') => {
                self.state = State::Ending;
                return Some(command(first_word(&kept)));
            }
            (Role::Request, b'P') if !self.has_head => {
                // The statement's name comes before its text.
                let text = kept
                    .iter()
                    .position(|&byte| byte == 0)
                    .map_or(0, |at| at + 1);
                self.has_head = true;
                return Some(command(first_word(kept.get(text..).unwrap_or_default())));
            }
            (Role::Request, b'E' | b'F') if !self.has_head => {
                self.has_head = true;
                return Some(command(b"EXECUTE"));
            }
            (Role::Request, b'S') => self.state = State::Ending,
            (Role::Response, b'Z') => self.state = State::Ending,
            (Role::Response, b'E') => return Some(error(ReplyError::of_postgres(state(&kept)))),
            _ => {}
        }
        None
    }
}

/// Returns the SQLSTATE in an error's fields: each has a type, and ends with a zero byte.
fn state(fields: &[u8]) -> &[u8] {
    let mut fields = fields.split(|&byte| byte == 0);
    fields
        .find_map(|field| field.strip_prefix(b"C"))
        .unwrap_or_default()
}
