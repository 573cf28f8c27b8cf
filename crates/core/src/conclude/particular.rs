//! What is particular comes before the general finding that it belongs to.

use crate::report::Finding;

/// Moves what is particular right before the general finding it belongs to. Where a
/// connection's making is slow for a reason of its own, that there are many of them comes
/// behind it, whatever the whole of them costs; likewise slow start behind what makes it matter.
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
