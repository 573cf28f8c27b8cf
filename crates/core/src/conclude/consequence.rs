//! Consequences of a cause. They become evidence of the cause instead of separate findings.

use crate::registry::{Id, SharedTime};
use crate::report::Finding;

/// Minimum ratio of a cause's cost to its consequence's cost, if both count the same time.
const EXPLAINED: f64 = 0.5;
/// Minimum ratio of the exchanges that a cause affects to those that its consequence affects, if
/// both count the same time.
const SAME: f64 = 0.1;

/// Merges each consequence into the first of its causes that has a finding and explains it.
pub(super) fn fold(findings: &mut Vec<Finding>) {
    drop_abandoned(findings);
    for consequence in consequences() {
        while let Some((at, root, time)) = pair(findings, consequence) {
            let folded = findings.remove(at);
            let root = if root > at { root - 1 } else { root };
            if let Some(root) = findings.get_mut(root) {
                take_in(root, folded, time);
            }
        }
    }
}

/// Returns the causes that can be consequences, each before its own causes. A consequence must have
/// received all evidence of its own consequences before it is merged itself.
fn consequences() -> Vec<Id> {
    let mut rest: Vec<Id> = Id::ALL.to_vec();
    rest.retain(|id| !id.cause().follows.is_empty());
    let mut ordered = Vec::with_capacity(rest.len());
    while !rest.is_empty() {
        let follows = |other: &Id, id: Id| other.cause().follows.iter().any(|o| o.cause == id);
        let (bound, free): (Vec<Id>, Vec<Id>) = rest
            .iter()
            .partition(|&&id| rest.iter().any(|other| follows(other, id)));
        // The registry has no cycle. If it had one, the causes of the cycle would keep the
        // registry's order.
        let (next, left) = if free.is_empty() {
            (bound, free)
        } else {
            (free, bound)
        };
        ordered.extend(next);
        rest = left;
    }
    ordered
}

/// Returns the indices of a consequence and of its cause in `findings`, for one service, and the
/// relation of their times.
fn pair(findings: &[Finding], consequence: Id) -> Option<(usize, usize, SharedTime)> {
    let origins = consequence.cause().follows;
    let consequences = findings.iter().enumerate();
    consequences
        .filter(|(_, finding)| finding.cause == consequence)
        .find_map(|(at, finding)| {
            origins.iter().find_map(|origin| {
                let root = findings.iter().position(|other| {
                    other.cause == origin.cause
                        && other.service == finding.service
                        && explains(other, finding, origin.time)
                });
                root.map(|root| (at, root, origin.time))
            })
        })
}

/// Returns true if `cause` explains `consequence`. Unless the consequence follows in any case, the
/// cause must cost enough in comparison, and must affect enough exchanges: a cause of one exchange
/// does not explain a wait of many.
fn explains(cause: &Finding, consequence: &Finding, time: SharedTime) -> bool {
    let is_mostly = |cause: u64, consequence: u64| cause as f64 >= consequence as f64 * EXPLAINED;
    time == SharedTime::Besides
        || (is_mostly(cause.cost_ns, consequence.cost_ns)
            && cause.affected.exchanges as f64 >= consequence.affected.exchanges as f64 * SAME)
}

fn take_in(root: &mut Finding, folded: Finding, time: SharedTime) {
    // A delay outside the exchanges is one that the cause's own figures include.
    let is_more = match time {
        SharedTime::Besides => true,
        SharedTime::Behind => !folded.waits.is_empty(),
        SharedTime::Within => false,
    };
    if is_more {
        root.share = (root.share + folded.share).min(1.0);
        root.cost_ns = root.cost_ns.saturating_add(folded.cost_ns);
        root.cost_low_ns = root.cost_low_ns.saturating_add(folded.cost_low_ns);
        root.cost_high_ns = root.cost_high_ns.saturating_add(folded.cost_high_ns);
        for wait in folded.waits {
            if !root.waits.contains(&wait) {
                root.waits.push(wait);
            }
        }
    }
    root.evidence.extend(folded.evidence);
}

/// Drops the finding on an IPv6 address if clients fell back from it to IPv4. The silence of the
/// address is evidence of `ipv6-fallback`, not a second cause.
fn drop_abandoned(findings: &mut Vec<Finding>) {
    let port = |service: &str| service.rsplit_once(':').map(|(_, port)| port.to_owned());
    let is_fallback = |f: &&Finding| f.cause == Id::Ipv6Fallback;
    let ports: Vec<_> = findings
        .iter()
        .filter(is_fallback)
        .map(|f| port(&f.service))
        .collect();
    findings.retain(|f| {
        let is_v6 = f.service.starts_with('[');
        !(f.cause == Id::FirewallDrop && is_v6 && ports.contains(&port(&f.service)))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_consequence_comes_before_what_it_follows_from() {
        let order = consequences();
        let place = |id| order.iter().position(|&other| other == id);
        for &id in &order {
            for origin in id.cause().follows {
                let origin = origin.cause;
                assert!(
                    place(origin).is_none_or(|at| Some(at) > place(id)),
                    "{origin} before {id}"
                );
            }
        }
        assert!(place(Id::SynLoss) < place(Id::PacketLoss), "{order:?}");
    }
}
