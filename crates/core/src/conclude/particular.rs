//! The order of findings on special cases, which come before the findings on the general cause.

use crate::claim::Claim;
use crate::registry::Id;

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
