//! The columns of the registry of causes.

use super::Id;
use crate::exchange::wait::WaitKind;
use crate::observed::kernel_span::Stage;

/// A class of latency: its row of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The cause that the row is about.
    pub id: Id,
    /// The title of the cause, in the form of a sentence.
    pub title: &'static str,
    /// The page that `lagtrace explain` prints, in Markdown.
    pub page: &'static str,
    /// The layer that a finding on the cause accuses.
    pub layer: LayerId,
    /// The kinds of wait that the cause lengthens, for finding it in a timeline.
    pub(crate) waits: &'static [WaitKind],
    /// The stages of the server's kernel that are the mechanism of a server's cause; empty where
    /// the stages would only fit the cause.
    pub(crate) stages: &'static [Stage],
    /// The causes that this one follows from, the likeliest first.
    pub(crate) follows: &'static [Origin],
    /// The general causes of which this cause is a particular case; it comes before them.
    pub(crate) particular_to: &'static [Id],
    /// The property of a traced route that supports the cause.
    pub(crate) route: Option<RouteProperty>,
    /// The socket option that decides whether the cause applies.
    pub(crate) option: Option<SocketOption>,
    /// True if no request succeeds while the cause lasts.
    pub(crate) is_blocking: bool,
    /// True if the row only locates time that no cause explains: it has no rule, and the account of
    /// time makes the finding.
    pub is_place: bool,
    /// True if the time lies between exchanges, where no account books it: a client that waits
    /// before it sends. Such a cause claims nothing of the exchanges.
    pub(crate) is_between_exchanges: bool,
    /// True if the time may be work that has to be done, so that no latency without it can be
    /// predicted.
    pub(crate) may_be_work: bool,
    /// True if the cause identifies where the time was spent and not why: a server that works,
    /// streams or polls as it should looks the same. Its verdict is at most possible, however
    /// certain the place is.
    pub says_only_where: bool,
}

/// A cause that another one follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) cause: Id,
    pub(crate) time: SharedTime,
}

/// The relation between a consequence's time and its cause's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharedTime {
    /// Additional time of the same origin: a path that loses data segments loses SYNs too.
    Besides,
    /// Time that the cause has counted already.
    Within,
}

/// A property of a traced route that supports a finding on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteProperty {
    /// The hop from which on probes are lost.
    Loss,
    /// The hop at which most of the delay begins.
    Delay,
}

/// A socket option that decides whether a cause applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketOption {
    /// `TCP_NODELAY`, the remedy.
    NoDelay,
    /// `TCP_CORK`, the harm.
    Cork,
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

/// A row in which the columns that few causes need are empty.
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
    is_blocking: false,
    is_place: false,
    is_between_exchanges: false,
    may_be_work: false,
    says_only_where: false,
};
