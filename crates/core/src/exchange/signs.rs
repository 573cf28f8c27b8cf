//! What tells why an exchange came to nothing.

use core::time::Duration;

use super::{Exchange, Outcome, Side};

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
    /// True if its response was still awaited when the capture ended; false if the capture missed
    /// a part of it.
    pub(crate) is_left_waiting: bool,
    /// True for a TLS handshake that the server answered and that was never over.
    pub(crate) has_hello: bool,
    /// What came back is no HTTP, although HTTP was asked.
    pub(crate) foreign: Option<Foreign>,
    /// The server had sent its FIN before the request.
    pub(crate) was_closing: bool,
    /// Who reset or closed the connection.
    pub(crate) ended_by: Option<Side>,
    /// True if somebody on the way reset the connection in the server's name.
    pub(crate) is_reset_on_way: bool,
    /// Time the server thought, where the capture ended within the response.
    pub(crate) thought: Option<Duration>,
    /// True if the messages are of no protocol that is read.
    pub(crate) is_unread: bool,
    /// True if too few of its connection's bytes were captured to tell a protocol.
    pub(crate) is_unseen: bool,
    /// True if the server said something after the request that did not acknowledge
    /// it, or went on after a long rest: both sides speak when they like.
    pub(crate) is_crossed: bool,
    /// True if its connection was seen to be made: both SYNs and the client's ACK.
    pub(crate) is_made: bool,
    /// True if somebody on the way acknowledges for the server, which is farther.
    pub(crate) is_relayed: bool,
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
    /// What became of its connection while that was idle before it; `None`
    /// where it had not been idle.
    pub(crate) fn staleness(&self) -> Option<Staleness> {
        let signs = &self.signs;
        signs.idle.filter(|idle| *idle >= IDLE)?;
        let is_servers = signs.ended_by == Some(Side::Server);
        Some(match self.outcome {
            Outcome::Complete(_) | Outcome::Failed => Staleness::Alive,
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
