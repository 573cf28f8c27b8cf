//! The certainty that a finding names the right owner of its time, whatever the cause.

use crate::cause::service::Service;
use crate::exchange::wait::Owner;
use crate::facts::Facts;
use crate::observed::event::TargetId;
use crate::report::{EvidenceKind, Finding, Verdict};

/// A place is proven if the server's kernel timed at least this part of the packets' wait as its
/// own.
const WITNESSED: f64 = 0.8;

/// Returns the certainty of the place of `finding`, and the best evidence for this place.
pub(crate) fn certainty(
    finding: &Finding,
    service: Option<&Service>,
    facts: &Facts,
    is_from_packets: bool,
) -> (Verdict, String) {
    let (sure, because) = witness(finding, service, facts, is_from_packets);
    // Evidence of the cause is also evidence of the place.
    if finding.verdict > sure {
        return (
            finding.verdict,
            "the evidence of the cause shows it".to_owned(),
        );
    }
    (sure, because)
}

fn witness(
    finding: &Finding,
    service: Option<&Service>,
    facts: &Facts,
    is_from_packets: bool,
) -> (Verdict, String) {
    let Some(service) = service else {
        return (Verdict::Possible, "no exchange was seen".to_owned());
    };
    if finding.culprit == Owner::Server && is_timed_by_host(finding, service) {
        let because = "the server's own kernel timed it".to_owned();
        return (Verdict::Proven, because);
    }
    if finding
        .evidence
        .iter()
        .any(|e| e.kind == EvidenceKind::Intervention)
    {
        let because = "it changed with an experiment".to_owned();
        return (Verdict::Proven, because);
    }
    if service.ledger.doubtful.unread * 2 > service.ledger.counts.count {
        let because = "its protocol is not decoded, so it is not known which end waits for the \
                       other"
            .to_owned();
        return (Verdict::Possible, because);
    }
    if finding.culprit == Owner::Server && service.ledger.is_relayed() {
        let because = "a device much nearer than the server acknowledges in its name, so the time \
                       may have passed on the path behind this device"
            .to_owned();
        return (Verdict::Possible, because);
    }
    match (is_from_packets, service.ledger.trips.handshake) {
        (true, Some(_)) => (
            Verdict::Strong,
            "the packets show it, and handshakes show the round trip".to_owned(),
        ),
        (true, None) => (
            Verdict::Possible,
            "only packets show it, without a handshake that bounds the round trip".to_owned(),
        ),
        (false, _) if facts.round_trip(TargetId::Subject).is_some() => (
            Verdict::Strong,
            "the requests' own timestamps show it, and probes show the round trip".to_owned(),
        ),
        (false, _) => (
            Verdict::Possible,
            "only the requests' own timestamps show it".to_owned(),
        ),
    }
}

fn is_timed_by_host(finding: &Finding, service: &Service) -> bool {
    let mut splits = service.served.named();
    splits.any(|(kind, split)| finding.waits.contains(&kind) && split.host_share() >= WITNESSED)
}
