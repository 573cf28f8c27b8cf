//! Requests that fail, which matter more than the time of others.

use super::Observations;
use crate::cause::evidence::REPEATS;
use crate::claim::{Advice, Claim, Statement};
use crate::exchange::Outcome;
use crate::exchange::wait::Owner;
use crate::observed::event::{RequestFailure, TargetId};
use crate::observed::flow::Endpoint;
use crate::registry::{Failing, Id};
use crate::report::{Affected, EvidenceKind, counted};
use crate::service::Ledger;

/// Minimum share of failed requests, as one in this many, that matters more than any latency, if the
/// server is at fault.
const MANY: u64 = 20;
/// Minimum share if it is not known who is at fault: the requests may be wrong.
const MOST: u64 = 2;

/// Returns true if so many requests fail for this reason that it comes before the latency of the
/// others. `seen` is the number of all requests of the report: a failing service that is only a
/// small part of the traffic is not its subject.
pub(super) fn leads(claim: &Claim, seen: u64) -> bool {
    let failed = claim.affected.exchanges;
    let part = match claim.culprit {
        Owner::Server => MANY,
        _ => MOST,
    };
    claim.cause.cause().fails == Some(Failing::Requests)
        && failed.saturating_mul(part) >= claim.affected.of.max(seen)
}

/// Minimum number of failed requests of others for a claim, if at least half of all requests
/// failed.
const FEW: u64 = 2;

/// The requests of a service that failed, for whatever reason.
struct Failed {
    count: u64,
    of: u64,
    /// The ways in which they failed, each with its number.
    ways: Vec<String>,
    by: EvidenceKind,
}

/// Adds a claim on each service of which requests fail, and on which nothing else was found.
pub(super) fn add(evidence: &Observations, claims: &mut Vec<Claim>) {
    for (&endpoint, service) in &evidence.services {
        let mut targets = evidence.targets.iter();
        let target = targets.find(|(_, at)| *at == endpoint).map(|&(id, _)| id);
        let own = target.and_then(|target| of_load(evidence, target));
        if target == Some(TargetId::Twin) || is_explained(endpoint, claims, own.is_some()) {
            continue;
        }
        let failed = own.or_else(|| Some(of_packets(&service.ledger)));
        claims.extend(failed.and_then(|failed| claim(endpoint, &failed)));
    }
}

/// Returns true if there is a claim on the service, which may be why requests fail. Why our own
/// requests fail, a claim must say that names more than the place of time.
fn is_explained(endpoint: Endpoint, claims: &[Claim], is_own: bool) -> bool {
    let mut others = claims.iter().filter(|other| other.at == endpoint);
    others.any(|other| !is_own || !other.cause.cause().says_only_where)
}

fn of_load(evidence: &Observations, target: TargetId) -> Option<Failed> {
    let load = evidence.facts.loads.baseline(target)?;
    let failures = load.failures.iter();
    let failures = failures.filter(|(failure, _)| **failure != RequestFailure::Cut);
    Some(Failed {
        count: failures.clone().map(|(_, count)| count).sum(),
        of: failures.clone().map(|(_, count)| count).sum::<u64>() + load.whole(),
        ways: failures
            .map(|(failure, count)| format!("{} ×{count}", failure.name()))
            .collect(),
        by: EvidenceKind::OwnSocket,
    })
}

fn of_packets(ledger: &Ledger) -> Failed {
    let given_up = ledger.given_up();
    let ways = ledger
        .counts
        .outcomes
        .iter()
        .filter_map(|(outcome, count)| match outcome {
            Outcome::Reset | Outcome::Closed => Some((outcome, count)),
            Outcome::TimedOut => Some((outcome, given_up.min(count))),
            _ => None,
        });
    let ways: Vec<_> = ways.filter(|(_, count)| *count > 0).collect();
    Failed {
        count: ways.iter().map(|(_, count)| count).sum(),
        of: ledger.uncut(),
        ways: ways
            .iter()
            .map(|(outcome, count)| format!("{outcome} ×{count}"))
            .collect(),
        by: EvidenceKind::Wire,
    }
}

/// Returns the claim, if enough requests failed.
fn claim(endpoint: Endpoint, failed: &Failed) -> Option<Claim> {
    let is_many = failed.count >= REPEATS && failed.count.saturating_mul(MANY) >= failed.of;
    // In a capture, a person may have left a single response.
    let few = match failed.by {
        EvidenceKind::OwnSocket => 1,
        _ => FEW,
    };
    let is_most = failed.count >= few && failed.count.saturating_mul(MOST) >= failed.of;
    if failed.count == 0 || !(is_many || is_most) {
        return None;
    }
    let mut claim = Claim::blank(Id::RequestsFail, Owner::Unknown, endpoint);
    claim.affected = Affected {
        exchanges: failed.count,
        of: failed.of,
    };
    let text = format!(
        "{} of {} failed: {}",
        failed.count,
        counted(failed.of, "request", "requests"),
        failed.ways.join(", ")
    );
    claim.text.summary = format!("Requests to {endpoint} fail ({}).", failed.ways.join(", "));
    claim.evidence = vec![Statement::shows(failed.by, text).count(failed.count)];
    claim.text.overturned_by = "complete responses to the same requests".to_owned();
    claim.advice = vec![
        Advice::new(
            "server",
            "read its error log for the time of these requests",
        ),
        Advice::new(
            "client",
            "if it gave up too soon, allow more time (--timeout of lagtrace)",
        ),
    ];
    Some(claim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Id;
    use crate::report::Affected;

    #[test]
    fn failures_lead_if_they_are_many_of_their_service_and_of_all_requests() {
        let leads = |id, culprit, exchanges, of, seen| {
            let affected = Affected { exchanges, of };
            let at = Endpoint::new([10, 0, 0, 2].into(), 80);
            let claim = Claim {
                affected,
                ..Claim::blank(id, culprit, at)
            };
            leads(&claim, seen)
        };
        let error = |culprit, failed, of, seen| leads(Id::HttpError, culprit, failed, of, seen);
        assert!(error(Owner::Server, 7, 100, 100));
        assert!(!error(Owner::Server, 4, 100, 100));
        assert!(
            !error(Owner::Unknown, 49, 100, 100),
            "requests may be wrong"
        );
        assert!(error(Owner::Unknown, 50, 100, 100));
        assert!(
            !error(Owner::Server, 8, 8, 1_000),
            "another service matters"
        );
        assert!(!error(Owner::Unknown, 2, 2, 37), "another service matters");
        assert!(!leads(Id::ServerThink, Owner::Server, 100, 100, 100));
    }
}
