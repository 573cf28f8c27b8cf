//! The certainty that a claim names the right owner of its time, whatever the cause.

use crate::cause::service::Service;
use crate::claim::{Claim, Statement};
use crate::exchange::wait::Owner;
use crate::facts::Facts;
use crate::observed::event::TargetId;
use crate::report::{EvidenceKind, Verdict};

/// A place is proven if the server's kernel timed at least this part of the packets' wait as its
/// own.
const WITNESSED: f64 = 0.8;

/// The observations of a claim's service, apart from the claim.
pub(super) struct Observed<'a> {
    pub(super) service: Option<&'a Service>,
    pub(super) facts: &'a Facts,
    /// True if the service is known from packets.
    pub(super) has_packets: bool,
    /// True if the packets' timestamps are artificial.
    pub(super) is_drawn: bool,
}

/// Returns the certainty of the place of `claim`, and the best evidence for this place.
pub(super) fn certainty(claim: &Claim, observed: &Observed<'_>) -> (Verdict, String) {
    let (sure, because) = witness(claim, observed);
    // Evidence of the cause is also evidence of the place.
    if claim.verdict_on_place() > sure {
        return (
            claim.verdict_on_place(),
            "the evidence of the cause shows it".to_owned(),
        );
    }
    (sure, because)
}

fn witness(claim: &Claim, observed: &Observed<'_>) -> (Verdict, String) {
    if observed.is_drawn {
        let because = "the timestamps are artificial".to_owned();
        return (Verdict::Possible, because);
    }
    let Some(service) = observed.service else {
        return (Verdict::Possible, "no exchange was seen".to_owned());
    };
    if claim.culprit == Owner::Server && is_timed_by_host(claim, service) {
        let because = "the server's own kernel timed it".to_owned();
        return (Verdict::Proven, because);
    }
    let mut kinds = claim.own_evidence().map(Statement::kind);
    if kinds.any(|kind| kind == EvidenceKind::Intervention) {
        let because = "it changed with an experiment".to_owned();
        return (Verdict::Proven, because);
    }
    if service.ledger.doubtful.unread * 2 > service.ledger.counts.count {
        let because = "its protocol is not decoded, so it is not known which end waits for the \
                       other"
            .to_owned();
        return (Verdict::Possible, because);
    }
    if claim.culprit == Owner::Server && service.ledger.is_relayed() {
        let because = "a device much nearer than the server acknowledges in its name, so the time \
                       may have passed on the path behind this device"
            .to_owned();
        return (Verdict::Possible, because);
    }
    match (observed.has_packets, service.ledger.trips.handshake) {
        (true, Some(_)) => (
            Verdict::Strong,
            "the packets show it, and handshakes show the round trip".to_owned(),
        ),
        (true, None) => (
            Verdict::Possible,
            "only packets show it, without a handshake that bounds the round trip".to_owned(),
        ),
        (false, _) if observed.facts.round_trip(TargetId::Subject).is_some() => (
            Verdict::Strong,
            "the requests' own timestamps show it, and probes show the round trip".to_owned(),
        ),
        (false, _) => (
            Verdict::Possible,
            "only the requests' own timestamps show it".to_owned(),
        ),
    }
}

fn is_timed_by_host(claim: &Claim, service: &Service) -> bool {
    let mut splits = service.served.named();
    splits.any(|(kind, split)| claim.time.waits.contains(&kind) && split.host_share() >= WITNESSED)
}
