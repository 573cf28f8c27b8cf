//! The rule of the cause `tls-failed`.

mod alerts;

use super::attempts::Attempts;
use super::failures::{FailureKind, Failures};
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::exchange::tls_handshake::Alert;
use crate::exchange::{Exchange, Side};
use crate::observed::event::{ProbeAnswer, RequestFailure};
use crate::service::Counts;
use crate::stats::Merge;

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

const KIND: FailureKind = FailureKind {
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

/// Reports our own failed handshakes if none succeeded, and those of other programs that an alert
/// ended.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    failures: Failures,
    alerts: Counts<Alert>,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::FAILED;

    fn observe(&mut self, exchange: &Exchange) {
        if let Some(alert) = exchange.signs.tls.alert {
            self.failures.add(exchange);
            self.alerts.add(alert, 1);
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        self.failures.conclude(case, &KIND, |claim| {
            let met = Attempts::of(case).filter(|met| !met.has_response());
            let most = self.alerts.iter().max_by_key(|&(_, count)| count);
            match (met.filter(Attempts::has_failed_tls), most) {
                (None, Some((alert, _))) => {
                    let (wording, culprit) = alerts::wording(alert);
                    claim.culprit = culprit;
                    let who = match alert.by {
                        Side::Client => "client",
                        Side::Server => "server",
                    };
                    let name = alerts::name(alert);
                    claim.text.title = format!("The {who} ends TLS handshakes with {name}");
                    wording.tell(claim, &[("who", &who), ("alert", &name)]);
                }
                (met, _) => wording(&met.unwrap_or_default()).tell(claim, &[]),
            }
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
