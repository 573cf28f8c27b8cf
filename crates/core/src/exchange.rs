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
/// Begins at the request's first byte, first transmission; ends when the
/// response's last byte was contiguously seen (where the point stands on the
/// sender's side and bytes had to be sent again: when they last were), never
/// at its ACK.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The requesting end of the connection.
    pub client: Endpoint,
    /// The answering end of the connection.
    pub server: Endpoint,
    /// The observation point that saw it.
    pub point: PointId,
    /// Number of the exchange on its connection, from 0, as far as seen.
    pub ordinal: u32,
    /// Time of the exchange's begin.
    pub begin: Timestamp,
    /// Time of the exchange's end.
    pub end: Timestamp,
    /// Outcome of the exchange.
    pub outcome: Outcome,
    /// Method and path of the request, such as `GET /path`, where they could be read.
    pub request: Option<String>,
    /// Waits that tile the exchange.
    pub waits: Vec<Wait>,
    /// Small parts that followed, or did not follow, an acknowledgement.
    pub holds: Vec<Hold>,
    /// Losses repaired within it.
    pub recoveries: Vec<Recovery>,
    /// Limits of its messages, where they stood still for a time worth naming.
    pub deliveries: Vec<Delivery>,
    /// Segments that arrived out of order or more than once.
    pub disorder: Disorder,
    /// Travel of its messages, as its packets tell it.
    pub travel: Travel,
    /// Full segments of its response that do not get through at all, if there are any.
    pub narrow: Option<Narrow>,
    /// Bytes of its messages that got through by time, where more than one segment did not.
    pub drops: Option<Box<Drops>>,
    /// Oddities of the response's segments that are harmless.
    pub packing: Packing,
    /// A delayed ACK that held nothing back, if one was seen in it.
    pub harmless_delay: Option<Duration>,
    /// Number of its first packet.
    pub first_packet: u64,
    /// Number of its last packet.
    pub last_packet: u64,
    /// Bytes of the response on the wire.
    pub response_bytes: u64,
    /// Minimum round trip from where it was seen to the server, as far as
    /// its connection had shown when it closed.
    pub(crate) least_trip: Option<Duration>,
    /// The time its connection took, TLS included, where this exchange has to
    /// bear it.
    pub setup: Option<Duration>,
    /// The TLS handshake before it, if it is the first behind one.
    pub handshake: Option<Box<Handshake>>,
    /// True if it fetched what a certificate's validity rests on: an OCSP response, a revocation
    /// list, an issuer's certificate.
    pub is_revocation: bool,
    /// The first TLS record of its response, which can be read only as a whole.
    pub first_record: Option<FirstRecord>,
    /// The sides whose message asked to close the connection after it.
    pub closing: Closing,
    /// Particulars of its messages, as far as a rule asks.
    pub particulars: Particulars,
    /// Signs of why it failed.
    pub(crate) signs: Signs,
    /// Times that its server's kernel measured, by [`RequestSpan::STAGES`].
    pub(crate) at_host: Option<Box<[Duration; RequestSpan::STAGES.len()]>>,
}

impl Exchange {
    /// Returns the whole duration.
    pub fn latency(&self) -> Duration {
        self.end.since(self.begin)
    }

    /// Returns the latency less travel and transfer: the time that somebody made it wait.
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

/// Particulars of an exchange's messages that are evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Particulars {
    /// The expectation, if the request announced its body with `Expect: 100-continue` and waited
    /// for leave to send it.
    pub expectation: Option<Expectation>,
    /// The time from the response's last byte to the server's FIN that alone told the client that
    /// there was no more.
    pub close_wait: Option<Duration>,
    /// Number of bytes that the response announced and never had.
    pub missing_bytes: u64,
    /// Fingerprint of the request's target; 0 where it is not HTTP.
    pub target: u64,
    /// Fingerprint of the origin that the request names; 0 where none was read.
    pub origin: u64,
    /// Fingerprint of the target that a redirect leads to.
    pub redirect: Option<u64>,
    /// True if the response was compressed while it was sent.
    pub is_encoded_on_the_fly: bool,
    /// True if the response's parts come when something happens (server-sent events and the like):
    /// the time between them has no owner.
    pub is_stream: bool,
}

/// The wait of a client for leave to send the body that it had announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The time from the head's end to the body.
    pub waited: Duration,
    /// True if `100 Continue` came before the body left.
    pub is_answered: bool,
    /// The path's part of that time: the least that leave takes to come.
    pub travel: Duration,
    /// Number of the packet that began the body.
    pub packet: u64,
}

/// The first TLS record of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstRecord {
    /// Length of the record, header included.
    pub bytes: u64,
    /// The time from its first segment to its last.
    pub took: Duration,
    /// The longest gap between two of its segments.
    pub longest_gap: Duration,
    /// The whole round trip between the ends, where it is known.
    pub round_trip: Option<Duration>,
}

