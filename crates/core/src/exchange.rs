//! Exchanges: one request and its response, closed and tiled.

pub mod delivery;
mod drops;
mod hold;
mod loss;
mod packing;
mod seldom;
mod signs;
pub mod tls_handshake;
pub mod wait;

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use crate::exchange::delivery::Delivery;
use crate::exchange::tls_handshake::Handshake;
use crate::observed::event::PointId;
use crate::observed::flow::Endpoint;
use crate::observed::packet::PacketNumber;
pub(crate) use crate::observed::side::PerSide;
pub use crate::observed::side::Side;
use crate::observed::time::Timestamp;
use crate::protocol::http2::status_name;
pub use crate::protocol::reply_error::ReplyError;
pub use drops::{DropSlot, Drops};
pub use hold::{Hold, HoldPackets, HoldRelease};
pub use loss::{Disorder, DisorderPackets, Loss, MtuLoss, Recovery, RecoveryMechanism};
pub use packing::{PackedWrites, Packing};
pub use seldom::{Seldom, Vacant};
pub(crate) use signs::{
    FaultSigns, Foreign, PairingDoubts, Positions, Signs, Staleness, StreamEnd, StreamSigns,
    Unheard,
};

use crate::exchange::wait::{Owner, Wait, WaitKind};
use crate::observed::kernel_span::RequestSpan;

/// A request and its response at one observation point.
///
/// Begins at the first transmission of the request's first byte. Ends when the response's last byte
/// was contiguously seen, never at its ACK. If the observation point is on the sender's side and
/// bytes had to be retransmitted, ends at their last transmission.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The connection, the observation point, and the exchange's number on the connection.
    pub id: ExchangeId,
    /// Start time of the exchange.
    pub begin: Timestamp,
    /// End time of the exchange.
    pub end: Timestamp,
    /// Outcome of the exchange.
    pub outcome: Outcome,
    /// Method and path of the request, such as `GET /path`, if they could be read.
    pub request: Option<Arc<str>>,
    /// Waits that tile the exchange.
    pub waits: Vec<Wait>,
    /// Holds and limits that delayed segments of the exchange's messages.
    pub sending: Seldom<Sending>,
    /// Segments that were lost, overtaken or duplicated.
    pub loss: Seldom<Loss>,
    /// The response's bytes on the wire.
    pub response: ResponseBytes,
    /// Propagation of the exchange's messages, as far as its packets show it.
    pub path: PathTimes,
    /// The exchange's first and last packet.
    pub packets: ExchangePackets,
    /// The handshakes before the exchange that count towards it.
    pub connecting: Connecting,
    /// Details of the exchange's messages that a rule needs.
    pub particulars: Particulars,
    /// Indications of why the exchange failed.
    pub(crate) signs: Signs,
    /// Times measured by the server's kernel, indexed as in [`RequestSpan::STAGES`].
    pub(crate) at_host: Option<Box<[Duration; RequestSpan::STAGES.len()]>>,
}

/// The identity of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeId {
    /// The requesting end of the connection.
    pub client: Endpoint,
    /// The answering end of the connection.
    pub server: Endpoint,
    /// The observation point that saw the exchange.
    pub point: PointId,
    /// Number of the exchange on its connection, from 0, among those seen.
    pub ordinal: u32,
}

/// Packet numbers of an exchange; `None` if no packets were captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExchangePackets {
    /// The packet with the request's first byte.
    pub first: Option<PacketNumber>,
    /// The packet with the response's last byte.
    pub last: Option<PacketNumber>,
}

/// Holds and limits that delayed segments of an exchange's messages.
#[derive(Clone, Debug, Default)]
pub struct Sending {
    /// Small segments that waited for an acknowledgement, or did not.
    pub holds: Vec<Hold>,
    /// Rate and window limits of the exchange's messages, if they stalled for a notable time.
    pub deliveries: Vec<Delivery>,
    /// The delay of a delayed ACK that held nothing back, if one was seen in the exchange.
    pub harmless_delay: Option<Duration>,
}

impl Vacant for Sending {
    const NOTHING: &'static Self = &Self {
        holds: Vec::new(),
        deliveries: Vec::new(),
        harmless_delay: None,
    };
}

