//! The order of particular findings, which come before the general findings that they belong to.

use crate::registry::Id;
use crate::report::Finding;

/// Moves particular findings right before the general finding that they belong to. If connection
/// setup is slow for a specific reason, the finding on the number of connections comes after that
/// reason, whatever all connections cost together. Likewise, slow start comes after the finding
/// that makes it matter.
pub(super) fn put_first(findings: &mut Vec<Finding>) {
    let mut at = 0;
    while let Some(general) = findings.get(at) {
        let behind = findings
            .iter()
            .enumerate()
            .skip(at + 1)
            .find(|(_, finding)| {
                finding.service == general.service
                    && finding.cause.cause().particular_to.contains(&general.cause)
            });
        if let Some((from, _)) = behind {
            let finding = findings.remove(from);
            findings.insert(at, finding);
        }
        at += 1;
    }
}

/// Moves the finding on requests that wait in the client right behind the cause of most of the
/// exchanges' time: requests find no free connection because that cause keeps the connections
/// busy. Work that has to be done is no such cause: only more connections help against it.
pub(super) fn put_queue_behind(findings: &mut Vec<Finding>, is_most: impl Fn(&Finding) -> bool) {
    let is_queue = |finding: &Finding| finding.cause == Id::ClientQueue;
    let Some(from) = findings.iter().position(is_queue) else {
        return;
    };
    let root = findings.iter().skip(from + 1).position(|finding| {
        let cause = finding.cause.cause();
        findings
            .get(from)
            .is_some_and(|queue| queue.service == finding.service)
            && !cause.may_be_work
            && !finding.locates
            && is_most(finding)
    });
    if let Some(root) = root {
        let queue = findings.remove(from);
        findings.insert(from + root + 1, queue);
    }
}
