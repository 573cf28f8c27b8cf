//! `tls-failed`.

use super::evidence::fix;
use super::failures::{Failures, Kind, tell};
use super::{Case, Conclusion, Features};
use crate::event::{ProbeAnswer, RequestFailure};
use crate::exchange::Exchange;

const KIND: Kind = Kind {
    id: "tls-failed",
    is_answer: |answer| answer == ProbeAnswer::TlsFailed,
    is_failure: |failure| {
        matches!(
            failure,
            RequestFailure::Certificate | RequestFailure::Tls | RequestFailure::TlsTimeout
        )
    },
    what: "came to no TLS connection",
};

/// Tells of our own handshakes that failed where none succeeded. Packets do
/// not say why somebody else's did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    failures: Failures,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::FAILED;

    fn observe(&mut self, _exchange: &Exchange) {}

    fn merge(&mut self, other: Self) {
        self.failures.merge(other.failures);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        self.failures.conclude(case, &KIND, |finding| {
            let endpoint = case.endpoint;
            tell(
                finding,
                format!("No TLS connection to {endpoint} comes about: the notes say why."),
                "a TLS handshake with it that succeeds from this host with the same trust",
                vec![
                    fix(
                        "server",
                        "show a certificate that is valid for its name and signed by an authority \
                         that clients trust, with the whole chain (ssl_certificate of nginx)",
                    ),
                    fix(
                        "client",
                        "trust its authority (--cacert FILE), ask for the name that it has, and \
                         check that the port speaks TLS",
                    ),
                ],
            );
        })
    }
}
