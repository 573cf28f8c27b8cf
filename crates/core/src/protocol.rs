//! Application protocols: recognizes the one that a connection speaks, and finds the begin and end
//! of its messages.
//!
//! The input is a direction's contiguous bytes, where captured, and the count of those that were
//! not; the output is steps. One parser for each direction, with no knowledge of packets, times or
//! the other direction. A parser that loses its place says so, and its caller goes by turns.

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
mod redis;
pub(crate) mod tls;

use self::http::{Head, Messages, RequestLine, Role};

/// A step that feeding bytes brought about, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A message's first byte.
    Began,
    /// A message's whole head. For a response the caller may now say that it has no body.
    Head(Head),
    /// A message's last byte.
    Ended,
    /// The bytes are of another protocol, or a hole tore a head: boundaries are
    /// unknown until [`Parser::reset`].
    Lost,
    /// Everything given was used up.
    NeedMore,
    /// A TLS record went on.
    Tls(tls::Event),
    /// An HTTP/2 frame went on.
    Http2(http2::Event),
}

/// A protocol that is read.
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
    /// MySQL and MariaDB (classic protocol): half duplex, so by turns.
    MySql,
    /// memcached (text and meta commands): its quiet commands have no reply
    /// of their own, so by turns.
    Memcached,
    /// A protocol of which no more is known than that its requests are answered.
    Answered,
}

impl Protocol {
    /// Returns the protocol of a client whose first bytes are these; `None`: not known.
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

    /// Returns the protocol of a server that speaks first.
    pub(crate) fn of_server(bytes: &[u8]) -> Option<Self> {
        mysql::is_greeting(bytes).then_some(Self::MySql)
    }

    /// Returns what a request's first bytes ask for, where it goes by turns; `None`: no request
    /// that is answered.
    pub(crate) fn asks(self, bytes: &[u8]) -> Option<RequestLine> {
        let step = match self {
            Self::Http => return http::cut_request(bytes),
            Self::MySql => mysql::request(bytes)?,
            Self::Memcached => memcached::request(bytes)?,
            _ => return None,
        };
        match step {
            Step::Head(head) => head.request,
            _ => None,
        }
    }

    /// Returns the status that a reply's first bytes name, by turns.
    pub(crate) fn status(self, bytes: &[u8]) -> Option<u16> {
        (self == Self::Http).then(|| http::cut_status(bytes))?
    }

    /// Returns true if a request that says nothing readable is none that is answered.
    pub(crate) fn has_silent_requests(self) -> bool {
        matches!(self, Self::MySql | Self::Memcached)
    }

    /// Returns true if these bytes ask for what may come up at any time, where it goes by turns.
    pub(crate) fn waits_for_news(self, bytes: &[u8]) -> bool {
        self == Self::Answered && answered::waits_for_news(bytes)
    }

    /// Returns true if a reply's first bytes say that the request failed, by turns.
    pub(crate) fn is_error(self, bytes: &[u8]) -> bool {
        match self {
            Self::MySql => mysql::is_error(bytes),
            Self::Memcached => memcached::is_error(bytes),
            _ => false,
        }
    }

    /// Returns the parser of one direction.
    pub(crate) fn parser(self, role: Role) -> Parser {
        match self {
            Self::Http => Parser::Http(Messages::new(role)),
            Self::Http2 => Parser::Http2(Box::new(http2::Frames::new(role == Role::Request))),
            Self::Tls => Parser::Tls(Box::default()),
            Self::Redis => Parser::Redis(Box::new(redis::Messages::new(role))),
            Self::Postgres => Parser::Postgres(Box::new(postgres::Messages::new(role))),
            // By turns: nothing is read in order.
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
    /// Goes on with `bytes`, the captured part at their front used up step by step; `missing`
    /// uncaptured bytes follow them.
    pub(crate) fn step(&mut self, bytes: &mut &[u8], missing: &mut u64) -> Step {
        match self {
            Self::Http(messages) => messages.step(bytes, missing),
            Self::Http2(frames) => frames.step(bytes, missing),
            Self::Tls(records) => records.step(bytes, missing),
            Self::Redis(messages) => messages.step(bytes, missing),
            Self::Postgres(messages) => messages.step(bytes, missing),
        }
    }

    /// Passes over `length` bytes at once, if all of them lie within a body and do not end it;
    /// returns true if they do.
    pub(crate) fn pass(&mut self, length: u64) -> bool {
        match self {
            Self::Http(messages) => messages.pass(length),
            _ => false,
        }
    }

    /// Begins afresh at a message's first byte.
    pub(crate) fn reset(&mut self) {
        match self {
            Self::Http(messages) => messages.reset(),
            Self::Http2(frames) => frames.reset(),
            Self::Tls(records) => records.reset(),
            Self::Redis(messages) => messages.reset(),
            Self::Postgres(messages) => messages.reset(),
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

    /// Returns the number of body bytes that the message in progress has announced and that are
    /// still to come, where its length was given.
    pub(crate) fn awaited_bytes(&self) -> Option<u64> {
        match self {
            Self::Http(messages) => messages.awaited_bytes(),
            _ => None,
        }
    }

    /// Returns true if a request of its protocol may begin with these bytes, to find its place
    /// again.
    pub(crate) fn may_resume(&self, bytes: &[u8]) -> bool {
        match self {
            Self::Http(_) => http::begins_message(Role::Request, bytes),
            Self::Redis(_) => redis::begins_command(bytes),
            Self::Postgres(_) => postgres::begins_query(bytes),
            _ => false,
        }
    }

    /// Returns true if the message in progress ends with the connection.
    pub(crate) fn ends_with_connection(&self) -> bool {
        match self {
            Self::Http(messages) => messages.ends_with_connection(),
            _ => false,
        }
    }

    /// Notes that the response whose head was just read has no body.
    pub(crate) fn no_body(&mut self) {
        if let Self::Http(messages) = self {
            messages.no_body();
        }
    }
}

/// Takes up to `left` bytes, captured or not; returns the number of those still to come.
pub(crate) fn skip(left: u64, bytes: &mut &[u8], missing: &mut u64) -> u64 {
    let captured = left.min(bytes.len() as u64);
    *bytes = bytes.get(captured as usize..).unwrap_or_default();
    let left = left - captured;
    let uncaptured = left.min(*missing);
    *missing -= uncaptured;
    left - uncaptured
}
