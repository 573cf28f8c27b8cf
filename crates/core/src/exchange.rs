//! Exchanges: one request and its response, closed and tiled.

use core::fmt;
use core::time::Duration;

use crate::event::PointId;
use crate::flow::Endpoint;
use crate::time::Timestamp;
use crate::wait::Wait;

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
    /// The time its connection took, where this exchange has to bear it.
    pub setup: Option<Duration>,
    /// Whose message asked to close the connection after it.
    pub closing: Closing,
    /// What tells why it came to nothing.
    pub(crate) signs: Signs,
}

/// What tells why an exchange came to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signs {
    /// How long its connection had been idle; `None` for the first exchange.
    pub(crate) idle: Option<Duration>,
    /// How often parts of the request were sent again.
    pub(crate) request_repeats: u32,
    /// The server acknowledged the whole request.
    pub(crate) is_request_acked: bool,
    /// A response began.
    pub(crate) has_response: bool,
    /// What came back is no HTTP, although HTTP was asked.
    pub(crate) foreign: Option<Foreign>,
    /// The server had sent its FIN before the request.
    pub(crate) was_closing: bool,
    /// Who reset or closed the connection.
    pub(crate) ended_by: Option<Side>,
}

impl Signs {
    /// Whether the request was sent again and again and not even acknowledged.
    fn is_ignored(&self) -> bool {
        !self.is_request_acked && self.request_repeats >= IGNORED
    }
}

/// Repetitions of a request without any answer, from which nobody hears it.
const IGNORED: u32 = 2;

/// What came back in HTTP's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Foreign {
    /// A TLS record (RFC 8446 §5.1).
    Tls,
    /// Anything else.
    Unknown,
}

impl Exchange {
    /// Its whole duration.
    pub fn latency(&self) -> Duration {
        self.end.since(self.begin)
    }

    /// What became of its connection while that was idle before it; `None`
    /// where it had not been idle.
    pub(crate) fn staleness(&self) -> Option<Staleness> {
        let signs = &self.signs;
        signs.idle.filter(|idle| *idle >= IDLE)?;
        let is_servers = signs.ended_by == Some(Side::Server);
        Some(match self.outcome {
            Outcome::Complete(_) => Staleness::Alive,
            _ if signs.has_response => Staleness::Alive,
            // It may go on behind the end of the capture, with no better luck.
            Outcome::Cut if signs.is_ignored() => Staleness::Forgotten,
            Outcome::Cut => Staleness::Untold,
            _ if signs.was_closing => Staleness::Closed,
            _ if signs.is_request_acked => Staleness::Untold,
            Outcome::Reset if is_servers => Staleness::Reset,
            Outcome::TimedOut | Outcome::Reset => Staleness::Forgotten,
            Outcome::Closed => Staleness::Untold,
        })
    }

    /// Whether its connection had died while it was idle.
    pub(crate) fn is_stale(&self) -> bool {
        let staleness = self.staleness();
        !matches!(staleness, None | Some(Staleness::Alive | Staleness::Untold))
    }
}

/// A connection is idle from here on: the shortest idle timeouts in use are
/// longer, pauses between requests of one page are shorter.
const IDLE: Duration = Duration::from_millis(200);

/// What became of a connection that was idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Staleness {
    /// Its next request was answered.
    Alive,
    /// Its server had ended it.
    Closed,
    /// It was reset at its next request, by whoever had forgotten it.
    Reset,
    /// Nothing came back at all.
    Forgotten,
    /// Cannot be told, or the request failed for another reason.
    Untold,
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The response is whole; its status where it is HTTP.
    Complete(Option<u16>),
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
}

/// A loss that was repaired, by what repaired it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Whose data was lost.
    pub sender: Side,
    /// How the loss was noticed.
    pub mechanism: RecoveryMechanism,
    /// What the exchange lost by it.
    pub took: Duration,
    /// The packet that repaired it.
    pub packet: u64,
}

/// How a sender noticed a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecoveryMechanism {
    /// Its retransmission timer or tail-loss probe expired (RFC 6298, RFC 8985 §7).
    Timeout,
    /// The receiver reported later data (RFC 5681 §3.2, RFC 8985 §6).
    Fast,
}
