//! TLS handshakes: their time and their terms.

use core::time::Duration;

use crate::exchange::Recovery;
use crate::exchange::wait::{Wait, WaitKind};
use crate::observed::time::Timestamp;

/// A TLS handshake that was seen whole, tiled like an exchange.
///
/// Begins at the first byte of the ClientHello; ends when the client may send
/// its request: with its own Finished or, in a full handshake up to TLS 1.2,
/// when it has the server's, and that could be known where it was seen.
#[derive(Clone, Debug)]
pub struct Handshake {
    /// Time of the handshake's begin.
    pub begin: Timestamp,
    /// Time of the handshake's end.
    pub end: Timestamp,
    /// The version chosen, as on the wire (0x0304 is TLS 1.3); `None` where
    /// the hellos could not be read.
    pub version: Option<u16>,
    /// The highest version that the client offers.
    pub offered: Option<u16>,
    /// True if the client could have resumed a session: it named one.
    pub offers_session: bool,
    /// True if a session was resumed: no certificate was sent.
    pub is_resumed: bool,
    /// True if the server asked for another hello (HelloRetryRequest).
    pub is_retried: bool,
    /// The server's name as the client asked for it (SNI).
    pub server_name: Option<String>,
    /// Minimum round trip between the ends, where it is known.
    pub round_trip: Option<Duration>,
    /// Flights of the handshake: each of the client's with the server's answer.
    pub legs: Vec<Leg>,
    /// Waits that tile the handshake.
    pub waits: Vec<Wait>,
    /// Losses repaired within it.
    pub recoveries: Vec<Recovery>,
}

/// A flight of the client's and the server's answer to it, if one followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Time of the client's first byte.
    pub begin: Timestamp,
    /// Time of the last byte of the server's answer, or of the flight without one.
    pub end: Timestamp,
    /// Time that the client took before this flight, travel excluded; zero before the first.
    pub client_think: Duration,
    /// Time that the server took before its answer, travel excluded.
    pub server_think: Duration,
    /// The round trip from the observation point to the client, which every answer takes that was
    /// not seen at the client; part of no leg.
    pub travel: Duration,
    /// The time from the answer's first byte to its last, losses excluded.
    pub spread: Duration,
    /// The longest gap between two segments of the answer.
    pub longest_gap: Duration,
    /// Bytes of the answer; 0: there was none.
    pub answer_bytes: u64,
    /// Numbers of two packets: the client's first, the answer's last (0: none).
    pub packets: [u64; 2],
    /// True if the answer was a HelloRetryRequest.
    pub is_retry: bool,
}

impl Handshake {
    /// Returns the whole duration.
    pub fn latency(&self) -> Duration {
        self.end.since(self.begin)
    }

    /// Returns the number of round trips that it took before the request.
    pub fn round_trips(&self) -> usize {
        self.legs.iter().filter(|leg| leg.answer_bytes > 0).count()
    }

    /// Returns the sum of its waits of one kind.
    pub fn waited(&self, kind: WaitKind) -> Duration {
        let of_kind = self.waits.iter().filter(|wait| wait.kind == kind);
        of_kind.map(Wait::duration).sum()
    }
}
