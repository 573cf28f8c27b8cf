//! Application protocols: recognizes the protocol of a connection, and finds where its messages
//! begin and end.
//!
//! The input is one direction's captured bytes in order, and the number of bytes that were not
//! captured. The output is steps. Each direction has its own parser, which does not see packets,
//! times or the other direction. A parser that can no longer find message boundaries returns
//! [`Step::Lost`]. Its caller then pairs messages by turns: the bytes that one end sends before the
//! other end sends are one message.

mod answered;
pub(crate) mod dns;
pub(crate) mod greeting;
pub(crate) mod http;
pub(crate) mod http2;
pub(crate) mod memcached;
mod messages;
pub(crate) mod mysql;
mod postgres;
pub(crate) mod quic;
pub(crate) mod redis;
pub(crate) mod reply_error;
pub(crate) mod tls;

use self::http::{Head, Messages, RequestLine, Role};
use self::reply_error::ReplyError;

/// A step of parsing, in the order of the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A message's first byte.
    Began,
    /// A message's complete head. After a response's head the caller may declare that the response
    /// has no body.
    Head(Head),
    /// A message's last byte.
    Ended,
    /// The bytes belong to another protocol, or a gap interrupted a head. Boundaries are unknown
    /// until [`Parser::reset`].
    Lost,
    /// All input was consumed.
    NeedMore,
    /// Progress in a TLS record.
    Tls(tls::Event),
    /// Progress in an HTTP/2 frame.
    Http2(http2::Event),
}

/// A protocol that can be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/1.x (RFC 9112).
    Http,
    /// HTTP/2 in clear text (RFC 9113).
    Http2,
    /// TLS records (RFC 8446 §5.1).
    Tls,
    /// Redis (RESP2, RESP3).
    Redis,
    /// PostgreSQL (protocol 3).
    Postgres,
    /// MySQL and MariaDB (classic protocol). It is half duplex, so requests and responses
    /// alternate.
    MySql,
    /// memcached (text and meta commands). Some of its commands have no reply of their own, so it
    /// is read as if requests and responses alternated.
    Memcached,
    /// A protocol in which every request is answered; nothing more is known about it.
    Answered,
}

impl Protocol {
    /// Returns the protocol of a client whose first bytes are `bytes`; `None` if it is not
    /// recognized.
    pub(crate) fn of_client(bytes: &[u8]) -> Option<Self> {
        if http::begins_message(Role::Request, bytes) {
            Some(Self::Http)
        } else if http2::begins_preface(bytes) {
            Some(Self::Http2)
        } else if tls::begins_record(bytes) {
            Some(Self::Tls)
        } else if redis::begins_command(bytes) {
            Some(Self::Redis)
        } else if postgres::begins_connection(bytes) {
            Some(Self::Postgres)
        } else if memcached::begins_command(bytes) {
            Some(Self::Memcached)
        } else if answered::begins_request(bytes) {
            Some(Self::Answered)
        } else {
            None
        }
    }

    /// Returns the protocol of a server that sends first; `None` if it is not recognized.
    pub(crate) fn of_server(bytes: &[u8]) -> Option<Self> {
        mysql::is_greeting(bytes).then_some(Self::MySql)
    }

    /// Returns the request line in a request's first bytes; `None` if the request gets no answer.
    /// For connections on which requests and responses alternate.
    pub(crate) fn asks(self, bytes: &[u8]) -> Option<RequestLine> {
        let step = match self {
            Self::Http => return http::cut_request(bytes),
            Self::MySql => mysql::request(bytes)?,
            Self::Memcached => memcached::request(bytes)?,
            Self::Http2 | Self::Tls | Self::Redis | Self::Postgres | Self::Answered => return None,
        };
        match step {
            Step::Head(head) => head.request,
            _ => None,
        }
    }

    /// Returns the status in a response's first bytes. For connections on which requests and
    /// responses alternate.
    pub(crate) fn status(self, bytes: &[u8]) -> Option<u16> {
        (self == Self::Http).then(|| http::cut_status(bytes))?
    }

    /// Returns true if a request whose bytes cannot be read is assumed to get no answer.
    pub(crate) fn has_silent_requests(self) -> bool {
        matches!(self, Self::MySql | Self::Memcached)
    }

    /// Returns true if a request asks for events, which may occur at any time. Its answer comes
    /// when an event occurs.
    pub(crate) fn waits_for_news(self, bytes: &[u8]) -> bool {
        self == Self::Answered && answered::waits_for_news(bytes)
    }

    /// Returns the error that a response's first bytes report. For connections on which requests and
    /// responses alternate.
    pub(crate) fn error(self, bytes: &[u8]) -> Option<ReplyError> {
        match self {
            Self::MySql => mysql::error(bytes),
            Self::Memcached => ReplyError::of_memcached(bytes),
            Self::Http | Self::Http2 | Self::Tls => None,
            Self::Redis | Self::Postgres | Self::Answered => None,
        }
    }

    /// Returns the error with which a server refuses a connection before any request, in its first
    /// bytes.
    pub(crate) fn refusal(bytes: &[u8]) -> Option<ReplyError> {
        ReplyError::of_refusal(bytes).or_else(|| mysql::refusal(bytes))
    }

