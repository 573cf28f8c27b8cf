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
    /// The requesting end.
    pub client: Endpoint,
    /// The answering end.
    pub server: Endpoint,
    /// Where it was seen.
    pub point: PointId,
    /// Which exchange of its connection, from 0, as far as seen.
    pub ordinal: u32,
    /// When it began.
    pub begin: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// How it ended.
    pub outcome: Outcome,
    /// `GET /path`, where it could be read.
    pub request: Option<String>,
    /// Its pieces, tiling it.
    pub waits: Vec<Wait>,
    /// Small parts that followed, or did not follow, an acknowledgement.
    pub holds: Vec<Hold>,
    /// Losses repaired within it.
    pub recoveries: Vec<Recovery>,
    /// What limited its messages, where they stood still for a time worth naming.
    pub deliveries: Vec<Delivery>,
    /// What arrived out of order or more than once.
    pub disorder: Disorder,
    /// What its packets tell of the way.
    pub travel: Travel,
    /// Whether full segments of its response do not get through at all.
    pub narrow: Option<Narrow>,
    /// What of its messages got through when, where more than one segment did not.
    pub drops: Option<Box<Drops>>,
    /// What is odd about the response's segments, and harmless.
    pub packing: Packing,
    /// A delayed ACK that held nothing back, if one was seen in it.
    pub harmless_delay: Option<Duration>,
    /// Number of its first packet.
    pub first_packet: u64,
    /// Number of its last packet.
    pub last_packet: u64,
    /// Bytes of the response on the wire.
    pub response_bytes: u64,
    /// The least round trip from where it was seen to the server, as far as
    /// its connection had shown when it closed.
    pub(crate) least_trip: Option<Duration>,
    /// The time its connection took, TLS included, where this exchange has to
    /// bear it.
    pub setup: Option<Duration>,
    /// The TLS handshake before it, if it is the first behind one.
    pub handshake: Option<Box<Handshake>>,
    /// It fetched what a certificate's validity rests on: an OCSP response, a
    /// revocation list, an issuer's certificate.
    pub is_revocation: bool,
    /// The first TLS record of its response, which can be read only as a whole.
    pub first_record: Option<FirstRecord>,
    /// Whose message asked to close the connection after it.
    pub closing: Closing,
    /// What its messages said, as far as a rule asks.
    pub particulars: Particulars,
    /// What tells why it came to nothing.
    pub(crate) signs: Signs,
    /// What its server's kernel saw of it, by [`RequestSpan::STAGES`].
    pub(crate) at_host: Option<Box<[Duration; RequestSpan::STAGES.len()]>>,
}

impl Exchange {
    /// Its whole duration.
    pub fn latency(&self) -> Duration {
        self.end.since(self.begin)
    }

    /// Its latency less travel and transfer: what somebody made it wait.
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

/// What of an exchange's messages is evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Particulars {
    /// The request announced its body with `Expect: 100-continue` and waited
    /// for leave to send it.
    pub expectation: Option<Expectation>,
    /// From the response's last byte to the server's FIN that alone told the
    /// client that there was no more.
    pub close_wait: Option<Duration>,
    /// Bytes that the response announced and never had.
    pub missing_bytes: u64,
    /// Fingerprint of the request's target; 0 where it is not HTTP.
    pub target: u64,
    /// Fingerprint of the origin that the request names; 0 where none was read.
    pub origin: u64,
    /// Fingerprint of the target that a redirect leads to.
    pub redirect: Option<u64>,
    /// The response was compressed while it was sent.
    pub is_encoded_on_the_fly: bool,
    /// The response's parts come when something happens (server-sent events and the
    /// like): what passes between them is nobody's delay.
    pub is_stream: bool,
}

/// How a client came to send the body that it had announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// From the head's end to the body.
    pub waited: Duration,
    /// Whether `100 Continue` came before the body left.
    pub is_answered: bool,
    /// The path's part: the least that leave takes to come.
    pub travel: Duration,
    /// Packet that began the body.
    pub packet: u64,
}

