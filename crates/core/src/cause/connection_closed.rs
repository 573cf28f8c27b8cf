//! The rule of the cause `connection-closed`.

use super::attempts::Attempts;
use super::failures::{Failures, Kind};
use super::settings::Measured;
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::exchange::{Exchange, Outcome, Side};
use crate::observed::event::{ProbeAnswer, RequestFailure};

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

const KIND: Kind = Kind {
    id: Id::ConnectionClosed,
    is_answer: |answer| answer == ProbeAnswer::Closed,
    is_failure: |failure| matches!(failure, RequestFailure::Closed | RequestFailure::Reset),
    is_refuted: Attempts::has_response,
    what: "were closed or reset before a complete response",
};

/// Watches requests that the server answered only with a FIN or a RST. The connection must not have
/// been idle before, because an idle connection may be stale.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    failures: Failures,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::FAILED;

    fn observe(&mut self, exchange: &Exchange) {
        let signs = &exchange.signs;
        let is_closed = match exchange.outcome {
            // The server closed first. A client that closes first just does not wait for the
            // response.
            Outcome::Closed => true,
            Outcome::Reset if signs.is_reset_on_way => false,
            Outcome::Reset => signs.ended_by == Some(Side::Server) || signs.was_closing,
            _ => false,
        };
        // A server also resets data of connections that it does not know, and gives up on clients
        // from which nothing arrives. So a request that was never acknowledged and had to be
        // retransmitted was lost on the path.
        let is_heard = signs.is_request_acked || signs.request_repeats == 0;
        let is_taken = signs.is_made && is_heard;
        let has_failed = is_closed && is_taken && !signs.has_response && signs.idle.is_none();
        if has_failed {
            self.failures.add(exchange);
        }
    }

    fn merge(&mut self, other: Self) {
        self.failures.merge(other.failures);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        self.failures
            .conclude(case, &KIND, |finding| WORDING.tell(finding, &[]))
    }

    fn measured(&self, case: &Case<'_>) -> Measured {
        Measured {
            connections: case.facts.loads.connections(case.target),
            ..Measured::default()
        }
    }
}
