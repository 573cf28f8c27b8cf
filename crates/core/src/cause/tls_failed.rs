//! `tls-failed`.

use super::attempts::Attempts;
use super::failures::{Failures, Kind};
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::exchange::Exchange;
use crate::observed::event::{ProbeAnswer, RequestFailure};

const WORDING: Wording = Wording {
    summary: "No TLS connection to {service} comes about: the notes say why.",
    ruled_out: &[],
    overturned_by: "a TLS handshake with it that succeeds from this host with the same trust",
    fix: &[
        (
            "server",
            "read its error log: no version, cipher or protocol in common (ssl_protocols, \
             ssl_ciphers of nginx), a client's certificate that is asked for, or a process that \
             hangs",
        ),
        (
            "client",
            "check that the port speaks TLS, and with which settings another client succeeds",
        ),
    ],
};

/// The wording for a port that speaks another protocol.
const PLAIN: Wording = Wording {
    summary: "{service} speaks no TLS: it answers a handshake with other bytes.",
    fix: &[
        (
            "client",
            "ask by http://, or at the port on which the service speaks TLS",
        ),
        (
            "server",
            "if TLS is meant there, let the port speak it (listen PORT ssl of nginx)",
        ),
    ],
    ..WORDING
};

/// The wording for a certificate that was rejected.
const UNTRUSTED: Wording = Wording {
    fix: &[
        (
            "server",
            "show a certificate that is valid for its name and signed by an authority that \
             clients trust, with the whole chain (ssl_certificate of nginx)",
        ),
        (
            "client",
            "trust its authority (--cacert FILE) and ask for the name that it has",
        ),
    ],
    ..WORDING
};

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

/// Reports our own failed handshakes if none succeeded. Packets do not show why other programs'
/// handshakes failed.
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
            let met = Attempts::of(case).unwrap_or_default();
            wording(&met).tell(finding, &[]);
        })
    }
}

/// Returns the wording for the outcomes of the handshakes.
fn wording(met: &Attempts) -> &'static Wording {
    if met.has_met(ProbeAnswer::NotTls, None) {
        &PLAIN
    } else if met.has_met(ProbeAnswer::NotTrusted, Some(RequestFailure::Certificate)) {
        &UNTRUSTED
    } else {
        &WORDING
    }
}