/// The bytes of a response on the wire.
#[derive(Clone, Debug, Default)]
pub struct ResponseBytes {
    /// Number of bytes.
    pub count: u64,
    /// The first TLS record, which can be decrypted only as a whole.
    pub first_record: Option<Box<FirstRecord>>,
    /// Oddities of the segments that are harmless.
    pub packing: Seldom<Packing>,
    /// The bytes of request and response among those of the connection, if they are those of a
    /// stream.
    pub(crate) positions: Option<Box<Positions>>,
}

/// The handshakes before an exchange.
#[derive(Clone, Debug, Default)]
pub struct Connecting {
    /// The time that setting up the connection took, TLS included, if it counts towards this
    /// exchange.
    pub setup: Option<Duration>,
    /// The TLS handshake before the exchange, if this is the first exchange after one.
    pub handshake: Option<Box<Handshake>>,
}

impl ExchangePackets {
    /// Returns the numbers of the packets in time order.
    pub(crate) fn numbers(self) -> Vec<u64> {
        let packets = [self.first, self.last].into_iter();
        packets.flatten().map(PacketNumber::get).collect()
    }
}

impl Exchange {
    /// Returns the whole duration.
    pub fn latency(&self) -> Duration {
        self.end.since(self.begin)
    }

    /// Returns the sum of the waits of one kind.
    pub fn waited(&self, kind: WaitKind) -> Duration {
        let waits = self.waits.iter().filter(|wait| wait.kind == kind);
        Duration::from_nanos(waits.fold(0, |sum, wait| sum.saturating_add(wait.nanos())))
    }

    /// Returns the latency without propagation and transfer: the time that an end or the path
    /// added.
    pub fn cost(&self) -> Duration {
        Duration::from_nanos(self.cost_nanos())
    }

    /// Returns the [cost](Self::cost) in nanoseconds.
    pub(crate) fn cost_nanos(&self) -> u64 {
        let is_held = |wait: &&Wait| {
            !matches!(
                wait.kind,
                WaitKind::RoundTrip | WaitKind::RequestTransfer | WaitKind::ResponseTransfer
            )
        };
        let held = self.waits.iter().filter(is_held);
        held.fold(0, |sum: u64, wait| sum.saturating_add(wait.nanos()))
    }
}

/// Details of an exchange's messages that serve as evidence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Particulars {
    /// The expectation, if the request announced its body with `Expect: 100-continue` and waited
    /// for permission to send the body.
    pub expectation: Option<Box<Expectation>>,
    /// The time from the response's last byte to the server's FIN, if only the FIN told the client
    /// that the response was complete.
    pub close_wait: Option<Duration>,
    /// Number of bytes that the response announced but did not contain.
    pub missing_bytes: u64,
    /// Fingerprint of the request's target; 0 if the protocol is not HTTP.
    pub target: u64,
    /// Fingerprint of the origin that the request names; 0 if none could be read.
    pub origin: u64,
    /// Fingerprint of the target that a redirect leads to.
    pub redirect: Option<u64>,
    /// True if the response was compressed while it was sent.
    pub is_encoded_on_the_fly: bool,
    /// True if the parts of the response are sent as events occur, as in server-sent events: the
    /// time between the parts has no owner.
    pub is_stream: bool,
    /// True if the exchange fetched something that a certificate's validity depends on: an OCSP
    /// response, a revocation list, an issuer's certificate.
    pub is_revocation: bool,
    /// The sides whose message asked to close the connection after the exchange.
    pub closing: Closing,
}

/// A client's wait for permission to send the body that it had announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The time from the end of the head to the body.
    pub waited: Duration,
    /// True if `100 Continue` came before the body left.
    pub is_answered: bool,
    /// The path's part of that time: the minimum time in which the permission can arrive.
    pub propagation: Duration,
    /// Number of the packet with which the body began.
    pub packet: u64,
}

/// The first TLS record of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstRecord {
    /// Length of the record, header included.
    pub bytes: u64,
    /// The time from the record's first segment to its last.
    pub took: Duration,
    /// The longest gap between two of its segments.
    pub longest_gap: Duration,
    /// The whole round trip between the ends, if it is known.
    pub round_trip: Option<Duration>,
}

