//! What a server of our own does, as a scenario says it. Left to its defaults it is a healthy
//! one: a thread a connection, `TCP_NODELAY`, the page in one write. Each option is one fault.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::scenario::quantity::{Rate, Size, duration, optional_duration};

/// A server of our own, with its faults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OwnServer {
    /// How connections are taken.
    pub accepting: Accepting,
    /// How requests are read.
    pub reading: Reading,
    /// What happens before the response.
    pub thinking: Thinking,
    /// What is set on each connection's socket.
    pub socket: SocketOptions,
    /// What is answered, and how it is written.
    pub response: Response,
    /// Keep a log of the server's own stamps: see [`Stamp`](crate::server::stamp::Stamp).
    pub stamps: bool,
}

/// How connections are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Accepting {
    /// The backlog of `listen(2)`: 128 unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u16>,
    /// One connection is accepted, then none for so long.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub every: Duration,
    /// So many requests are served at a time, over all connections; the others stay unread in
    /// their sockets. None: as many as there are connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<u16>,
}

/// How requests are read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reading {
    /// The kernel has the request; the program reads it so much later.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub late: Duration,
    /// The program looks for requests at multiples of this time, on its own clock.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub tick: Duration,
    /// Once a request has begun, reading stops for so long before its body.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub body_late: Duration,
    /// A request that says `Expect: 100-continue` is not told to continue.
    pub ignores_expect: bool,
    /// A connection on which no request came for so long is closed.
    #[serde(with = "optional_duration", skip_serializing_if = "Option::is_none")]
    pub idle: Option<Duration>,
}

/// What happens between a request and its response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Thinking {
    /// The time it takes.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub time: Duration,
    /// Only one request in so many takes it, over all connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_in: Option<u16>,
    /// What the process does before its first response, while every request waits.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub warm_up: Duration,
    /// Now and then the whole process stops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stops: Option<Stops>,
}

/// A process that stops as a whole, as one whose memory is being collected does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stops {
    /// From the beginning of one stop to that of the next.
    #[serde(with = "duration")]
    pub every: Duration,
    /// How long a stop lasts.
    #[serde(with = "duration")]
    pub time: Duration,
}

/// What is set on each connection's socket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SocketOptions {
    /// Leave Nagle's algorithm on; otherwise `TCP_NODELAY` is set.
    pub nagle: bool,
    /// Write as if more were to come, and let nothing come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// `SO_SNDBUF`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_buffer: Option<Size>,
    /// `SO_RCVBUF`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<Size>,
    /// `SO_RCVBUF` of each accepted connection: by then it has advertised more than that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shrunk_receive_buffer: Option<Size>,
    /// `SO_MAX_PACING_RATE`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<Rate>,
}

/// How a program tells the kernel that more is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hold {
    /// `TCP_CORK`, never taken off.
    Cork,
    /// `MSG_MORE` at every write.
    More,
}

/// What is answered, and how it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Response {
    /// A body of so many bytes of text instead of the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Size>,
    /// The header in a write of its own.
    pub apart: bool,
    /// The body in writes of so many bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub piece: Option<Size>,
    /// The time between two writes.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub between: Duration,
    /// How the response says where its body ends.
    #[serde(skip_serializing_if = "Framing::is_length")]
    pub framing: Framing,
    /// How long the connection stays open after a response that ends with it.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub linger: Duration,
    /// Answer as soon as the request's header is there, and read its body afterwards.
    pub early: bool,
}

/// How a response says where its body ends (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Framing {
    /// `Content-Length`.
    #[default]
    Length,
    /// `Transfer-Encoding: chunked`, a chunk a write.
    Chunked,
    /// Not at all: the body ends when the connection does.
    Close,
    /// A `Content-Length` that is one byte too long; the connection ends before.
    TooLong,
    /// `Content-Length` and `Connection: close`.
    LengthThenClose,
}

/// No server of the lab sleeps longer over one request.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// No body is longer, in bytes.
const LONGEST_BODY: u64 = 64 << 20;

/// No response is written in more pieces.
const MOST_PIECES: u64 = 100_000;

impl OwnServer {
    /// One that thinks.
    pub(crate) fn that_thinks(time: Duration) -> Self {
        let mut server = Self::default();
        server.thinking.time = time;
        server
    }

    /// One that writes header and body apart.
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

    /// What no scenario may ask for; the reason if this one does.
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

    /// Whether the connection ends with the response.
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
