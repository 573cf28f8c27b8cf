//! Waits: the intervals that tile an exchange, each with one owner.

use core::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::observed::time::Timestamp;

/// The owner of a time: the party that would have to change something to shorten it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// The requesting host or program.
    Client,
    /// The answering host or program.
    Server,
    /// The network between the ends.
    Path,
    /// Name resolution.
    Resolver,
    /// An intermediary.
    Proxy,
    /// An owner that could not be determined.
    Unknown,
}

/// The kind of a wait, determined by what released it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum WaitKind {
    /// A name's resolution.
    Resolve,
    /// The TCP handshake, except its retransmissions.
    Connect,
    /// The transfer of the request's bytes into the network.
    RequestTransfer,
    /// A pause of the client within its request, not caused by any limit.
    RequestPause,
    /// A part of the request that was written but held until the server acknowledged an earlier
    /// small part (Nagle's algorithm on the client).
    RequestHeld,
    /// Propagation between the ends.
    RoundTrip,
    /// The server's time from having the request to beginning its response.
    ServerThink,
    /// The transfer of the response's bytes, released by nothing or paced by acknowledgements.
    ResponseTransfer,
    /// A pause of the server within its response, not caused by any limit.
    ServerPause,
    /// A part of the response that was written but held until the client acknowledged an earlier
    /// small part (Nagle's algorithm on the server).
    ResponseHeld,
    /// Waiting for the receiver to open its window.
    WindowFull,
    /// A full congestion window: the sender waited for acknowledgements.
    CongestionWindow,
    /// A full socket buffer: the sender's program could not write more, because the buffer was full
    /// of unacknowledged data.
    SendBuffer,
    /// Pacing: the sender's kernel spaced its segments to a rate.
    Paced,
    /// Waiting for the receiver to open HTTP/2's flow-control window.
    FlowControl,
    /// Time between two messages of a stream (gRPC), in which its sender owed nothing.
    BetweenMessages,
    /// Waiting for lost segments to be retransmitted.
    Recovery,
    /// Waiting for another exchange on the same connection.
    Behind,
    /// Time without an explanation.
    Unknown,
}

impl WaitKind {
    /// Returns the name of the wait for use in a sentence.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Resolve => "resolving the name",
            Self::Connect => "connecting",
            Self::RequestTransfer => "sending the request",
            Self::RequestPause => "pause within the request",
            Self::RequestHeld => "request held for an ACK (Nagle)",
            Self::RoundTrip => "network transit",
            Self::ServerThink => "thinking before the response",
            Self::ResponseTransfer => "sending the response",
            Self::ServerPause => "pause within the response",
            Self::ResponseHeld => "response held for an ACK (Nagle)",
            Self::WindowFull => "receiver's window full",
            Self::CongestionWindow => "congestion window full",
            Self::SendBuffer => "send buffer full",
            Self::Paced => "paced by its sender",
            Self::FlowControl => "HTTP/2's flow-control window full",
            Self::BetweenMessages => "between the messages of a stream",
            Self::Recovery => "waiting for a retransmission",
            Self::Behind => "behind another request",
            Self::Unknown => "not explained",
        }
    }
}

/// The certainty of a wait's ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Both ends are packets that were seen.
    Observed,
    /// An end was computed from a round-trip estimate, with at most this error.
    Inferred(Duration),
}

/// An interval of an exchange's time.
///
/// The waits of one exchange are in time order, without gap or overlap, and their durations add up
/// to the exchange's duration to the nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Start time: the end of the previous wait.
    pub start: Timestamp,
    /// End time, never before `start`.
    pub end: Timestamp,
    /// The kind of wait.
    pub kind: WaitKind,
    /// The owner of the wait.
    pub owner: Owner,
    /// Number of the packet whose arrival ended the wait; `None` if the end is inferred.
    pub released_by: Option<u64>,
    /// The certainty of the wait's ends.
    pub bound: Bound,
}

impl Wait {
    /// Returns the length of the wait.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.nanos())
    }

    /// Returns the length of the wait in nanoseconds.
    #[inline]
    pub(crate) fn nanos(&self) -> u64 {
        self.end.nanos_since(self.start)
    }
}