/// The first TLS record of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstRecord {
    /// Its bytes, header included.
    pub bytes: u64,
    /// From its first segment to its last.
    pub took: Duration,
    /// The longest gap between two of its segments.
    pub longest_gap: Duration,
    /// The whole round trip between the ends, where it is known.
    pub round_trip: Option<Duration>,
}

/// How an exchange ended.
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

/// Who announced that the connection ends with this exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closing {
    /// The request said `Connection: close`.
    pub client_asked: bool,
    /// The response did, or the server sent its FIN first.
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
    /// Whose time it is.
    pub const fn owner(self) -> Owner {
        match self {
            Self::Client => Owner::Client,
            Self::Server => Owner::Server,
        }
    }

    /// The other end.
    pub const fn peer(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// A small segment sent after another small one: what let it go.
///
/// Times are what they were at the sender, as far as the observation point can
/// tell: its own stamps less the travel between (RFC 896; `tcp_nagle_check()`
/// in `net/ipv4/tcp_output.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Who sent both.
    pub sender: Side,
    /// What let the second go.
    pub release: HoldRelease,
    /// From the first segment to the second.
    pub held: Duration,
    /// How long the receiver took to acknowledge the first, travel excluded.
    pub ack_delay: Duration,
    /// From the acknowledgement's arrival at the sender to the second segment,
    /// in nanoseconds; negative when that was on its way already.
    pub reaction_ns: i64,
    /// Packets: the first, the acknowledgement (0: none), the second.
    pub packets: [u64; 3],
}

/// What let the second small segment go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HoldRelease {
    /// It left at once when the first was acknowledged.
    Acknowledgement,
    /// It left while the first was unacknowledged: Nagle's algorithm is off.
    Eager,
    /// It left some time after the acknowledgement: its program was late.
    Program,
    /// Its sender's kernel timed it as held, whatever the packets say.
    Timed,
    /// It left with an acknowledgement by chance: its sender's kernel saw the program
    /// write it only then.
    Written,
}

/// A loss that was repaired, by what repaired it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Whose data was lost.
    pub sender: Side,
    /// How the loss was noticed.
    pub mechanism: RecoveryMechanism,
    /// Whether a repetition of the same bytes was lost before.
    pub again: bool,
    /// True if it may have been none: its sender's numbers alone say so, and no byte came twice
    /// or was missing; or it was repeated before its receiver had to acknowledge it.
    pub(crate) is_doubtful: bool,
    /// Payload of the segment that repaired it.
    pub bytes: u32,
    /// What the exchange lost by it.
    pub took: Duration,
    /// The packet that repaired it.
    pub packet: u64,
}

/// How a sender noticed a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecoveryMechanism {
    /// Its retransmission timer expired (RFC 6298), or a probe that waited as long.
    Timeout,
    /// It heard nothing for two round trips and sent the last segment again
    /// (RFC 8985 §7).
    Probe,
    /// The receiver reported later data (RFC 5681 §3.2, RFC 8985 §6).
    Fast,
}

/// What the packets of an exchange tell of the way between the ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Travel {
    /// How long its connection had been silent before the request; `None` where
    /// that was not seen.
    pub idle: Option<Duration>,
    /// From the whole request to the response's first byte, nothing of it lost.
    pub reply: Option<Duration>,
    /// Whether the server's kernel acknowledged the request before that.
    pub is_acked_first: bool,
    /// How long request and response queued on their way to the point, as far
    /// as their senders' clocks tell.
    pub queued: [Duration; 2],
    /// How much later than the path takes at best the client heard the
    /// response's end, seen from a point before it; `None` where its
    /// acknowledgements do not tell.
    pub heard_late: Option<Duration>,
    /// The least round trip from the point to the client.
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
    /// How often the first one was sent again in full, where that can be seen.
    pub copies: u32,
    /// Payload of the smaller segments that arrived instead; 0: none.
    pub passed: u32,
    /// The last copy, or the first smaller segment.
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
    /// How long what had arrived waited for what was overtaken.
    pub took: Duration,
    /// The first packet of each: overtaken, resent, copied; 0 where none.
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
