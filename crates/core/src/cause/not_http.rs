//! The rule of the cause `not-http`.

use super::attempts::Attempts;
use super::failures::{FailureKind, Failures};
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::Ceiling;
use crate::exchange::{Exchange, Foreign, Outcome};
use crate::observed::event::{ProbeAnswer, RequestFailure};
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The answer of {service} is not HTTP/1.x but {what}.",
    ruled_out: &[],
    overturned_by: "an HTTP response from the same port",
    fix: &[(
        "client",
        "check scheme and port of the URL; for a TLS port the scheme is https",
    )],
};

/// The summary if other responses of the service are HTTP.
const AT_TIMES: &str = "Some answers of {service} do not begin like HTTP/1.x, and others do.";

/// The wording if most responses are TLS records.
const TLS: &str = "TLS: the URL must begin with https";

/// The wording for all other responses.
const OTHER: &str = "another protocol, or TLS";

const KIND: FailureKind = FailureKind {
    id: Id::NotHttp,
    is_answer: |answer| answer == ProbeAnswer::NotHttp,
    is_failure: |failure| failure == RequestFailure::NotHttp,
    is_refuted: Attempts::has_response,
    what: "got bytes that are not an HTTP response",
};

/// Watches HTTP requests whose response does not begin like an HTTP response.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    failures: Failures,
    tls: u64,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::FOREIGN;

    fn observe(&mut self, exchange: &Exchange) {
        if let Some(foreign) = exchange.signs.foreign {
            self.failures.add(exchange);
            self.tls += u64::from(foreign == Foreign::Tls);
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let what = if self.tls * 2 > self.failures.tally.affected {
            TLS
        } else {
            OTHER
        };
        let mut outcomes = case.ledger.counts.outcomes.iter();
        let has_http = outcomes.any(|(outcome, _)| matches!(outcome, Outcome::Complete(Some(_))));
        let wording = Wording {
            summary: if has_http { AT_TIMES } else { WORDING.summary },
            ..WORDING
        };
        self.failures.conclude(case, &KIND, |claim| {
            if has_http {
                claim.basis.cap(Ceiling::WorksAtTimes);
            }
            wording.tell(claim, &[("what", &what)]);
        })
    }
}
