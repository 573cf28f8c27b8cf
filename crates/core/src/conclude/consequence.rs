//! Consequences of a cause. They become evidence of the cause instead of separate findings.

use std::collections::BTreeSet;

use crate::cause::evidence::percent;
use crate::observed::flow::Endpoint;
use crate::registry::{Id, SharedTime};
use crate::report::Finding;

/// Minimum ratio of a cause's cost to its consequence's cost, if both count the same time.
const EXPLAINED: f64 = 0.5;
/// Minimum ratio of the exchanges that a cause affects to those that its consequence affects, if
/// both count the same time.
const SAME: f64 = 0.1;

/// Merges each consequence into the first of its causes that has a finding and explains it.
/// `abandoned` are the addresses from which clients fell back to others.
pub(super) fn fold(findings: &mut Vec<Finding>, abandoned: &BTreeSet<Endpoint>) {
    drop_abandoned(findings, abandoned);
    let mut grown = BTreeSet::new();
    for consequence in consequences() {
        while let Some((at, root, time)) = pair(findings, consequence) {
            let folded = findings.remove(at);
            let root = if root > at { root - 1 } else { root };
            if let Some(root) = findings.get_mut(root)
                && take_in(root, folded, time)
            {
                grown.insert((root.cause.as_str(), root.service.clone()));
            }
        }
    }
    for finding in findings {
        if grown.contains(&(finding.cause.as_str(), finding.service.clone())) {
            let share = percent(finding.share);
            finding.summary +=
                &format!(" Including its consequences, it costs {share} of the time.");
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

/// Adds a consequence to its cause. Returns true if the cause costs more with it.
fn take_in(root: &mut Finding, folded: Finding, time: SharedTime) -> bool {
    // A delay outside the exchanges is one that the cause's own figures include.
    let is_more = match time {
        SharedTime::Besides => true,
        SharedTime::Behind => !folded.waits.is_empty(),
        SharedTime::Within => false,
    };
    if is_more {
        root.share = share_of_both(root, &folded);
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
    is_more
}

/// Returns the share of two findings together. The share of one may refer to the time of the
/// requests, and that of the other to their time including connection setup, which contains it.
fn share_of_both(one: &Finding, other: &Finding) -> f64 {
    let whole = |finding: &Finding| match finding.share {
        share if share > 0.0 => finding.cost_ns as f64 / share,
        _ => 0.0,
    };
    let both = one.cost_ns.saturating_add(other.cost_ns) as f64;
    let whole = whole(one).max(whole(other));
    if whole > 0.0 {
        (both / whole).min(1.0)
    } else {
        one.share
    }
}

/// Drops the findings on addresses from which clients fell back to others. The silence of such an
/// address is evidence of `ipv6-fallback`, not a second cause.
fn drop_abandoned(findings: &mut Vec<Finding>, abandoned: &BTreeSet<Endpoint>) {
    let falls_back = |f: &Finding| f.cause == Id::Ipv6Fallback;
    if findings.iter().any(falls_back) {
        let abandoned: BTreeSet<String> = abandoned.iter().map(Endpoint::to_string).collect();
        findings.retain(|f| f.cause != Id::FirewallDrop || !abandoned.contains(&f.service));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::evidence::blank;
    use crate::exchange::wait::Owner;

    fn finding(cause: Id, service: &str, cost_ns: u64, share: f64) -> Finding {
        Finding {
            cost_ns,
            share,
            ..blank(cause, Owner::Server, service.to_owned())
        }
    }

    #[test]
    fn only_the_silence_of_an_address_that_clients_fell_back_from_is_dropped() {
        let [silent, other] =
            ["fd77::2", "fd77::99"].map(|addr| Endpoint::new(addr.parse().expect("valid"), 443));
        let drop = |at: Endpoint| finding(Id::FirewallDrop, &at.to_string(), 0, 0.0);
        let mut findings = vec![
            finding(Id::Ipv6Fallback, "10.77.0.2:443", 30, 0.5),
            drop(silent),
            drop(other),
        ];
        fold(&mut findings, &[silent].into());
        let left: Vec<_> = findings.iter().map(|f| f.service.as_str()).collect();
        assert_eq!(left, ["10.77.0.2:443", "[fd77::99]:443"]);
    }

    #[test]
    fn shares_of_different_times_are_not_added() {
        // 45 ms of 100 ms with connection setup, and 18 ms of 20 ms without.
        let mut findings = vec![
            finding(Id::TlsSlowHandshake, "one", 45_000_000, 0.45),
            finding(Id::ServerThink, "one", 18_000_000, 0.9),
        ];
        let follows = Id::ServerThink.cause().follows.iter();
        assert!(
            follows
                .into_iter()
                .any(|origin| origin.cause == Id::TlsSlowHandshake)
        );
        fold(&mut findings, &BTreeSet::new());
        let [together] = &findings[..] else {
            panic!("{findings:#?}");
        };
        assert_eq!(together.cost_ns, 63_000_000);
        assert!((together.share - 0.63).abs() < 1e-9, "{}", together.share);
        assert!(
            together.summary.ends_with("it costs 63 % of the time."),
            "{}",
            together.summary
        );
    }

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
