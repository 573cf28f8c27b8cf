//! The options of a built-in server, as set by a scenario. With its default options the server has
//! no fault: a thread per connection, `TCP_NODELAY`, the page in one write. Each option causes one
//! fault.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::quantity::{Rate, Size, duration, optional_duration};

/// A built-in server, with its faults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OwnServer {
    /// The way in which connections are accepted.
    pub accepting: Accepting,
    /// The way in which requests are read.
    pub reading: Reading,
    /// The time before the response.
    pub thinking: Thinking,
    /// The socket options of each connection.
    pub socket: SocketOptions,
    /// The response, and the way in which it is written.
    pub response: Response,
    /// True to keep a log of the server's own timestamps: see
    /// [`Stamp`](crate::server::stamp::Stamp).
    pub stamps: bool,
}

/// The way in which connections are accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Accepting {
    /// The backlog of `listen(2)`: 128 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u16>,
    /// The time after each accepted connection during which no other connection is accepted.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub every: Duration,
    /// The number of requests that are served in parallel, over all connections; further requests
    /// stay unread in their sockets. `None`: as many as there are connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<u16>,
}

/// The way in which requests are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reading {
    /// The time for which a request stays in the kernel before the program reads it.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub late: Duration,
    /// The interval at which the program checks for requests, on its own clock.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub tick: Duration,
    /// The time for which reading pauses before the body, once a request has begun.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub body_late: Duration,
    /// True to send no `100 Continue` to a request with `Expect: 100-continue`.
    pub ignores_expect: bool,
    /// The idle time, without a request, after which a connection is closed.
    #[serde(with = "optional_duration", skip_serializing_if = "Option::is_none")]
    pub idle: Option<Duration>,
}

/// The time between a request and its response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Thinking {
    /// The time that serving a request takes.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub time: Duration,
    /// The number of requests, over all connections, of which only one takes that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_in: Option<u16>,
    /// The time that the process needs before its first response, while every request waits.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub warm_up: Duration,
    /// Occasional stops of the whole process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stops: Option<Stops>,
}

/// Stops of the whole process, as during garbage collection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stops {
    /// The time from the beginning of one stop to the beginning of the next.
    #[serde(with = "duration")]
    pub every: Duration,
    /// The duration of a stop.
    #[serde(with = "duration")]
    pub time: Duration,
}

/// The socket options of each connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SocketOptions {
    /// True to leave Nagle's algorithm on; otherwise `TCP_NODELAY` is set.
    pub nagle: bool,
    /// The way in which writes announce further data, although none follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// `SO_SNDBUF`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<Size>,
    /// `SO_RCVBUF`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<Size>,
    /// The `SO_RCVBUF` that is set on each accepted connection, which has already advertised a
    /// larger window by then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shrunk_receive_buffer: Option<Size>,
    /// `SO_MAX_PACING_RATE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<Rate>,
}

/// The way in which a program tells the kernel that more data will follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hold {
    /// `TCP_CORK`, never cleared.
    Cork,
    /// `MSG_MORE` in every write.
    More,
}

/// The response, and the way in which it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Response {
    /// The size of a text body that is sent instead of the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Size>,
    /// True if the header is sent in a separate write.
    pub apart: bool,
    /// The size of the writes that send the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub piece: Option<Size>,
    /// The time between two writes.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub between: Duration,
    /// The way in which the response marks the end of its body.
    #[serde(skip_serializing_if = "Framing::is_length")]
    pub framing: Framing,
    /// The time for which the connection stays open after a response that is ended by the close.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub linger: Duration,
    /// True to answer as soon as the request's header has arrived, and to read the body afterwards.
    pub early: bool,
}

/// The way in which a response marks the end of its body (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Framing {
    /// `Content-Length`.
    #[default]
    Length,
    /// `Transfer-Encoding: chunked`, one chunk per write.
    Chunked,
    /// No length: the body ends when the connection is closed.
    Close,
    /// A `Content-Length` that is one byte too long; the connection is closed before that byte.
    TooLong,
    /// `Content-Length` and `Connection: close`.
    LengthThenClose,
}

