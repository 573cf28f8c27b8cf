//! Groups of findings with the same cause at several servers.

use lagtrace_core::report::{Finding, Report};

use super::words;

/// Maximum number of servers named in a line.
const NAMED: usize = 4;

/// Groups a report's findings by cause and culprit, each group with its findings at all
/// servers, the most costly first.
pub(super) fn groups(report: &Report) -> Vec<Vec<&Finding>> {
    let mut groups: Vec<Vec<&Finding>> = Vec::new();
    for finding in report.causes() {
        let same = groups.iter_mut().find(|group| {
            let is_same = |first: &&&Finding| {
                first.cause == finding.cause && first.culprit == finding.culprit
            };
            group.first().filter(is_same).is_some()
        });
        match same {
            Some(group) => group.push(finding),
            None => groups.push(vec![finding]),
        }
    }
    groups
}

/// Returns the line that names the other servers of a group; `None` if there are none.
pub(super) fn others(group: &[&Finding]) -> Option<String> {
    let [_, others @ ..] = group else { return None };
    let mut names: Vec<String> = others
        .iter()
        .take(NAMED)
        .map(|finding| finding.service.clone())
        .collect();
    let more = others.len().saturating_sub(NAMED);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    (!others.is_empty()).then(|| {
        format!(
            "The same cause, with other times, at {}.",
            words::list(&names)
        )
    })
}