/// The outcome of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The response is complete. Holds the status if the protocol is HTTP.
    Complete(Option<u16>),
    /// The response is complete and reports an error by its protocol (other than HTTP, whose status
    /// shows it).
    Failed(ReplyError),
    /// The gRPC call ended with this status, which is not 0 (OK).
    Grpc(u8),
    /// The client gave up: it closed before the response was whole.
    TimedOut,
    /// Reset by either end.
    Reset,
    /// The server closed before the response was whole.
    Closed,
    /// The capture lacks the exchange's beginning, its end or bytes in between.
    Cut,
}

impl Outcome {
    /// Returns true if the exchange's latency counts: the response came, or the client gave up
    /// waiting for it.
    pub(crate) fn has_latency(self) -> bool {
        matches!(
            self,
            Self::Complete(_) | Self::Failed(_) | Self::Grpc(_) | Self::TimedOut
        )
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete(Some(status)) => status.fmt(f),
            Self::Complete(None) => f.write_str("complete"),
            Self::Failed(error) => error.fmt(f),
            Self::Grpc(status) => write!(f, "grpc-status {status} ({})", status_name(*status)),
            Self::TimedOut => f.write_str("given up by the client"),
            Self::Reset => f.write_str("reset"),
            Self::Closed => f.write_str("closed early"),
            Self::Cut => f.write_str("cut by the capture"),
        }
    }
}

/// The announcement that the connection ends with this exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closing {
    /// True if the request had `Connection: close`.
    pub client_asked: bool,
    /// True if the response had `Connection: close`, or the server sent its FIN first.
    pub server_asked: bool,
    /// True if the heads in which an end asks for that were read, as far as they matter. Otherwise
    /// only the FINs are known.
    pub is_told: bool,
}

impl Side {
    /// Returns the owner of this side's time.
    pub const fn owner(self) -> Owner {
        match self {
            Self::Client => Owner::Client,
            Self::Server => Owner::Server,
        }
    }

    /// Returns the kind of wait in which this side's message is transferred.
    pub const fn transfer(self) -> WaitKind {
        match self {
            Self::Client => WaitKind::RequestTransfer,
            Self::Server => WaitKind::ResponseTransfer,
        }
    }
}

/// Propagation of an exchange's messages between the ends, as its packets show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathTimes {
    /// The time for which the connection had been silent before the request; `None` if that was not
    /// seen.
    pub idle: Option<Duration>,
    /// The time from the complete request to the response's first byte, if nothing in between was
    /// lost.
    pub reply: Option<Duration>,
    /// True if the server's kernel acknowledged the request before the response.
    pub is_acked_first: bool,
    /// Queueing of request and response on their way to the observation point, as far as their
    /// senders' clocks show.
    pub queued: Queueing,
    /// The time by which the end of the response took longer than the minimum from the observation
    /// point to the client; `None` if the client's acknowledgements do not show it.
    pub heard_late: Option<Duration>,
    /// Minimum round trip from the observation point to the client.
    pub to_client: Duration,
    /// Minimum round trip from the observation point to the server, as far as the connection had
    /// shown when the exchange closed.
    pub(crate) to_server: Option<Duration>,
    /// True if this round trip cannot contain time of the server's program: its kernel replied at
    /// once, or the round trip is short.
    pub(crate) is_told: bool,
    /// True if the server's kernel replied at once, so that this round trip is the path's alone.
    pub(crate) is_measured: bool,
    /// The time to live with which the response arrived; 0 if none arrived.
    pub ttl: u8,
    /// Number of the client's segments missing just before the request, by its IP identifications.
    pub skipped: u16,
    /// True if the client had sent the request before: a segment with later sequence numbers, which
    /// may be a bare ACK, arrived first, and by its IP identification it was also sent first.
    pub(crate) is_announced: bool,
    /// True if the client's IP identifications show which segments are missing.
    pub is_numbered: bool,
}

/// Times for which the messages of an exchange queued on the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queueing {
    /// The request's first segment.
    pub request: Duration,
    /// The response's first segment.
    pub response: Duration,
}
