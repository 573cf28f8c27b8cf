//! Alerts with which clients and servers refuse TLS (RFC 8446 §6.2, RFC 7301 §3.2).

use super::{Alert, Side};
use crate::cause::wording::Wording;
use crate::exchange::wait::Owner;

/// What an alert is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AlertKind {
    Certificate,
    Agreement,
    Name,
    Other,
}

/// The alerts, each with its number and name.
const ALERTS: [(u8, &str, AlertKind); 26] = [
    (10, "unexpected_message", AlertKind::Other),
    (20, "bad_record_mac", AlertKind::Other),
    (22, "record_overflow", AlertKind::Other),
    (40, "handshake_failure", AlertKind::Agreement),
    (42, "bad_certificate", AlertKind::Certificate),
    (43, "unsupported_certificate", AlertKind::Certificate),
    (44, "certificate_revoked", AlertKind::Certificate),
    (45, "certificate_expired", AlertKind::Certificate),
    (46, "certificate_unknown", AlertKind::Certificate),
    (47, "illegal_parameter", AlertKind::Other),
    (48, "unknown_ca", AlertKind::Certificate),
    (49, "access_denied", AlertKind::Certificate),
    (50, "decode_error", AlertKind::Other),
    (51, "decrypt_error", AlertKind::Other),
    (70, "protocol_version", AlertKind::Agreement),
    (71, "insufficient_security", AlertKind::Agreement),
    (80, "internal_error", AlertKind::Other),
    (86, "inappropriate_fallback", AlertKind::Agreement),
    (109, "missing_extension", AlertKind::Agreement),
    (110, "unsupported_extension", AlertKind::Agreement),
    (112, "unrecognized_name", AlertKind::Name),
    (
        113,
        "bad_certificate_status_response",
        AlertKind::Certificate,
    ),
    (115, "unknown_psk_identity", AlertKind::Other),
    (116, "certificate_required", AlertKind::Certificate),
    (117, "general_error", AlertKind::Other),
    (120, "no_application_protocol", AlertKind::Agreement),
];

/// What is the same for all alerts.
const ANY: Wording = Wording {
    summary: "{part} of the requests to {service} get no TLS connection: the {who} ends the handshake \
              with {alert}.",
    ruled_out: &[],
    overturned_by: "a TLS handshake between the same two ends that succeeds",
    fix: &[],
};

const CLIENT_DISTRUSTS: Wording = Wording {
    fix: &[
        (
            "server",
            "use a certificate that is valid for its name and signed by an authority that clients \
             trust, with the whole chain",
        ),
        (
            "client",
            "trust the authority that signed it, and use its name",
        ),
    ],
    ..ANY
};

const SERVER_DISTRUSTS: Wording = Wording {
    fix: &[
        (
            "client",
            "send a certificate that is valid and signed by an authority that the server trusts",
        ),
        ("server", "trust the authority of the clients' certificates"),
    ],
    ..ANY
};

const NO_AGREEMENT: Wording = Wording {
    fix: &[
        (
            "server",
            "allow a version, cipher suite and protocol that these clients offer",
        ),
        (
            "client",
            "update it, or allow the versions and cipher suites of the server",
        ),
    ],
    ..ANY
};

const WRONG_NAME: Wording = Wording {
    fix: &[
        ("client", "use a name that the server has a certificate for"),
        ("server", "configure the name that clients use"),
    ],
    ..ANY
};

const OTHER: Wording = Wording {
    fix: &[
        ("server", "read its error log: it names the reason"),
        ("client", "read its own error message: it names the reason"),
    ],
    ..ANY
};

/// Returns the alert's name and number.
pub(super) fn name(alert: Alert) -> String {
    match alert.description {
        None => "an encrypted alert, which shows no reason".to_owned(),
        Some(number) => {
            let row = ALERTS.iter().find(|(known, ..)| *known == number);
            match row {
                Some((_, name, _)) => format!("the alert {name} ({number})"),
                None => format!("the alert {number}"),
            }
        }
    }
}

/// Returns the texts for an alert, and who has to change something, if that is known.
pub(super) fn wording(alert: Alert) -> (&'static Wording, Owner) {
    let number = alert.description;
    let row = ALERTS.iter().find(|(known, ..)| Some(*known) == number);
    match (row.map_or(AlertKind::Other, |row| row.2), alert.by) {
        (AlertKind::Certificate, Side::Client) => (&CLIENT_DISTRUSTS, Owner::Unknown),
        (AlertKind::Certificate, Side::Server) => (&SERVER_DISTRUSTS, Owner::Client),
        (AlertKind::Agreement, _) => (&NO_AGREEMENT, Owner::Unknown),
        (AlertKind::Name, _) => (&WRONG_NAME, Owner::Unknown),
        (AlertKind::Other, _) => (&OTHER, Owner::Unknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alert_says_who_distrusts_whom() {
        let alert = |by, number| Alert {
            by,
            description: Some(number),
        };
        assert_eq!(name(alert(Side::Client, 48)), "the alert unknown_ca (48)");
        assert_eq!(name(alert(Side::Client, 200)), "the alert 200");
        let place = |by| wording(alert(by, 48)).0.fix.first().map(|fix| fix.0);
        assert_eq!(place(Side::Client), Some("server"));
        assert_eq!(place(Side::Server), Some("client"));
        assert_eq!(wording(alert(Side::Server, 116)).1, Owner::Client);
    }
}
