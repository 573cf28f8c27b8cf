//! TLS handshakes: their duration and negotiated parameters.

use core::time::Duration;

use crate::exchange::wait::{Wait, WaitKind};
use crate::exchange::{Recovery, Side};
use crate::observed::packet::PacketNumber;
use crate::observed::time::Timestamp;

/// A TLS handshake that was seen completely, tiled like an exchange.
///
/// Begins at the first byte of the ClientHello. Ends when the client may send its request: with its
/// own Finished or, in a full handshake up to TLS 1.2, when it has the server's Finished and the
/// observation point could see that.
#[derive(Clone, Debug)]
pub struct Handshake {
    /// Start time of the handshake.
    pub begin: Timestamp,
    /// End time of the handshake.
    pub end: Timestamp,
    /// The version chosen, as on the wire (0x0304 is TLS 1.3); `None` if the hellos could not be
    /// read.
    pub version: Option<u16>,
    /// The highest version that the client offers.
    pub offered: Option<u16>,
    /// True if the client offered a session to resume.
    pub offers_session: bool,
    /// True if a session was resumed: no certificate was sent.
    pub is_resumed: bool,
    /// True if the server requested another hello (HelloRetryRequest).
    pub is_retried: bool,
    /// True if the server sends the first data after a handshake up to TLS 1.2.
    pub is_server_first: bool,
    /// The server name in the client's request (SNI).
    pub server_name: Option<String>,
    /// Fingerprint of the cipher suites that the client offers; 0 if its hello could not be read.
    pub suites: u64,
    /// Minimum round trip between the ends, if it is known.
    pub round_trip: Option<Duration>,
    /// Flights of the handshake: each flight of the client with the server's answer.
    pub legs: Vec<Leg>,
    /// Waits that tile the handshake.
    pub waits: Vec<Wait>,
    /// Losses repaired within the handshake.
    pub recoveries: Vec<Recovery>,
}

/// An alert with which a side ended a TLS handshake (RFC 8446 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Alert {
    /// The side that sent the alert.
    pub(crate) by: Side,
    /// Number of the alert; `None` if it was encrypted.
    pub(crate) description: Option<u8>,
}

/// A flight of the client and the server's answer to it, if there was one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Time of the client's first byte.
    pub begin: Timestamp,
    /// Time of the last byte of the server's answer, or of the flight if it has no answer.
    pub end: Timestamp,
    /// Time that the client took before this flight, propagation excluded; zero before the first.
    pub client_think: Duration,
    /// Time that the server took before its answer, propagation excluded.
    pub server_think: Duration,
    /// The round trip from the observation point to the client, which adds to every answer if the
    /// capture was not taken at the client; part of no leg.
    pub to_client: Duration,
    /// The time from the answer's first byte to its last, losses excluded.
    pub spread: Duration,
    /// The longest gap between two segments of the answer.
    pub longest_gap: Duration,
    /// Bytes of the answer; 0 if there was none.
    pub answer_bytes: u64,
    /// The leg's first and last packet.
    pub packets: LegPackets,
    /// True if the answer was a HelloRetryRequest.
    pub is_retry: bool,
}

/// Packet numbers of a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LegPackets {
    /// The packet with the client's first byte.
    pub first: Option<PacketNumber>,
    /// The packet with the answer's last byte, if there was an answer.
    pub last: Option<PacketNumber>,
}

impl LegPackets {
    /// Returns the numbers of the packets in time order.
    pub(crate) fn numbers(self) -> Vec<u64> {
        let packets = [self.first, self.last].into_iter();
        packets.flatten().map(PacketNumber::get).collect()
    }
}

impl Handshake {
    /// Returns the whole duration.
    pub fn latency(&self) -> Duration {
        self.end.since(self.begin)
    }

    /// Returns the number of round trips that the handshake took before the request.
    pub fn round_trips(&self) -> usize {
        self.legs.iter().filter(|leg| leg.answer_bytes > 0).count()
    }

    /// Returns the total of the handshake's waits of one kind.
    pub fn waited(&self, kind: WaitKind) -> Duration {
        let of_kind = self.waits.iter().filter(|wait| wait.kind == kind);
        of_kind.map(Wait::duration).sum()
    }
}
