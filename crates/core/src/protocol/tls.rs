//! TLS records, and the part of the handshake that is in clear text (RFC 8446 §5.1, RFC 5246 §6.2).
//!
//! Nothing is decrypted. The parser reads the boundaries and types of records, and the ClientHello
//! and ServerHello.

mod hello;

pub(crate) use hello::{Hello, TLS_1_3};

use super::{Step, skip};

/// Length of a record's header, in bytes.
pub(crate) const HEADER: u64 = 5;
/// Maximum length of a record in bytes: 2^14, plus the maximum that encryption adds (RFC 5246
/// §6.2.3; RFC 8446 §5.2 allows less).
const LONGEST: u16 = (1 << 14) + 2048;
/// Maximum length in bytes of a hello that is kept. With several post-quantum key shares and
/// tickets a hello has a few kilobytes.
const LONGEST_HELLO: usize = 16 * 1024;

/// Length of an alert in clear text, in bytes.
pub(crate) const ALERT: u16 = 2;

/// A record's type (RFC 8446 §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    ChangeCipherSpec,
    Alert,
    Handshake,
    ApplicationData,
}

/// Progress in a direction's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The header of a record is complete; it began [`HEADER`] bytes earlier.
    Began(Content, u16),
    /// A handshake message in clear text is complete.
    Message(HandshakeMessage),
    /// An alert in clear text, with its description (RFC 8446 §6).
    Alert(u8),
    /// The last byte of a record arrived.
    Ended(Content, u16),
}

/// A handshake message in clear text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HandshakeMessage {
    /// Type of the message (RFC 8446 §4, RFC 5246 §7.4).
    pub(crate) kind: u8,
    pub(crate) length: u32,
    /// Content of a hello, if it was captured.
    pub(crate) hello: Option<Box<Hello>>,
}

/// Types of handshake messages.
pub(crate) const CLIENT_HELLO: u8 = 1;
pub(crate) const SERVER_HELLO: u8 = 2;
pub(crate) const CERTIFICATE: u8 = 11;

/// The records of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    state: State,
    header: [u8; HEADER as usize],
    message: Clear,
    /// True after the ChangeCipherSpec: handshake messages are then encrypted.
    is_encrypted: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Between records.
    #[default]
    Between,
    /// In a header; contains the number of its bytes that have arrived.
    Header(u8),
    Body {
        content: Content,
        length: u16,
        left: u16,
    },
    Lost,
}

impl Records {
    /// Returns the memory that the parser holds, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.message.body.capacity()
    }

    pub(crate) fn reset(&mut self) {
        self.state = State::Between;
        self.message = Clear::default();
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
                State::Body {
                    content,
                    length,
                    left: 0,
                } => {
                    self.state = State::Between;
                    self.is_encrypted |= content == Content::ChangeCipherSpec;
                    return Step::Tls(Event::Ended(content, length));
                }
                _ if bytes.is_empty() && *missing == 0 => return Step::NeedMore,
                State::Body {
                    content,
                    length,
                    left,
                } => {
                    let (left, event) = self.read_body((content, length, left), bytes, missing);
                    self.state = State::Body {
                        content,
                        length,
                        left,
                    };
                    if let Some(event) = event {
                        return Step::Tls(event);
                    }
                }
                _ if bytes.is_empty() => return self.lose(),
                State::Between => self.state = State::Header(0),
                State::Header(have) => {
                    if let Some(step) = self.read_header(have, bytes) {
                        return step;
                    }
                }
            }
        }
    }

    fn lose(&mut self) -> Step {
        self.state = State::Lost;
        self.message = Clear::default();
        Step::Lost
    }

    fn read_header(&mut self, have: u8, bytes: &mut &[u8]) -> Option<Step> {
        let rest = self.header.get_mut(usize::from(have)..)?;
        let count = rest.len().min(bytes.len());
        let (taken, after) = bytes.split_at(count);
        rest.iter_mut()
            .zip(taken)
            .for_each(|(to, &from)| *to = from);
        *bytes = after;
        let have = have + count as u8;
        if u64::from(have) < HEADER {
            self.state = State::Header(have);
            return None;
        }
        let Some((content, length)) = header(&self.header) else {
            return Some(self.lose());
        };
        self.state = State::Body {
            content,
            length,
            left: length,
        };
        Some(Step::Tls(Event::Began(content, length)))
    }

    /// Continues in a record's body, at most to the end of a message.
    fn read_body(
        &mut self,
        (content, length, left): (Content, u16, u16),
        bytes: &mut &[u8],
        missing: &mut u64,
    ) -> (u16, Option<Event>) {
        self.is_encrypted &= !is_hello_again(length, left, bytes);
        if content == Content::Alert && length == ALERT && !self.is_encrypted {
            // The description is the last byte.
            let description = bytes.get(usize::from(left) - 1).copied();
            let left = skip(u64::from(left), bytes, missing) as u16;
            return (left, description.map(Event::Alert));
        }
        if content != Content::Handshake || self.is_encrypted {
            return (skip(u64::from(left), bytes, missing) as u16, None);
        }
        let count = usize::from(left).min(bytes.len());
        let (mut part, _) = bytes.split_at(count);
        let message = self.message.read(&mut part);
        let used = count - part.len();
        *bytes = bytes.get(used..).unwrap_or_default();
        let left = left - used as u16;
        if message.is_some() || !bytes.is_empty() {
            return (left, message.map(Event::Message));
        }
        let uncaptured = u64::from(left).min(*missing);
        *missing -= uncaptured;
        let message = self.message.miss(uncaptured as u32);
        (left - uncaptured as u16, message.map(Event::Message))
    }
}

