//! Exchanges: one request and its response, closed and tiled.

pub mod delivery;
mod drops;
mod packing;
mod signs;
pub mod tls_handshake;
pub mod wait;

use core::fmt;
use core::time::Duration;

use crate::exchange::delivery::Delivery;
use crate::exchange::tls_handshake::Handshake;
use crate::observed::event::PointId;
use crate::observed::flow::Endpoint;
use crate::observed::time::Timestamp;
pub use drops::{DropSlot, Drops};
pub use packing::{Gathered, Packing};
pub(crate) use signs::{Foreign, Signs, Staleness};

use crate::exchange::wait::{Owner, Wait, WaitKind};
use crate::observed::kernel_span::RequestSpan;

/// A request and its response at one observation point.
///
/// Begins at the first transmission of the request's first byte. Ends when the response's last byte
/// was contiguously seen, never at its ACK. If the observation point is on the sender's side and
/// bytes had to be retransmitted, ends at their last transmission.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The requesting end of the connection.
    pub client: Endpoint,
    /// The answering end of the connection.
    pub server: Endpoint,
    /// The observation point that saw the exchange.
    pub point: PointId,
    /// Number of the exchange on its connection, from 0, among those seen.
    pub ordinal: u32,
    /// Start time of the exchange.
    pub begin: Timestamp,
    /// End time of the exchange.
    pub end: Timestamp,
    /// Outcome of the exchange.
    pub outcome: Outcome,
    /// Method and path of the request, such as `GET /path`, if they could be read.
    pub request: Option<String>,
    /// Waits that tile the exchange.
    pub waits: Vec<Wait>,
    /// Small segments that waited for an acknowledgement, or did not.
    pub holds: Vec<Hold>,
    /// Losses repaired within the exchange.
    pub recoveries: Vec<Recovery>,
    /// Rate and window limits of the exchange's messages, if they stalled for a notable time.
    pub deliveries: Vec<Delivery>,
    /// Segments that arrived out of order or more than once.
    pub disorder: Disorder,
    /// Propagation of the exchange's messages, as far as its packets show it.
    pub path: PathTimes,
    /// Full segments of the response that never get through, if there are any.
    pub mtu_loss: Option<MtuLoss>,
    /// Bytes of the exchange's messages that got through and bytes that were lost, by time, if more
    /// than one segment was lost.
    pub drops: Option<Box<Drops>>,
    /// Oddities of the response's segments that are harmless.
    pub packing: Packing,
    /// The delay of a delayed ACK that held nothing back, if one was seen in the exchange.
    pub harmless_delay: Option<Duration>,
    /// Number of the exchange's first packet.
    pub first_packet: u64,
    /// Number of the exchange's last packet.
    pub last_packet: u64,
    /// Bytes of the response on the wire.
    pub response_bytes: u64,
    /// Minimum round trip from the observation point to the server, as far as the connection had
    /// shown when the exchange closed.
    pub(crate) least_trip: Option<Duration>,
    /// The time that setting up the connection took, TLS included, if it counts towards this
    /// exchange.
    pub setup: Option<Duration>,
    /// The TLS handshake before the exchange, if this is the first exchange after one.
    pub handshake: Option<Box<Handshake>>,
    /// True if the exchange fetched something that a certificate's validity depends on: an OCSP
    /// response, a revocation list, an issuer's certificate.
    pub is_revocation: bool,
    /// The first TLS record of the response, which can be decrypted only as a whole.
    pub first_record: Option<FirstRecord>,
    /// The sides whose message asked to close the connection after the exchange.
    pub closing: Closing,
    /// Details of the exchange's messages that a rule needs.
    pub particulars: Particulars,
    /// Indications of why the exchange failed.
    pub(crate) signs: Signs,
    /// Times measured by the server's kernel, indexed as in [`RequestSpan::STAGES`].
    pub(crate) at_host: Option<Box<[Duration; RequestSpan::STAGES.len()]>>,
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
        let is_held = |wait: &&Wait| {
            !matches!(
                wait.kind,
                WaitKind::RoundTrip | WaitKind::RequestTransfer | WaitKind::ResponseTransfer
            )
        };
        self.waits.iter().filter(is_held).map(Wait::duration).sum()
    }
}

/// Details of an exchange's messages that serve as evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Particulars {
    /// The expectation, if the request announced its body with `Expect: 100-continue` and waited
    /// for permission to send the body.
    pub expectation: Option<Expectation>,
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
    /// True if the response's parts are sent as events occur (server-sent events and the like): the
    /// time between the parts has no owner.
    pub is_stream: bool,
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
    Failed,
    /// The client gave up: it closed before the response was whole.
    TimedOut,
    /// Reset by either end.
    Reset,
    /// The server closed before the response was whole.
    Closed,
    /// The capture lacks the exchange's beginning, its end or bytes in between.
    Cut,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete(Some(status)) => status.fmt(f),
            Self::Complete(None) => f.write_str("complete"),
            Self::Failed => f.write_str("error reply"),
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
}

