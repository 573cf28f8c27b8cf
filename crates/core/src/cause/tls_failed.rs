//! The rule of the cause `tls-failed`.

use super::attempts::Attempts;
use super::failures::{Failures, Kind};
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::exchange::Exchange;
use crate::observed::event::{ProbeAnswer, RequestFailure};

const WORDING: Wording = Wording {
    summary: "No TLS connection to {service} succeeds: the notes say why.",
    ruled_out: &[],
    overturned_by: "a TLS handshake with it that succeeds from this host with the same trust",
    fix: &[
        (
            "server",
            "read its error log: no version, cipher or protocol in common (ssl_protocols, \
             ssl_ciphers of nginx), a required client certificate, or a process that hangs",
        ),
        (
            "client",
            "check whether the port speaks TLS, and with which settings another client succeeds",
        ),
    ],
};

/// The wording if the port speaks another protocol.
const PLAIN: Wording = Wording {
    summary: "{service} does not speak TLS: it answers a handshake with other bytes.",
    fix: &[
        (
            "client",
            "use http://, or the port on which the service speaks TLS",
        ),
        (
            "server",
            "if the port should speak TLS, enable it (listen PORT ssl of nginx)",
        ),
    ],
    ..WORDING
};

/// The wording if the certificate was rejected.
const UNTRUSTED: Wording = Wording {
    fix: &[
        (
            "server",
            "use a certificate that is valid for its name and signed by an authority that clients \
             trust, with the whole chain (ssl_certificate of nginx)",
        ),
        (
            "client",
            "trust its authority (--cacert FILE) and use a name that the certificate contains",
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
    is_refuted: Attempts::has_response,
    what: "got no TLS connection",
};

/// Reports our own failed handshakes if none succeeded. For other programs, packets do not show why
/// a handshake failed.
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

/// Returns the wording that fits the outcomes of our handshakes.
fn wording(met: &Attempts) -> &'static Wording {
    if met.has_met(ProbeAnswer::NotTls, None) {
        &PLAIN
    } else if met.has_met(ProbeAnswer::NotTrusted, Some(RequestFailure::Certificate)) {
        &UNTRUSTED
    } else {
        &WORDING
    }
}
