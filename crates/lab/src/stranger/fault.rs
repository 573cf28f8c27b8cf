//! The faults that a run may have.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::quantity::duration;

/// A fault, with its parameters. Shares are of the requests, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Fault {
    /// The server thinks longer about some requests.
    SlowThink {
        /// The share of the requests.
        share: f64,
        /// The time beyond the usual.
        #[serde(with = "duration")]
        extra: Duration,
    },
    /// The server pauses within some responses.
    ServerPause {
        /// The share of the requests.
        share: f64,
        /// The pause.
        #[serde(with = "duration")]
        pause: Duration,
    },
    /// The server writes each response in two small parts with Nagle's algorithm on, and the client's
    /// kernel delays its ACKs.
    Nagle,
    /// The client writes each request in two small parts with Nagle's algorithm on.
    NagleRequest,
    /// The client reads slowly: a small buffer, and a pause after each piece.
    SlowReader {
        /// The receive buffer, in bytes.
        buffer: u32,
        /// The bytes that are read at a time.
        piece: u32,
        /// The pause after each piece.
        #[serde(with = "duration")]
        pause: Duration,
    },
    /// The client pauses within some requests.
    SlowSender {
        /// The share of the requests.
        share: f64,
        /// The pause.
        #[serde(with = "duration")]
        pause: Duration,
    },
    /// The server has fewer workers than requests at a time.
    FewWorkers {
        /// The number of workers.
        workers: u16,
    },
    /// The server asks another service for each request, which is slow for some of them.
    SlowUpstream {
        /// The place of the other service.
        place: Place,
        /// The share of the requests.
        share: f64,
        /// The time beyond the usual.
        #[serde(with = "duration")]
        extra: Duration,
        /// True if the capture at the server contains the calls.
        is_captured: bool,
    },
    /// The path loses packets at random, in both directions.
    Loss {
        /// The share of the packets.
        share: f64,
    },
    /// The path carries few bits per second towards the client.
    Rate {
        /// The rate, in bits per second.
        bits: u64,
    },
    /// The delay of the path varies from packet to packet, in both directions.
    Jitter {
        /// The longest additional delay of a direction.
        #[serde(with = "duration")]
        most: Duration,
    },
    /// The server closes each connection after a response.
    Closes,
    /// The path loses one in `of` SYNs. The client opens a connection for each request.
    LostSyns {
        /// The number of SYNs of which one is lost.
        of: u64,
    },
}

/// The place of a service that the server asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The server's own host.
    SameHost,
    /// Another host, across the path.
    OtherHost,
}

impl Fault {
    /// Returns true if the fault needs responses too long for the other fault, or if both change the
    /// same part of the traffic.
    pub(super) fn clashes(&self, other: &Self) -> bool {
        core::mem::discriminant(self) == core::mem::discriminant(other)
            || (self.needs_long() && other.needs_short())
            || (self.needs_short() && other.needs_long())
            || (self.is_in_request() && other.is_in_request())
            || (self.is_in_response() && other.is_in_response())
            || (self.needs_keep_alive() && other.opens_connections())
            || (self.opens_connections() && other.needs_keep_alive())
    }

    /// Returns true if the fault is visible in long responses only.
    pub(super) fn needs_long(&self) -> bool {
        matches!(self, Self::SlowReader { .. } | Self::Rate { .. })
    }

    /// Returns true if the fault needs messages of less than one segment.
    pub(super) fn needs_short(&self) -> bool {
        matches!(self, Self::Nagle)
    }

    fn is_in_request(&self) -> bool {
        matches!(self, Self::NagleRequest | Self::SlowSender { .. })
    }

    fn is_in_response(&self) -> bool {
        matches!(
            self,
            Self::Nagle | Self::ServerPause { .. } | Self::SlowReader { .. }
        )
    }

    /// Returns true if the fault acts only on connections that are used again: a new connection has
    /// its ACKs at once.
    fn needs_keep_alive(&self) -> bool {
        matches!(self, Self::Nagle | Self::NagleRequest)
    }

    /// Returns true if each request has its own connection.
    pub(super) fn opens_connections(&self) -> bool {
        matches!(self, Self::Closes | Self::LostSyns { .. })
    }
}