/// The outcome of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The response is whole; its status where it is HTTP.
    Complete(Option<u16>),
    /// The response is whole, and an error by its protocol (other than HTTP,
    /// whose status says so).
    Failed,
    /// The client gave up: it closed before the response was whole.
    TimedOut,
    /// Reset by either end.
    Reset,
    /// The server closed before the response was whole.
    Closed,
    /// The capture misses its beginning, its end or bytes between.
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
    /// True if the request said `Connection: close`.
    pub client_asked: bool,
    /// True if the response did, or the server sent its FIN first.
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
/// Times are what they were at the sender, as far as the observation point can
/// tell: its own stamps less the travel between (RFC 896; `tcp_nagle_check()`
/// in `net/ipv4/tcp_output.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The sender of both segments.
    pub sender: Side,
    /// The event that released the second segment.
    pub release: HoldRelease,
    /// The time from the first segment to the second.
    pub held: Duration,
    /// The time that the receiver took to acknowledge the first, travel excluded.
    pub ack_delay: Duration,
    /// The time from the acknowledgement's arrival at the sender to the second segment, in
    /// nanoseconds; negative when that was on its way already.
    pub reaction_ns: i64,
    /// Numbers of three packets: the first, the acknowledgement (0: none), the second.
    pub packets: [u64; 3],
}

/// The event that released the second small segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HoldRelease {
    /// The acknowledgement of the first: the second left at once then.
    Acknowledgement,
    /// No event: the second left while the first was unacknowledged, so Nagle's algorithm is off.
    Eager,
    /// The program, which was late: the second left some time after the acknowledgement.
    Program,
    /// The end of a hold that the sender's kernel timed, whatever the packets say.
    Timed,
    /// The program: the second left with an acknowledgement by chance, and the sender's kernel saw
    /// the program write it only then.
    Written,
}

/// A loss that was repaired, by what repaired it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The side whose data was lost.
    pub sender: Side,
    /// The way in which the loss was noticed.
    pub mechanism: RecoveryMechanism,
    /// True if a repetition of the same bytes was lost before.
    pub again: bool,
    /// True if it may have been none: its sender's numbers alone say so, and no byte came twice
    /// or was missing; or it was repeated before its receiver had to acknowledge it.
    pub(crate) is_doubtful: bool,
    /// Payload of the segment that repaired it.
    pub bytes: u32,
    /// Time that the exchange lost by it.
    pub took: Duration,
    /// Number of the packet that repaired it.
    pub packet: u64,
}

/// The way in which a sender noticed a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecoveryMechanism {
    /// The sender's retransmission timer expired (RFC 6298), or a probe that waited as long.
    Timeout,
    /// The sender received nothing for two round trips and sent the last segment again (RFC 8985
    /// §7).
    Probe,
    /// The receiver reported later data (RFC 5681 §3.2, RFC 8985 §6).
    Fast,
}

/// Travel of an exchange's messages between the ends, as its packets tell it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Travel {
    /// The time for which its connection had been silent before the request; `None` where that was
    /// not seen.
    pub idle: Option<Duration>,
    /// The time from the whole request to the response's first byte, nothing of it lost.
    pub reply: Option<Duration>,
    /// True if the server's kernel acknowledged the request before that.
    pub is_acked_first: bool,
    /// Times that request and response queued on their way to the point, as far as their senders'
    /// clocks tell.
    pub queued: [Duration; 2],
    /// The time beyond the path's least travel that the response's end took to reach the client,
    /// seen from a point before it; `None` where its acknowledgements do not tell.
    pub heard_late: Option<Duration>,
    /// Minimum round trip from the point to the client.
    pub beyond: Duration,
    /// The time to live that the response arrived with; 0 where none did.
    pub ttl: u8,
    /// Segments of the client missing just before the request, by its numbers.
    pub skipped: u16,
    /// True if the client's identifications tell what is missing.
    pub is_numbered: bool,
}

/// A response whose full segments were lost every time, while smaller ones
/// arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Narrow {
    /// Number of times that the first one was sent again in full, where that can be seen.
    pub copies: u32,
    /// Payload of the smaller segments that arrived instead; 0: none.
    pub passed: u32,
    /// Number of the last copy's packet, or of the first smaller segment's.
    pub packet: u64,
}

/// Segments that came out of order or more than once, none of them lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disorder {
    /// Segments that others overtook on the way.
    pub overtaken: u32,
    /// Segments sent again although an earlier copy arrived.
    pub resent: u32,
    /// Segments of earlier exchanges of the connection, taken for lost there, of which the
    /// receiver said since that their first copies had arrived too (D-SACK, RFC 2883).
    pub taken_back: u32,
    /// Segments that the path or the capture doubled.
    pub copied: u32,
    /// The time for which what had arrived waited for what was overtaken.
    pub took: Duration,
    /// Numbers of the first packet of each: overtaken, resent, copied; 0 where none.
    pub packets: [u64; 3],
}

impl Disorder {
    pub(crate) fn overtook(&mut self, packet: u64, took: Duration) {
        self.overtaken += 1;
        self.took += took;
        note(&mut self.packets[0], packet);
    }

    pub(crate) fn resent(&mut self, packet: u64) {
        self.resent += 1;
        note(&mut self.packets[1], packet);
    }

    pub(crate) fn copied(&mut self, packet: u64) {
        self.copied += 1;
        note(&mut self.packets[2], packet);
    }
}

fn note(first: &mut u64, packet: u64) {
    if *first == 0 {
        *first = packet;
    }
}
