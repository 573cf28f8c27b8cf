//! What is particular comes before the general finding that it belongs to.

use crate::report::Finding;

/// Where a connection's making is slow for a reason of its own, that there are
/// many of them comes behind it, whatever the whole of them costs; likewise
/// slow start behind what makes it matter.
fn particular(general: &str) -> &'static [&'static str] {
    match general {
        "connection-not-reused" => &[
            "tls-round-trips",
            "tls-large-certificate",
            "tls-revocation-fetch",
            "tls-slow-handshake",
            "tls-record-buffering",
        ],
        "slow-start" => &[
            "tls-large-certificate",
            "tls-record-buffering",
            "http2-flow-control",
        ],
        _ => &[],
    }
}

/// Moves what is particular right before the general finding it belongs to.
pub(super) fn put_first(findings: &mut Vec<Finding>) {
    let mut at = 0;
    while let Some(general) = findings.get(at) {
        let behind = findings
            .iter()
            .enumerate()
            .skip(at + 1)
            .find(|(_, finding)| {
                finding.service == general.service
                    && particular(&general.cause).contains(&finding.cause.as_str())
            });
        if let Some((from, _)) = behind {
            let finding = findings.remove(from);
            findings.insert(at, finding);
        }
        at += 1;
    }
}
