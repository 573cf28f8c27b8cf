//! Small built-in clients, for behaviour that no real client has: requests in several writes with
//! Nagle's algorithm on, responses that are read slowly or only after a pause, connections that are
//! reused after a long idle time, and requests that wait for a connection.
//!
//! With its default settings, a client has no fault: it sets `TCP_NODELAY`, sends each request in
//! one write, and sends one request after the other. The client measures itself: for each action it
//! writes one [`Asked`] to its output.

mod ask;
mod incoming;

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::quantity::{Size, duration};

/// A built-in client, with its faults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OwnClient {
    /// The number of connections used in parallel.
    pub connections: u16,
    /// The number of actions on each connection.
    pub requests: u16,
    /// The number of successive requests that form one action and are measured together.
    pub action: u16,
    /// The think time between two requests of one action.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub think: Duration,
    /// True if the requests of an action are sent in one write, before any is answered.
    pub pipelined: bool,
    /// The interval at which actions are due, whether a connection is free or not. Each action is
    /// measured from its due time. Zero: as soon as a connection is free.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub every: Duration,
    /// The idle time of a connection after an action.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub pause: Duration,
    /// True if each action opens a new connection, which is measured as part of the action.
    pub fresh: bool,
    /// The maximum wait of one read, after which the connection is given up.
    #[serde(with = "duration")]
    pub patience: Duration,
    /// The socket options of each connection.
    pub socket: ClientSocket,
    /// The way in which a request is written.
    pub request: Asking,
    /// The way in which a response is read.
    pub response: Taking,
    /// The event that follows a request.
    pub ending: Ending,
}

/// The socket options of each connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClientSocket {
    /// True to leave Nagle's algorithm on; otherwise `TCP_NODELAY` is set.
    pub nagle: bool,
    /// `SO_RCVBUF`, set before connecting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_buffer: Option<Size>,
    /// The local port of every connection, even while an earlier connection from this port is in
    /// TIME_WAIT (`SO_REUSEADDR`). Usable with one connection at a time only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_port: Option<u16>,
}

/// The way in which a request is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Asking {
    /// The size of a body. A request with a body is a POST, without one a GET.
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
    /// The time between connecting and the first request.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub after_connecting: Duration,
}

/// The way in which a response is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Taking {
    /// Maximum number of bytes in one read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub piece: Option<Size>,
    /// The time between two reads.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub between: Duration,
    /// The time before the first read of a response.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub late: Duration,
}

/// The event that follows a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// The client reads the response and continues with the next request.
    #[default]
    Keep,
    /// The client sends a FIN; the response still arrives.
    HalfClose,
    /// The client sends an RST as soon as the response has begun.
    Reset,
}

impl Default for OwnClient {
    fn default() -> Self {
        Self {
            connections: 1,
            requests: 20,
            action: 1,
            think: Duration::ZERO,
            pipelined: false,
            every: Duration::ZERO,
            pause: Duration::ZERO,
            fresh: false,
            patience: Duration::from_secs(5),
            socket: ClientSocket::default(),
            request: Asking::default(),
            response: Taking::default(),
            ending: Ending::default(),
        }
    }
}

/// The plan for the process that runs one client.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AskPlan {
    pub(crate) client: OwnClient,
    pub(crate) to: SocketAddr,
}

/// An action as measured by the client, which is a line of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The time at which the action was due, in ns since 1970 (CLOCK_REALTIME).
    pub begin_ns: u64,
    /// The time from when the action was due to the last byte of its last response, in ns.
    pub latency_ns: u64,
    /// True if every response was complete.
    pub ok: bool,
}

/// Runs a client until all its actions are done.
pub(crate) fn run(plan: &AskPlan) -> Result<(), Error> {
    ask::all(&plan.client, plan.to).map_err(Error::file("ask", plan.to.to_string()))
}

/// Maximum number of requests of a client, over all its connections.
const MOST_REQUESTS: u64 = 20_000;

/// Maximum number of connections of a client.
const MOST_CONNECTIONS: u16 = 512;

/// Maximum length of a single sleep of a client.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// Maximum size of the body of a request, in bytes.
const LONGEST_BODY: u64 = 16 << 20;

impl OwnClient {
    /// Checks that the settings are within bounds; the error is the reason why they are not.
    pub(crate) fn check(&self) -> Result<(), String> {
        let count = u64::from(self.connections) * u64::from(self.requests) * u64::from(self.action);
        if count == 0 || count > MOST_REQUESTS || self.connections > MOST_CONNECTIONS {
            return Err(format!(
                "its client asks {count} times over {} connections: not within 1 to \
                 {MOST_REQUESTS} and {MOST_CONNECTIONS}",
                self.connections
            ));
        }
        let sleeps = [
            self.every,
            self.pause,
            self.think,
            self.patience,
            self.request.between,
            self.request.after_connecting,
            self.response.between,
            self.response.late,
        ];
        if sleeps.into_iter().any(|time| time > LONGEST_SLEEP) || self.patience.is_zero() {
            return Err("its client waits for more than 30 s, or not at all".to_owned());
        }
        if self.socket.local_port.is_some() && self.connections > 1 {
            return Err("its client has one local port for several connections".to_owned());
        }
        let body = self.request.body.map_or(0, Size::bytes);
        if body > LONGEST_BODY {
            return Err(format!("its client sends a body of {body} bytes"));
        }
        let pieces = [self.request.piece, self.response.piece];
        if pieces.contains(&Some(Size::from_bytes(0))) {
            return Err("its client reads or writes pieces of nothing".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::OwnClient;

    #[test]
    fn a_client_is_read_from_what_differs_from_a_healthy_one() {
        let text = "requests = 3\nsocket.nagle = true\nrequest = { body = \"1kB\", apart = true }";
        let client: OwnClient = toml::from_str(text).expect("a client");
        assert_eq!((client.requests, client.connections), (3, 1));
        assert!(client.socket.nagle && client.request.apart);
        assert_eq!(client.check(), Ok(()));
        let again = serde_json::to_string(&client).expect("it writes");
        assert_eq!(serde_json::from_str::<OwnClient>(&again).ok(), Some(client));
    }

    #[test]
    fn what_would_never_end_is_refused() {
        for text in [
            "requests = 0",
            "requests = 30000",
            "connections = 600",
            "connections = 2\nsocket.local_port = 40000",
            "pause = \"31s\"",
            "patience = \"0s\"",
            "response.piece = \"0B\"",
            "request.body = \"99MB\"",
        ] {
            let client: OwnClient = toml::from_str(text).expect("it reads");
            assert!(client.check().is_err(), "{text}");
        }
        assert!(toml::from_str::<OwnClient>("speed = 1").is_err());
    }
}
