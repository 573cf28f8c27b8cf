//! The order of particular findings, which come before the general findings that they belong to.

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
