//! The rule of the cause `connection-closed`.

use super::attempts::Attempts;
use super::failures::{FailureKind, Failures};
use super::settings::Measured;
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::exchange::{Exchange, Outcome, Side};
use crate::observed::event::{ProbeAnswer, RequestFailure};
use crate::report::Affected;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "{service} accepts connections and closes them before it answers.",
    ruled_out: &[],
    overturned_by: "a complete response to the same request from elsewhere",
    fix: &[
        (
            "server",
            "read its error log: a crash, a limit on connections, or another protocol",
        ),
        ("client", "check that the port speaks plain HTTP"),
    ],
};

/// The wording if the server speaks the client's protocol: TLS handshakes were finished, or other
/// requests were answered.
const SPOKEN: Wording = Wording {
    fix: &[(
        "server",
        "read its error log: a crash, or a request that it does not want",
    )],
    ..WORDING
};

/// The wording for connections that the server closes after a response.
const AFTER: Wording = Wording {
    summary: "{service} closes connections right after a response: {failed} of {all} requests were \
              sent on such a connection before the client knew, and failed.",
    overturned_by: "complete responses to requests on these connections",
    fix: &[
        (
            "server",
            "keep connections open, or send `Connection: close` in the last response (RFC 9112 \
             §9.6)",
        ),
        (
            "client",
            "repeat a request that may be repeated on a new connection if its connection closes \
             before any response (RFC 9110 §9.2.2)",
        ),
    ],
    ..WORDING
};

const KIND: FailureKind = FailureKind {
    id: Id::ConnectionClosed,
    is_answer: |answer| answer == ProbeAnswer::Closed,
    is_failure: |failure| matches!(failure, RequestFailure::Closed | RequestFailure::Reset),
    is_refuted: Attempts::has_response,
    what: "were closed or reset before a complete response",
};

/// Watches requests that the server answered only with a FIN or a RST. The connection must not have
/// been idle before, because an idle connection may be stale.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    failures: Failures,
    /// Number of failed requests on connections that the server had closed after a response.
    after: u64,
    /// Number of failed requests after a TLS handshake.
    secured: u64,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::FAILED;

    fn observe(&mut self, exchange: &Exchange) {
        let signs = &exchange.signs;
        let is_closed = match exchange.outcome {
            // The server closed first. A client that closes first just does not wait for the
            // response.
            Outcome::Closed => true,
            Outcome::Reset if signs.fault.is_reset_on_way => false,
            Outcome::Reset => signs.ended_by == Some(Side::Server) || signs.was_closing,
            _ => false,
        };
        // HTTP/2 tells why a stream ended: the connection goes on, or ends in order.
        let is_closed = is_closed && signs.stream.end.is_none();
        // A server also resets data of connections that it does not know, and gives up on clients
        // from which nothing arrives. So a request that was never acknowledged and had to be
        // retransmitted was lost on the path.
        let is_heard = signs.is_request_acked || signs.request_repeats == 0;
        let is_taken = signs.is_made && is_heard;
        let is_after = exchange.id.ordinal > 0;
        // In protocols that are not parsed, what follows a response may expect none. Requests
        // without packets are our own.
        let is_http = exchange.particulars.target != 0 || exchange.packets.first.is_none();
        let is_awaited = !is_after || (is_http && exchange.staleness().is_none());
        let is_tls_refused = signs.tls.alert.is_some();
        if is_closed && is_taken && !signs.has_response && is_awaited && !is_tls_refused {
            self.failures.add(exchange);
            // What the server acknowledged, and only then closed, it closed because of the request.
            let is_unknown = exchange.packets.first.is_none();
            let was_left = signs.was_closing || !signs.is_request_acked || is_unknown;
            self.after += u64::from(is_after && was_left);
            self.secured += u64::from(exchange.connecting.handshake.is_some());
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let wording = self.wording(case.ledger.whole());
        self.failures.conclude(case, &KIND, |claim| {
            let Affected { exchanges, of } = claim.affected;
            wording.tell(claim, &[("failed", &exchanges), ("all", &of)]);
        })
    }

    fn measured(&self, case: &Case<'_>) -> Measured {
        Measured {
            connections: case.facts.loads.connections(case.target),
            ..Measured::default()
        }
    }
}

impl Rule {
    /// Returns the texts, if `whole` other requests of the service were answered.
    fn wording(&self, whole: u64) -> &'static Wording {
        let failed = self.failures.tally.affected;
        if self.after * 2 > failed {
            &AFTER
        } else if self.secured > 0 || whole > 0 {
            &SPOKEN
        } else {
            &WORDING
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_speaks_tls_or_has_answered_is_not_said_to_speak_something_else() {
        let changes = |secured, whole| {
            let rule = Rule {
                secured,
                ..Rule::default()
            };
            let fix = rule.wording(whole).fix.iter();
            fix.map(|(_, change)| *change).collect::<String>()
        };
        assert!(changes(0, 0).contains("another protocol"));
        for (secured, whole) in [(1, 0), (0, 1)] {
            let changes = changes(secured, whole);
            assert!(!changes.contains("protocol"), "{changes}");
            assert!(!changes.contains("HTTP"), "{changes}");
        }
    }
}
