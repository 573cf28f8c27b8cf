//! Remarks on the limits of a comparison.

use super::Comparison;
use super::mechanism::Fate;
use crate::conclude::bootstrap;
use crate::report::{Capture, Remark, Report};

/// Minimum number of seconds in a run for reliable intervals.
const FEW_SECONDS: usize = 5;

/// Collects all remarks that a reader needs to judge the comparison.
pub(super) fn collect(before: &Report, after: &Report, comparison: &Comparison) -> Vec<Remark> {
    [
        schema(before, after),
        subjects(before, after),
        intervals(comparison, before, after),
        load(comparison),
        method(before, after),
        less_evidence(before, after, comparison),
        several_fixes(comparison),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn remark(id: &str, text: impl Into<String>) -> Option<Remark> {
    Some(Remark {
        id: id.to_owned(),
        text: text.into(),
    })
}

fn schema(before: &Report, after: &Report) -> Option<Remark> {
    let known = crate::report::SCHEMA;
    let other = [before.schema, after.schema]
        .into_iter()
        .find(|&schema| schema != known)?;
    remark(
        "other-schema",
        format!(
            "A report has schema {other}; this program knows {known}: figures may mean something else."
        ),
    )
}

fn subjects(before: &Report, after: &Report) -> Option<Remark> {
    if before.subject == after.subject {
        return None;
    }
    remark(
        "different-subjects",
        format!(
            "The reports are about different subjects, {} and {}, which may explain a difference.",
            before.subject, after.subject
        ),
    )
}

fn intervals(comparison: &Comparison, before: &Report, after: &Report) -> Option<Remark> {
    if comparison.intervals.is_none() {
        return remark(
            "no-intervals",
            format!(
                "There are no confidence intervals: they need at least {} clusters (one second of \
                 one group of connections) in the details of both reports. Of the latency, only \
                 the median is judged, and a change may be chance.",
                bootstrap::LEAST_CLUSTERS
            ),
        );
    }
    let seconds = seconds(before).min(seconds(after));
    if seconds < FEW_SECONDS {
        return remark(
            "short-run",
            format!("The shorter run has clusters of {seconds} s only: its intervals are rough."),
        );
    }
    None
}

fn seconds(report: &Report) -> usize {
    let mut seconds: Vec<u32> = report
        .details
        .iter()
        .flat_map(|d| &d.clusters)
        .map(|cluster| cluster.second)
        .collect();
    seconds.sort_unstable();
    seconds.dedup();
    seconds.len()
}

fn load(comparison: &Comparison) -> Option<Remark> {
    let (before, after) = (&comparison.before, &comparison.after);
    if comparison.is_equal_rate || before.requests == 0 || after.requests == 0 {
        return None;
    }
    let rates = format!(
        "{:.0} requests/s before and {:.0} after",
        before.rate, after.rate
    );
    match (before.offered_rate, after.offered_rate) {
        (None, None) => remark(
            "unequal-rates",
            format!(
                "The rates differ, {rates}: in a closed loop a faster service gets more load, \
                 which raises its latency. Compare at equal rates, for example at {:.0} \
                 requests/s.",
                before.rate.min(after.rate)
            ),
        ),
        _ => remark(
            "unequal-rates",
            format!(
                "The two runs had different loads, {rates}, and latency depends on the load. \
                 Compare at equal rates."
            ),
        ),
    }
}

fn method(before: &Report, after: &Report) -> Option<Remark> {
    let (old, new) = (&before.exchanges.measured_by, &after.exchanges.measured_by);
    if old == new || before.exchanges.count == 0 || after.exchanges.count == 0 {
        return None;
    }
    remark(
        "measured-differently",
        format!(
            "Latency was measured with {old} before and with {new} after: small differences may be \
             due to the method."
        ),
    )
}

fn less_evidence(before: &Report, after: &Report, comparison: &Comparison) -> Option<Remark> {
    let has_packets = |capture: &Option<Capture>| capture.as_ref().is_some_and(|c| c.packets > 0);
    let is_vanished = comparison
        .findings
        .iter()
        .any(|finding| finding.fate == Fate::Vanished);
    if !is_vanished || !has_packets(&before.capture) || has_packets(&after.capture) {
        return None;
    }
    remark(
        "less-evidence",
        "The later run had no packets, unlike the earlier one: a finding may be gone only because \
         there is no evidence.",
    )
}

fn several_fixes(comparison: &Comparison) -> Option<Remark> {
    let vanished = comparison
        .findings
        .iter()
        .filter(|f| f.fate == Fate::Vanished)
        .count();
    if vanished < 2 {
        return None;
    }
    remark(
        "several-fixes",
        "Several findings disappeared together. Each prediction assumes that the other findings \
         remain, so none was checked.",
    )
}
