//! The columns of the registry of causes.

use super::Id;
use crate::exchange::wait::WaitKind;
use crate::observed::kernel_span::Stage;
use crate::observed::syscall::SocketOption;

/// A row of the registry: a cause of latency with its properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The id of the cause.
    pub id: Id,
    /// The title of the cause: a sentence, or a noun phrase.
    pub title: &'static str,
    /// The page that `lagtrace explain` prints, in Markdown, without the traces that test the cause.
    pub page: &'static str,
    /// The layer that a finding on the cause accuses.
    pub layer: LayerId,
    /// The kinds of wait that the cause lengthens. With them, a view finds the cause in a timeline.
    pub(crate) waits: &'static [WaitKind],
    /// The stages of a request in the server's kernel in which this cause spends its time. Empty if
    /// time in a stage would not show that this cause is the reason.
    pub(crate) stages: &'static [Stage],
    /// The causes of which this one can be a consequence, the likeliest first.
    pub(crate) follows: &'static [Origin],
    /// The more general causes of which this cause is a special case. This cause is ranked before
    /// them.
    pub(crate) particular_to: &'static [Id],
    /// The finding of a traced route that supports the cause.
    pub(crate) route: Option<RouteProperty>,
    /// The socket option that decides whether the cause applies: only where `TCP_NODELAY` is off, or
    /// `TCP_CORK` is on.
    pub(crate) option: Option<SocketOption>,
    /// What fails while the cause lasts, so that its time is not what matters.
    pub(crate) fails: Option<Failing>,
    /// True if the row only says where unexplained time passed. Such a row has no rule: its finding
    /// comes from the account of time.
    pub is_place: bool,
    /// True if the time is between exchanges, where the account books no time: for example, a
    /// client that waits before it sends. Such a cause claims no time of exchanges.
    pub is_between_exchanges: bool,
    /// True if the cause costs nothing: what it names looks like a fault and is none.
    pub is_free: bool,
    /// True if the cause can hold back any data, and not only requests and responses. Causes that
    /// need to know which side owes a response, or what a program meant to send, cannot.
    pub(crate) holds_any_data: bool,
    /// True if a finding on the cause describes a peer that no longer acknowledges anything.
    pub(crate) tells_dead_peer: bool,
    /// True if the cause consists in attempts to connect, or queries, that get no answer at once: a
    /// service that waits for them waits for this, and other faults at the same address are not
    /// the reason.
    pub(crate) is_silence: bool,
    /// True if the time may be necessary work. The latency without such a cause cannot be
    /// predicted.
    pub(crate) may_be_work: bool,
    /// True if the cause shows where the time was spent, but not why: a server that works, streams
    /// or polls as intended looks the same. Its verdict is at most *possible*, even if the place is
    /// certain.
    pub says_only_where: bool,
    /// What the owner of the time does in it, for a cause that says only where; `{each}` is the cost
    /// for each affected request.
    pub manner: &'static str,
}

/// What fails while a cause lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failing {
    /// Attempts to connect: no request succeeds.
    Connections,
    /// The requests that are affected.
    Requests,
}

/// A cause of which another cause can be a consequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) cause: Id,
    pub(crate) time: SharedTime,
}

/// The relation between the time of a consequence and the time of its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharedTime {
    /// The consequence costs additional time. Example: a path that loses data segments loses SYNs
    /// too.
    Besides,
    /// The consequence costs additional time, and follows only from a cause that accounts for
    /// enough of it. Example: a request waits behind the responses that fill a link.
    Behind,
    /// The consequence's time is part of the cause's time.
    Within,
}

/// A finding of a traced route that supports a finding on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteProperty {
    /// A hop from which on probes are lost.
    Loss,
    /// A hop at which most of the delay begins.
    Delay,
}

/// A layer that a cause can belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LayerId {
    /// Name resolution.
    Name,
    /// Delivery of packets to the next hop.
    Route,
    /// The time that packets take between the hosts.
    RoundTrip,
    /// Packet filters.
    Firewall,
    /// Setup and reuse of connections.
    Connection,
    /// TLS handshakes.
    Tls,
    /// Transfer of bytes on an established connection.
    Transport,
    /// The responding program, its host, and proxies that answer in its place.
    Server,
    /// The requesting program; reports have no line for this layer.
    Client,
}

impl LayerId {
    /// Returns the name of the layer in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Route => "route",
            Self::RoundTrip => "round-trip",
            Self::Firewall => "firewall",
            Self::Connection => "connection",
            Self::Tls => "tls",
            Self::Transport => "transport",
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

/// A row with default values, for the columns that only few causes need.
pub(super) const PLAIN: Cause = Cause {
    id: Id::ServerThink,
    title: "",
    page: "",
    layer: LayerId::Server,
    waits: &[],
    stages: &[],
    follows: &[],
    particular_to: &[],
    route: None,
    option: None,
    fails: None,
    is_place: false,
    is_between_exchanges: false,
    is_free: false,
    holds_any_data: false,
    tells_dead_peer: false,
    is_silence: false,
    may_be_work: false,
    says_only_where: false,
    manner: "",
};