/// Maximum time for which a server of the lab sleeps during one request.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// Maximum size of a body, in bytes.
const LONGEST_BODY: u64 = 64 << 20;

/// Maximum number of pieces in which a response is written.
const MOST_PIECES: u64 = 100_000;

impl OwnServer {
    /// Returns a server that takes this time before each response.
    pub(crate) fn that_thinks(time: Duration) -> Self {
        let mut server = Self::default();
        server.thinking.time = time;
        server
    }

    /// Returns a server that writes header and body separately.
    pub(crate) fn that_writes_apart(nagle: bool, between: Duration, framing: Framing) -> Self {
        let mut server = Self::default();
        server.socket.nagle = nagle;
        server.response = Response {
            apart: true,
            between,
            framing,
            ..Response::default()
        };
        server
    }

    /// Checks that the options are within bounds; the error is the reason why they are not.
    pub(crate) fn check(&self) -> Result<(), String> {
        let stops = self.thinking.stops.as_ref();
        let sleeps = [
            self.accepting.every,
            self.reading.late,
            self.reading.tick,
            self.reading.body_late,
            self.thinking.time,
            self.thinking.warm_up,
            self.response.between,
            self.response.linger,
            stops.map_or(Duration::ZERO, |stops| stops.time),
        ];
        if sleeps.into_iter().any(|time| time > LONGEST_SLEEP) {
            return Err("it sleeps for more than 60 s".to_owned());
        }
        if stops.is_some_and(|stops| stops.every <= stops.time) {
            return Err("it stops for as long as it runs".to_owned());
        }
        let is_zero = |number: Option<u16>| number == Some(0);
        if is_zero(self.accepting.workers) || is_zero(self.thinking.one_in) {
            return Err("a share of its workers or requests is none".to_owned());
        }
        self.response.check()
    }
}

impl Response {
    fn check(&self) -> Result<(), String> {
        let length = self
            .body
            .map_or(super::super::PAGE.len() as u64, Size::bytes);
        if length > LONGEST_BODY {
            return Err(format!(
                "a body of {length} bytes is longer than {LONGEST_BODY}"
            ));
        }
        match self.piece.map(Size::bytes) {
            Some(0) => Err("it writes pieces of nothing".to_owned()),
            Some(piece) if length / piece > MOST_PIECES => {
                Err(format!("it writes more than {MOST_PIECES} pieces"))
            }
            _ => Ok(()),
        }
    }
}

impl Framing {
    fn is_length(&self) -> bool {
        *self == Self::Length
    }

    /// Returns true if the connection is closed to end the response.
    pub(super) fn ends_connection(self) -> bool {
        matches!(self, Self::Close | Self::TooLong | Self::LengthThenClose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> OwnServer {
        toml::from_str(text).expect("a server")
    }

    #[test]
    fn a_server_is_read_from_what_differs_from_a_healthy_one() {
        let server = read("socket.hold = \"more\"\nresponse = { piece = \"8B\", apart = true }");
        assert_eq!(server.socket.hold, Some(Hold::More));
        assert_eq!(server.response.piece, Some(Size::from_bytes(8)));
        assert_eq!(server.check(), Ok(()));
        assert_eq!(read(""), OwnServer::default());
        let again = serde_json::to_string(&server).expect("it writes");
        assert_eq!(serde_json::from_str::<OwnServer>(&again).ok(), Some(server));
    }

    #[test]
    fn what_would_take_too_long_or_too_much_is_refused() {
        for text in [
            "thinking.time = \"61s\"",
            "response.linger = \"61s\"",
            "thinking.stops = { every = \"1s\", time = \"1s\" }",
            "accepting.workers = 0",
            "thinking.one_in = 0",
            "response.body = \"99MB\"",
            "response.piece = \"0B\"",
            "response = { body = \"1MB\", piece = \"1B\" }",
        ] {
            assert!(read(text).check().is_err(), "{text}");
        }
        assert!(toml::from_str::<OwnServer>("speed = 1").is_err());
    }
}