    /// Returns the parser of one direction.
    pub(crate) fn parser(self, role: Role) -> Parser {
        match self {
            Self::Http => Parser::Http(Messages::new(role)),
            Self::Http2 => Parser::Http2(Box::new(http2::Frames::new(role == Role::Request))),
            Self::Tls => Parser::Tls(Box::default()),
            Self::Redis => Parser::Redis(Box::new(redis::Messages::new(role))),
            Self::Postgres => Parser::Postgres(Box::new(postgres::Messages::new(role))),
            // This parser is never used, because requests and responses alternate.
            Self::MySql | Self::Memcached | Self::Answered => Parser::Http(Messages::new(role)),
        }
    }
}

/// Parser of one direction.
#[derive(Clone, Debug)]
pub(crate) enum Parser {
    Http(Messages),
    Http2(Box<http2::Frames>),
    Tls(Box<tls::Records>),
    Redis(Box<redis::Messages>),
    Postgres(Box<postgres::Messages>),
}

impl Parser {
    /// Continues with `bytes` and then `missing` bytes that were not captured. Each step removes
    /// what it consumed from both.
    pub(crate) fn step(&mut self, bytes: &mut &[u8], missing: &mut u64) -> Step {
        match self {
            Self::Http(messages) => messages.step(bytes, missing),
            Self::Http2(frames) => frames.step(bytes, missing),
            Self::Tls(records) => records.step(bytes, missing),
            Self::Redis(messages) => messages.step(bytes, missing),
            Self::Postgres(messages) => messages.step(bytes, missing),
        }
    }

    /// Skips `length` bytes at once if all of them are in a body and do not end it. Returns true if
    /// they were skipped.
    pub(crate) fn pass(&mut self, length: u64) -> bool {
        match self {
            Self::Http(messages) => messages.pass(length),
            _ => false,
        }
    }

    /// Returns the head of a message and its length, if exactly these bytes are the message, and its
    /// head was read before. The parser is then at the message's end.
    pub(crate) fn whole(&self, bytes: &[u8]) -> Option<(Head, usize)> {
        match self {
            Self::Http(messages) => messages.whole(bytes),
            _ => None,
        }
    }

    /// Returns the memory that the parser holds, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::Http(messages) => messages.held_bytes(),
            Self::Http2(frames) => size_of_val(&**frames) + frames.held_bytes(),
            Self::Tls(records) => size_of_val(&**records) + records.held_bytes(),
            Self::Redis(messages) => size_of_val(&**messages) + messages.held_bytes(),
            Self::Postgres(messages) => size_of_val(&**messages) + messages.held_bytes(),
        }
    }

    /// Starts over at the first byte of a message.
    pub(crate) fn reset(&mut self) {
        match self {
            Self::Http(messages) => messages.reset(),
            Self::Http2(frames) => frames.reset(),
            Self::Tls(records) => records.reset(),
            Self::Redis(messages) => messages.reset(),
            Self::Postgres(messages) => messages.reset(),
        }
    }

    /// Joins HTTP/2's frames midway: reading begins at a segment that begins with a frame.
    pub(crate) fn join(&mut self) {
        if let Self::Http2(frames) = self {
            frames.join();
        }
    }

    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Self::Http(messages) => messages.is_lost(),
            Self::Http2(frames) => frames.is_lost(),
            Self::Tls(records) => records.is_lost(),
            Self::Redis(messages) => messages.is_lost(),
            Self::Postgres(messages) => messages.is_lost(),
        }
    }

    /// Returns the number of body bytes of the current message that are still to come; `None` if
    /// the message does not announce its length.
    pub(crate) fn awaited_bytes(&self) -> Option<u64> {
        match self {
            Self::Http(messages) => messages.awaited_bytes(),
            _ => None,
        }
    }

    /// Returns true if a request of this protocol may begin with these bytes. A caller uses this to
    /// find message boundaries again.
    pub(crate) fn may_resume(&self, bytes: &[u8]) -> bool {
        match self {
            Self::Http(_) => http::begins_message(Role::Request, bytes),
            Self::Redis(_) => redis::begins_command(bytes),
            Self::Postgres(_) => postgres::begins_query(bytes),
            Self::Http2(_) | Self::Tls(_) => false,
        }
    }

    /// Returns true if the current message lasts until the connection ends.
    pub(crate) fn ends_with_connection(&self) -> bool {
        match self {
            Self::Http(messages) => messages.ends_with_connection(),
            _ => false,
        }
    }

    /// Records that the response whose head was just read has no body.
    pub(crate) fn no_body(&mut self) {
        if let Self::Http(messages) = self {
            messages.no_body();
        }
    }
}

/// Skips up to `left` bytes, captured or not. Returns the number of bytes that are still to be
/// skipped.
pub(crate) fn skip(left: u64, bytes: &mut &[u8], missing: &mut u64) -> u64 {
    let captured = left.min(bytes.len() as u64);
    *bytes = bytes.get(captured as usize..).unwrap_or_default();
    let left = left - captured;
    let uncaptured = left.min(*missing);
    *missing -= uncaptured;
    left - uncaptured
}
