//! `no-response`.

use core::time::Duration;

use super::evidence::fix;
use super::failures::{Failures, Kind, tell};
use super::{Case, Conclusion, Features, Id};
use crate::event::{ProbeAnswer, RequestFailure};
use crate::exchange::{Exchange, Outcome};

const KIND: Kind = Kind {
    id: Id::NoResponse,
    is_answer: |answer| answer == ProbeAnswer::Silence,
    is_failure: |failure| failure == RequestFailure::Timeout,
    what: "were accepted and not answered in the time allowed",
};

/// Who leaves sooner did not wait for an answer: a last word before a FIN, as
/// of TLS, has none.
const PATIENCE: Duration = Duration::from_millis(100);

/// Watches requests that the server's kernel acknowledged and its program
/// never answered, until the client gave up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    failures: Failures,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::FAILED;

    fn observe(&mut self, exchange: &Exchange) {
        let has_failed = exchange.outcome == Outcome::TimedOut
            && !exchange.signs.has_response
            && exchange.signs.is_request_acked
            && exchange.latency() >= PATIENCE;
        if has_failed {
            self.failures.add(exchange);
        }
    }

    fn merge(&mut self, other: Self) {
        self.failures.merge(other.failures);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        self.failures.conclude(case, &KIND, |finding| {
            let endpoint = case.endpoint;
            tell(
                finding,
                format!(
                    "{endpoint} accepts connections and requests and sends no response in the time \
                     allowed."
                ),
                "a response that comes after the time allowed (--timeout)",
                vec![
                    fix(
                        "server",
                        "find what its workers wait for: all busy, a deadlock, a backend that hangs",
                    ),
                    fix(
                        "client",
                        "allow more time (--timeout) if the answer is only late",
                    ),
                ],
            );
        })
    }
}
