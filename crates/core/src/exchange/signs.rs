//! Signs of why an exchange failed.

use core::time::Duration;

use super::{Exchange, Outcome, Side};

/// Signs of why an exchange failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signs {
    /// The time for which its connection had been idle; `None` for the first exchange.
    pub(crate) idle: Option<Duration>,
    /// Number of times that parts of the request were sent again.
    pub(crate) request_repeats: u32,
    /// True if the server acknowledged the whole request.
    pub(crate) is_request_acked: bool,
    /// True if a response began.
    pub(crate) has_response: bool,
    /// True if its response was still awaited when the capture ended; false if the capture missed
    /// a part of it.
    pub(crate) is_left_waiting: bool,
    /// True for a TLS handshake that the server answered and that was never over.
    pub(crate) has_hello: bool,
    /// The kind of bytes that came back instead of HTTP, although HTTP was asked.
    pub(crate) foreign: Option<Foreign>,
    /// True if the server had sent its FIN before the request.
    pub(crate) was_closing: bool,
    /// The side that reset or closed the connection.
    pub(crate) ended_by: Option<Side>,
    /// True if a device on the way reset the connection in the server's name.
    pub(crate) is_reset_on_way: bool,
    /// Time the server thought, where the capture ended within the response.
    pub(crate) thought: Option<Duration>,
    /// True if the messages are of no protocol that is read.
    pub(crate) is_unread: bool,
    /// True if too few of its connection's bytes were captured to tell a protocol.
    pub(crate) is_unseen: bool,
    /// True if the server said something after the request that did not acknowledge it, or went on
    /// after a long rest: both sides send at any time.
    pub(crate) is_crossed: bool,
    /// True if its connection was seen to be made: both SYNs and the client's ACK.
    pub(crate) is_made: bool,
    /// True if a device on the way acknowledges for the server, which is farther.
    pub(crate) is_relayed: bool,
}

impl Signs {
    /// Returns true if the request was sent again and again and not even acknowledged.
    fn is_ignored(&self) -> bool {
        !self.is_request_acked && self.request_repeats >= IGNORED
    }
}

/// Minimum repetitions of a request without any answer that show that nobody receives it.
const IGNORED: u32 = 2;

/// The kind of bytes that came back in HTTP's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Foreign {
    /// A TLS record (RFC 8446 §5.1).
    Tls,
    /// Anything else.
    Unknown,
}

impl Exchange {
    /// Returns the state of its connection after being idle before it; `None` where it had not been
    /// idle.
    pub(crate) fn staleness(&self) -> Option<Staleness> {
        let signs = &self.signs;
        signs.idle.filter(|idle| *idle >= IDLE)?;
        let is_servers = signs.ended_by == Some(Side::Server);
        Some(match self.outcome {
            Outcome::Complete(_) | Outcome::Failed => Staleness::Alive,
            _ if signs.has_response => Staleness::Alive,
            // The exchange may go on behind the end of the capture, with no better luck.
            Outcome::Cut if signs.is_ignored() => Staleness::Forgotten,
            Outcome::Cut => Staleness::Untold,
            _ if signs.was_closing => Staleness::Closed,
            _ if signs.is_request_acked => Staleness::Untold,
            Outcome::Reset if is_servers => Staleness::Reset,
            Outcome::TimedOut | Outcome::Reset => Staleness::Forgotten,
            Outcome::Closed => Staleness::Untold,
        })
    }

    /// Returns true if its connection had died while it was idle.
    pub(crate) fn is_stale(&self) -> bool {
        let staleness = self.staleness();
        !matches!(staleness, None | Some(Staleness::Alive | Staleness::Untold))
    }
}

/// The pause from which on a connection is idle: the shortest idle timeouts in use are longer,
/// pauses between requests of one page are shorter.
const IDLE: Duration = Duration::from_millis(200);

/// The state of a connection that was idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Staleness {
    /// The next request was answered.
    Alive,
    /// The server had ended the connection.
    Closed,
    /// The connection was reset at its next request, by a host or device that had forgotten it.
    Reset,
    /// Nothing came back at all.
    Forgotten,
    /// The state cannot be told, or the request failed for another reason.
    Untold,
}
