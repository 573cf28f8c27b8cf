//! The order of particular findings, which come before the general ones that they belong to.

use crate::report::Finding;

/// Moves particular findings right before the general one they belong to. Where the setup of a
/// connection is slow for a reason of its own, the number of connections comes behind it, whatever
/// the whole of them costs; likewise slow start behind the finding that makes it matter.
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