/// The end that sent or held something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The requesting end.
    Client,
    /// The answering end.
    Server,
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

    /// Returns the other end.
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// A small segment sent after another small one, and what released it.
///
/// Times are those at the sender, as far as they can be computed at the observation point: its own
/// timestamps minus the propagation between (RFC 896; `tcp_nagle_check()` in
/// `net/ipv4/tcp_output.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The sender of both segments.
    pub sender: Side,
    /// The event that released the second segment.
    pub release: HoldRelease,
    /// The time from the first segment to the second.
    pub held: Duration,
    /// The time that the receiver took to acknowledge the first segment, propagation excluded.
    pub ack_delay: Duration,
    /// The time from the acknowledgement's arrival at the sender to the second segment, in
    /// nanoseconds; negative if that segment had been sent already.
    pub reaction_ns: i64,
    /// Packet numbers of the first segment, the acknowledgement (0: none) and the second segment.
    pub packets: [u64; 3],
}

/// The event that released the second small segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HoldRelease {
    /// The acknowledgement of the first segment: the second left immediately after it arrived.
    Acknowledgement,
    /// Nothing: the second segment left while the first was unacknowledged, so Nagle's algorithm is
    /// off.
    Eager,
    /// The program, which wrote late: the second segment left some time after the acknowledgement.
    Program,
    /// The end of a hold that the sender's kernel measured, regardless of the packets.
    Timed,
    /// The program: the second segment left together with an acknowledgement by coincidence, and
    /// the sender's kernel saw the program write only then.
    Written,
}

/// A repaired loss, and the mechanism that repaired it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The side whose data was lost.
    pub sender: Side,
    /// The way in which the loss was noticed.
    pub mechanism: RecoveryMechanism,
    /// True if a retransmission of the same bytes was lost before.
    pub again: bool,
    /// True if this may not have been a loss: only the sender's IP identifications indicate it, and
    /// no byte came twice or was missing; or the bytes were retransmitted before the receiver had
    /// to acknowledge them.
    pub(crate) is_doubtful: bool,
    /// Payload of the segment that repaired the loss.
    pub bytes: u32,
    /// Time that the loss cost the exchange.
    pub took: Duration,
    /// Number of the packet that repaired the loss.
    pub packet: u64,
}

/// The way in which a sender noticed a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecoveryMechanism {
    /// The sender's retransmission timer expired (RFC 6298), or a probe that waited as long as that
    /// timer.
    Timeout,
    /// The sender received nothing for two round trips and retransmitted the last segment (RFC 8985
    /// §7).
    Probe,
    /// The receiver reported that it has later data (RFC 5681 §3.2, RFC 8985 §6).
    Fast,
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
    /// The time beyond the path's minimum that the response's end took to reach the client from an
    /// observation point before it; `None` if the client's acknowledgements do not show it.
    pub heard_late: Option<Duration>,
    /// Minimum round trip from the observation point to the client.
    pub beyond: Duration,
    /// The time to live with which the response arrived; 0 if none arrived.
    pub ttl: u8,
    /// Number of the client's segments missing just before the request, by its IP identifications.
    pub skipped: u16,
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

/// A response whose full segments were lost every time, while smaller ones
/// arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MtuLoss {
    /// Number of times that the first full segment was retransmitted at full size, if that can be
    /// seen.
    pub copies: u32,
    /// Payload of the smaller segments that arrived instead; 0: none.
    pub passed: u32,
    /// Packet number of the last retransmission, or of the first smaller segment.
    pub packet: u64,
}

/// Segments that came out of order or more than once, none of them lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disorder {
    /// Segments that later ones overtook on the path.
    pub overtaken: u32,
    /// Segments retransmitted although an earlier copy arrived.
    pub resent: u32,
    /// Segments of the connection's earlier exchanges that were counted as lost there, but for
    /// which the receiver has since reported that the first copies had arrived too (D-SACK, RFC
    /// 2883).
    pub taken_back: u32,
    /// Segments that the path or the capture duplicated.
    pub copied: u32,
    /// The time for which data that had arrived waited for overtaken segments.
    pub took: Duration,
    /// The first packet of each kind.
    pub first_packets: DisorderPackets,
}

/// Number of the first packet of each kind of disorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisorderPackets {
    /// The first segment that later ones overtook.
    pub overtaken: Option<u64>,
    /// The first segment retransmitted although an earlier copy arrived.
    pub resent: Option<u64>,
    /// The first segment that the path or the capture duplicated.
    pub copied: Option<u64>,
}

impl Disorder {
    pub(crate) fn overtook(&mut self, packet: u64, took: Duration) {
        self.overtaken += 1;
        self.took += took;
        self.first_packets.overtaken.get_or_insert(packet);
    }

    pub(crate) fn resent(&mut self, packet: u64) {
        self.resent += 1;
        self.first_packets.resent.get_or_insert(packet);
    }

    pub(crate) fn copied(&mut self, packet: u64) {
        self.copied += 1;
        self.first_packets.copied.get_or_insert(packet);
    }
}