/// Returns true if a hello fills the record whose body begins here. In TLS 1.3 either side may send
/// a ChangeCipherSpec without meaning before its second hello (RFC 8446 §D.4).
fn is_hello_again(length: u16, left: u16, bytes: &[u8]) -> bool {
    let Some(&[kind, a, b, c]) = bytes.first_chunk() else {
        return false;
    };
    let message = u32::from_be_bytes([0, a, b, c]);
    left == length
        && matches!(kind, CLIENT_HELLO | SERVER_HELLO)
        && message + 4 == u32::from(length)
}

/// Returns true if `bytes` may begin a record, as far as they go.
pub(crate) fn begins_record(bytes: &[u8]) -> bool {
    match bytes.first_chunk() {
        Some(start) => header(start).is_some(),
        None => false,
    }
}

fn header(bytes: &[u8; HEADER as usize]) -> Option<(Content, u16)> {
    let &[kind, major, minor, high, low] = bytes;
    let content = match kind {
        20 => Content::ChangeCipherSpec,
        21 => Content::Alert,
        22 => Content::Handshake,
        23 => Content::ApplicationData,
        _ => return None,
    };
    let length = u16::from_be_bytes([high, low]);
    let is_valid = major == 3 && minor <= 4 && (1..=LONGEST).contains(&length);
    is_valid.then_some((content, length))
}

/// A handshake message in progress. A message may span several records.
#[derive(Clone, Debug, Default)]
struct Clear {
    header: [u8; 4],
    have: u8,
    left: u32,
    /// The body of a hello, as long as every byte of it was captured.
    body: Vec<u8>,
    is_torn: bool,
}

impl Clear {
    fn kind(&self) -> u8 {
        self.header.first().copied().unwrap_or_default()
    }

    fn length(&self) -> u32 {
        let [_, a, b, c] = self.header;
        u32::from_be_bytes([0, a, b, c])
    }

    fn is_hello(&self) -> bool {
        matches!(self.kind(), CLIENT_HELLO | SERVER_HELLO)
    }

    /// Consumes bytes up to the message's end.
    fn read(&mut self, bytes: &mut &[u8]) -> Option<HandshakeMessage> {
        while self.have < 4 {
            let (&byte, rest) = bytes.split_first()?;
            *bytes = rest;
            if let Some(place) = self.header.get_mut(usize::from(self.have)) {
                *place = byte;
            }
            self.have += 1;
            self.left = self.length();
        }
        let count = bytes.len().min(self.left as usize);
        let (taken, rest) = bytes.split_at(count);
        *bytes = rest;
        self.left -= count as u32;
        if self.is_hello() && !self.is_torn {
            self.is_torn = self.body.len() + count > LONGEST_HELLO;
            self.body.extend_from_slice(taken);
        }
        self.finish()
    }

    /// Skips `count` bytes that were not captured; returns the message if it ends with them.
    fn miss(&mut self, count: u32) -> Option<HandshakeMessage> {
        if count == 0 {
            return None;
        }
        self.is_torn = true;
        self.left = self.left.saturating_sub(count);
        self.finish()
    }

    fn finish(&mut self) -> Option<HandshakeMessage> {
        if self.have < 4 || self.left > 0 {
            return None;
        }
        let whole = core::mem::take(self);
        let hello = if whole.is_torn {
            None
        } else {
            Hello::parse(whole.kind(), &whole.body).map(Box::new)
        };
        Some(HandshakeMessage {
            kind: whole.kind(),
            length: whole.length(),
            hello,
        })
    }
}
