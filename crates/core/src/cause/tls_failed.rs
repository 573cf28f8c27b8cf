//! `tls-failed`.

use super::attempts::Attempts;
use super::evidence::fix;
use super::failures::{Failures, Kind, tell};
use super::{Case, Conclusion, Features, Id};
use crate::event::{ProbeAnswer, RequestFailure};
use crate::exchange::Exchange;
use crate::report::Fix;

const KIND: Kind = Kind {
    id: Id::TlsFailed,
    is_answer: ProbeAnswer::is_tls_failure,
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
            let met = Attempts::of(case).unwrap_or_default();
            let is_plain = met.has_met(ProbeAnswer::NotTls, None);
            let summary = match is_plain {
                true => {
                    format!("{endpoint} speaks no TLS: it answers a handshake with other bytes.")
                }
                false => format!("No TLS connection to {endpoint} comes about: the notes say why."),
            };
            tell(
                finding,
                summary,
                "a TLS handshake with it that succeeds from this host with the same trust",
                fixes(&met, is_plain),
            );
        })
    }
}

/// What to change, by what came of the handshakes.
fn fixes(met: &Attempts, is_plain: bool) -> Vec<Fix> {
    if is_plain {
        return vec![
            fix(
                "client",
                "ask by http://, or at the port on which the service speaks TLS",
            ),
            fix(
                "server",
                "if TLS is meant there, let the port speak it (listen PORT ssl of nginx)",
            ),
        ];
    }
    if met.has_met(ProbeAnswer::NotTrusted, Some(RequestFailure::Certificate)) {
        return vec![
            fix(
                "server",
                "show a certificate that is valid for its name and signed by an authority that \
                 clients trust, with the whole chain (ssl_certificate of nginx)",
            ),
            fix(
                "client",
                "trust its authority (--cacert FILE) and ask for the name that it has",
            ),
        ];
    }
    vec![
        fix(
            "server",
            "read its error log: no version, cipher or protocol in common (ssl_protocols, \
             ssl_ciphers of nginx), a client's certificate that is asked for, or a process that \
             hangs",
        ),
        fix(
            "client",
            "check that the port speaks TLS, and with which settings another client succeeds",
        ),
    ]
}
