//! Indications of why an exchange failed.

use core::time::Duration;

use super::tls_handshake::Alert;
use super::{Exchange, Outcome, Side};

/// Indications of why a TLS handshake failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsSigns {
    /// True if the server answered the handshake, but it was never completed.
    pub(crate) is_answered: bool,
    /// The alert with which a side refused TLS, if there was one.
    pub(crate) alert: Option<Alert>,
}

/// Indications of why an exchange failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signs {
    /// The time for which the connection had been idle; `None` for the first exchange.
    pub(crate) idle: Option<Duration>,
    /// Number of times that parts of the request were retransmitted.
    pub(crate) request_repeats: u32,
    /// True if the server acknowledged the whole request.
    pub(crate) is_request_acked: bool,
    /// True if a response began.
    pub(crate) has_response: bool,
    /// True if the response was still awaited when the capture ended; false if the capture missed a
    /// part of it.
    pub(crate) is_left_waiting: bool,
    /// What shows of a TLS handshake that failed.
    pub(crate) tls: TlsSigns,
    /// The kind of bytes that came back instead of HTTP, if the request was HTTP.
    pub(crate) foreign: Option<Foreign>,
    /// True if the server had sent its FIN before the request.
    pub(crate) was_closing: bool,
    /// The side that reset or closed the connection.
    pub(crate) ended_by: Option<Side>,
    /// The evidence on who is at fault for the end.
    pub(crate) fault: FaultSigns,
    /// The server's think time, if the capture ended within the response.
    pub(crate) thought: Option<Duration>,
    /// Reasons why requests and responses may be paired wrongly.
    pub(crate) doubts: PairingDoubts,
    /// True if the connection's handshake was seen: both SYNs and the client's ACK.
    pub(crate) is_made: bool,
    /// True if a device on the path acknowledges for the server, which is farther away.
    pub(crate) is_relayed: bool,
    /// What frames show of the exchange, if it is an HTTP/2 stream.
    pub(crate) stream: StreamSigns,
}

/// The evidence on who is at fault for the end of an exchange that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FaultSigns {
    /// True if a device on the path reset the connection in the server's name.
    pub(crate) is_reset_on_way: bool,
    /// The evidence on whether the server sent an answer that did not come.
    pub(crate) unheard: Unheard,
}

/// The evidence on whether the server had sent more of an answer than came. Each segment carries
/// its sender's next sequence number (RFC 9293 §3.4), so also one without payload tells what was
/// sent before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Unheard {
    /// The server was not heard again, so that its answer may have been lost on the way.
    #[default]
    Untold,
    /// The server had sent nothing else until the client gave up.
    Nothing,
    /// Bytes that the server had sent were lost on the way.
    Lost,
}

/// What HTTP/2's frames show of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamSigns {
    /// True if the exchange is an HTTP/2 stream.
    pub(crate) is_read: bool,
    /// True if the messages are those of streams that TLS hides.
    pub(crate) is_hidden: bool,
    /// How the stream ended, if not with its messages.
    pub(crate) end: Option<StreamEnd>,
    /// Number of requests on the connection between the previous exchange and this one whose frames
    /// could not be read, because the capture lacks parts of them.
    pub(crate) unread_before: u32,
    /// The number of streams that the server allows, if so many were open until right before the
    /// request.
    pub(crate) waited_at_limit: Option<u32>,
}

/// TCP's sequence numbers of the first and the last byte of both messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Positions {
    pub(crate) request: [u32; 2],
    pub(crate) response: [u32; 2],
}

/// The end of a stream before its messages were complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StreamEnd {
    /// A reset by this side (RST_STREAM), with this error code.
    Reset(Side, u32),
    /// The server ended the connection (GOAWAY) with this error code, and does not process the
    /// stream.
    GoAway(u32),
}

/// Reasons why a request and its response may be paired wrongly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PairingDoubts {
    /// True if the messages belong to no protocol that is parsed.
    pub(crate) is_unread: bool,
    /// True if too few of the connection's bytes were captured to recognize a protocol.
    pub(crate) is_unseen: bool,
    /// True if the server sent something after the request without acknowledging it, or continued
    /// after a long pause: both sides may send at any time.
    pub(crate) is_crossed: bool,
    /// Time in microseconds after which the server continued, if that may be the rest of the response;
    /// 0 if it sent nothing more.
    pub(crate) paused_us: u32,
    /// True if the server, which also sends what nobody asks for, sent the response after a long
    /// pause: it may be no response.
    pub(crate) is_unasked: bool,
    /// True if the last part of the response is short and late, and the client did not wait for it:
    /// it may be something of the server's own, such as a heartbeat.
    pub(crate) is_rest_unasked: bool,
}

impl Signs {
    /// Returns true if the request was retransmitted repeatedly and not even acknowledged.
    fn is_ignored(&self) -> bool {
        !self.is_request_acked && self.request_repeats >= IGNORED
    }
}

/// Minimum number of retransmissions of a request without any answer for concluding that nobody
/// receives it.
const IGNORED: u32 = 2;

/// The kind of bytes that came back instead of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Foreign {
    /// A TLS record (RFC 8446 §5.1).
    Tls,
    /// Anything else.
    Unknown,
}

impl Exchange {
    /// Returns the state of the connection after an idle period before the exchange; `None` if it
    /// had not been idle.
    pub(crate) fn staleness(&self) -> Option<Staleness> {
        let signs = &self.signs;
        signs.idle.filter(|idle| *idle >= IDLE)?;
        let is_servers = signs.ended_by == Some(Side::Server);
        Some(match self.outcome {
            Outcome::Complete(_) | Outcome::Failed(_) | Outcome::Grpc(_) => Staleness::Alive,
            _ if signs.has_response => Staleness::Alive,
            // The exchange may continue after the end of the capture, but is unlikely to succeed.
            Outcome::Cut if signs.is_ignored() => Staleness::Forgotten,
            Outcome::Cut => Staleness::Untold,
            _ if signs.was_closing => Staleness::Closed,
            _ if signs.is_request_acked => Staleness::Untold,
            Outcome::Reset if is_servers => Staleness::Reset,
            Outcome::TimedOut | Outcome::Reset => Staleness::Forgotten,
            Outcome::Closed => Staleness::Untold,
        })
    }

    /// Returns true if the connection had died while it was idle.
    pub(crate) fn is_stale(&self) -> bool {
        let staleness = self.staleness();
        !matches!(staleness, None | Some(Staleness::Alive | Staleness::Untold))
    }
}

/// Minimum pause for a connection to count as idle: the shortest idle timeouts in use are longer,
/// pauses between requests of one page are shorter.
const IDLE: Duration = Duration::from_millis(200);

/// The state of a connection that was idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Staleness {
    /// The next request was answered.
    Alive,
    /// The server had ended the connection.
    Closed,
    /// The next request was answered by a reset, from a host or device that had forgotten the
    /// connection.
    Reset,
    /// Nothing came back at all.
    Forgotten,
    /// The state cannot be determined, or the request failed for another reason.
    Untold,
}
