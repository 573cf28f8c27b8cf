//! The order of findings on special cases, which come before the findings on the general cause.

use crate::claim::Claim;
use crate::registry::Id;

/// A place is ranked before a cause that says only where, if it has this many times the cause's time.
const MUCH_MORE: f64 = 1.5;

/// Moves each finding on a special case before the finding on its general cause. Example: if
/// connection setup is slow for a known reason, this reason comes before the number of connections,
/// even if all connections together cost more. Likewise, slow start comes after the finding that
/// makes it matter.
pub(super) fn put_first(findings: &mut Vec<Claim>) {
    let mut at = 0;
    while let Some(general) = findings.get(at) {
        let behind = findings
            .iter()
            .enumerate()
            .skip(at + 1)
            .find(|(_, finding)| {
                finding.at == general.at
                    && finding.cause.cause().particular_to.contains(&general.cause)
            });
        if let Some((from, _)) = behind {
            let finding = findings.remove(from);
            findings.insert(at, finding);
        }
        at += 1;
    }
}

/// Moves the finding on requests that wait in the client behind the cause that takes most of the
/// exchanges' time. That cause keeps the connections busy, so requests find none free. Causes that
/// may be necessary work do not count: against them, only more connections help.
pub(super) fn put_queue_behind(findings: &mut Vec<Claim>, is_most: impl Fn(&Claim) -> bool) {
    let is_queue = |finding: &Claim| finding.cause == Id::ClientQueue;
    let Some(from) = findings.iter().position(is_queue) else {
        return;
    };
    let root = findings.iter().skip(from + 1).position(|finding| {
        let cause = finding.cause.cause();
        findings
            .get(from)
            .is_some_and(|queue| queue.at == finding.at)
            && !cause.may_be_work
            && !finding.locates()
            && is_most(finding)
    });
    if let Some(root) = root {
        let queue = findings.remove(from);
        findings.insert(from + root + 1, queue);
    }
}

/// Returns the rank of a place of unexplained time: behind all claims that say why, and before those
/// that say only where, like the place itself, if they have much less time.
pub(super) fn rank_of_place(
    claims: &[Claim],
    place: &Claim,
    weight: impl Fn(&Claim) -> u64,
) -> usize {
    let is_less = |claim: &Claim| {
        let row = claim.cause.cause();
        let has_less = weight(claim) as f64 * MUCH_MORE < weight(place) as f64;
        row.says_only_where && row.fails.is_none() && has_less
    };
    let last = claims.iter().rposition(|claim| !is_less(claim));
    last.map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::wait::Owner;
    use crate::observed::flow::Endpoint;

    #[test]
    fn a_place_comes_before_what_says_only_where_and_is_much_less() {
        let claim = |cause, cost| {
            let at = Endpoint::new([10, 0, 0, 2].into(), 80);
            let mut claim = Claim::blank(cause, Owner::Unknown, at);
            claim.time.cost_exactly(cost);
            claim
        };
        let rank = |claims: &[(Id, u64)], place| {
            let claims: Vec<_> = claims.iter().map(|&(id, cost)| claim(id, cost)).collect();
            let place = claim(Id::TimeInClient, place);
            rank_of_place(&claims, &place, |claim| claim.time.cost.likely)
        };
        let (pause, think) = ((Id::ServerPause, 15), (Id::ServerThink, 5));
        assert_eq!(rank(&[pause, think], 37), 0);
        assert_eq!(rank(&[pause, think], 16), 1);
        assert_eq!(rank(&[pause, think], 4), 2);
        assert_eq!(rank(&[(Id::PacketLoss, 1), pause], 37), 1, "it says why");
        assert_eq!(rank(&[(Id::RequestsFail, 0)], 37), 1);
    }
}
