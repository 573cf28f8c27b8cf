//! The comparison of two runs.

use lagtrace_core::views::compare::{
    Comparison, Fate, FindingChange, Judgement, LatencyChange, LatencyFigure, LeverPlace,
    Mechanism, Outcome, PredictedFigure, PredictionCheck, QuantityChange,
};

use super::page::{Page, Tone};
use super::table::{Align, Cell, Table, cell, plain};
use super::{place, quantity};

/// Indentation of a table, in columns.
const INDENT: usize = 2;
/// Index of the column of the intervals.
const INTERVAL: usize = 4;

/// Writes the verdict, the figures, the mechanism and the prediction.
pub(super) fn write(page: &mut Page, comparison: &Comparison) {
    opening(page, comparison);
    runs(page, comparison);
    changes(page, comparison);
    if let Some(intervals) = &comparison.intervals {
        let text = format!(
            "Intervals: 95 %, {} resamples of {} and {} clusters (seconds × groups of \
             connections). They cover the noise within each run, but not differences from run to \
             run.",
            quantity::count(intervals.resamples),
            quantity::count(intervals.clusters_before),
            quantity::count(intervals.clusters_after)
        );
        page.paragraph(2, Tone::Dim, &text);
    }
    if !comparison.findings.is_empty() {
        page.heading("Findings");
    }
    for finding in &comparison.findings {
        let (mark, tone, head, text) = fate(finding);
        let spans = [(Tone::Strong, head.as_str()), (Tone::Plain, &text)];
        page.item(2, mark, tone, &spans);
    }
    if let Some(check) = &comparison.prediction {
        prediction(page, check);
    }
}

/// Writes the verdict, the runs that are compared if there is room for them, and, unless the page is
/// brief, the figures and the prediction.
pub(super) fn briefly(page: &mut Page, comparison: &Comparison, has_runs: bool) {
    opening(page, comparison);
    if has_runs {
        runs(page, comparison);
    }
    if page.is_brief() {
        return;
    }
    changes(page, comparison);
    if let Some(check) = &comparison.prediction {
        prediction(page, check);
    }
}

/// Returns a line for each finding of the two runs.
pub(super) fn in_lines(comparison: &Comparison) -> impl Iterator<Item = (Tone, String, String)> {
    comparison.findings.iter().map(|finding| {
        let (_, tone, head, text) = fate(finding);
        (tone, head, text)
    })
}

fn changes(page: &mut Page, comparison: &Comparison) {
    page.heading("Figures");
    let all = figures(comparison, true);
    let is_narrow = !page.is_verbose() && all.wanted() + INDENT > page.width();
    let table = if is_narrow {
        figures(comparison, false)
    } else {
        all
    };
    page.table(INDENT, &table);
}

fn opening(page: &mut Page, comparison: &Comparison) {
    let (tone, word) = match comparison.outcome {
        Outcome::Better if is_fixed(comparison) => (Tone::Good, "Fixed."),
        Outcome::Better => (Tone::Good, "Better."),
        Outcome::NoWorse => (Tone::Good, "No worse."),
        Outcome::Mixed => (
            Tone::Caution,
            "Mixed: some figures are better, others worse.",
        ),
        Outcome::Worse => (Tone::Bad, "Worse."),
        Outcome::Undecided => (
            Tone::Caution,
            "Undecided: no request was measured in either run.",
        ),
    };
    let median = comparison
        .latency
        .iter()
        .find(|change| change.figure == LatencyFigure::P50);
    let gist = match median {
        Some(change) => {
            let (before, after) = (change.before_ns, change.after_ns);
            format!(
                "Median {} → {}{}.",
                quantity::duration(before),
                quantity::duration(after),
                decisive(comparison, change.judgement)
            )
        }
        None if comparison.before.requests > 0 => "No request was answered after.".to_owned(),
        None if comparison.after.requests > 0 => "No request was answered before.".to_owned(),
        None => String::new(),
    };
    page.spans(0, &[(tone, word), (Tone::Strong, &gist)]);
    for finding in comparison
        .findings
        .iter()
        .filter(|finding| finding.fate == Fate::Vanished)
    {
        let text = format!("{}. {}", finding.title, gone(finding));
        page.spans(2, &[(Tone::Good, "Gone:"), (Tone::Plain, &text)]);
    }
}

/// Writes the two runs.
fn runs(page: &mut Page, comparison: &Comparison) {
    for (name, side) in [("before", &comparison.before), ("after", &comparison.after)] {
        let load = side.offered_rate.map_or_else(String::new, |rate| {
            format!(" · offered {}", quantity::rate(rate))
        });
        let text = format!(
            "{name}: lagtrace {} {} · {} · {}{load}",
            side.command,
            side.subject,
            place::second(&side.started),
            quantity::counted(side.requests, "request", "requests"),
        );
        page.paragraph(0, Tone::Dim, &text);
    }
}

/// Returns true if a finding is gone whose cure was seen to be applied, and none is left.
fn is_fixed(comparison: &Comparison) -> bool {
    let is_cured = |finding: &FindingChange| {
        let mechanism = finding.mechanism;
        matches!(mechanism, Some(Mechanism::Changed | Mechanism::Configured))
    };
    let mut findings = comparison.findings.iter();
    findings.clone().any(is_cured) && findings.all(|finding| finding.fate == Fate::Vanished)
}

/// Returns a short remark on a vanished finding, by the change of its mechanism.
fn gone(finding: &FindingChange) -> String {
    let of = |place| {
        let mut levers = finding.levers.iter();
        levers.find(|lever| lever.place == place && lever.has_changed)
    };
    let why = match finding.mechanism {
        Some(Mechanism::Changed) => of(LeverPlace::Sockets).map(|lever| {
            let (change, before, after) = (&lever.change, &lever.before, &lever.after);
            format!("{change} (in {before} readings before, {after} after)")
        }),
        Some(Mechanism::Configured) => of(LeverPlace::Configuration)
            .map(|lever| format!("{}, before {}", lever.change, lever.before)),
        Some(Mechanism::Unchanged) => Some("Its usual cure was not applied".to_owned()),
        Some(Mechanism::NotSeen) | None => None,
    };
    let why = why.unwrap_or_else(|| "What changed could not be seen".to_owned());
    format!("{why}.")
}

/// Returns the table of the figures of both runs, with or without the intervals of their
/// differences.
fn figures(comparison: &Comparison, with_intervals: bool) -> Table {
    let mut columns = vec![
        (Align::Left, "figure"),
        (Align::Right, "before"),
        (Align::Right, "after"),
        (Align::Right, "difference"),
        (Align::Right, "95 % interval"),
        (Align::Left, ""),
    ];
    let rows = comparison.latency.iter().map(latency);
    let rows = rows.chain([
        scalar("rate", &comparison.rate, quantity::rate),
        scalar("failed", &comparison.failures, quantity::share),
    ]);
    let mut rows: Vec<_> = rows.collect();
    if !with_intervals {
        columns.remove(INTERVAL);
        rows.iter_mut().for_each(|row| drop(row.remove(INTERVAL)));
    }
    let mut table = Table::new(&columns);
    rows.into_iter().for_each(|row| table.row(row));
    table
}

/// Returns the figure that makes a run better or worse, if its median does not.
fn decisive(comparison: &Comparison, of_median: Judgement) -> String {
    let wanted = match comparison.outcome {
        Outcome::Better => Judgement::Better,
        Outcome::Worse => Judgement::Worse,
        Outcome::NoWorse | Outcome::Mixed | Outcome::Undecided => return String::new(),
    };
    if of_median == wanted {
        return String::new();
    }
    let mut latency = comparison.latency.iter();
    if let Some(change) = latency.find(|change| change.judgement == wanted) {
        let (before, after) = (change.before_ns, change.after_ns);
        let (before, after) = (quantity::duration(before), quantity::duration(after));
        return format!(", {} {before} → {after}", name(change.figure));
    }
    let (rate, failed) = (&comparison.rate, &comparison.failures);
    if rate.judgement == wanted {
        let (before, after) = (quantity::rate(rate.before), quantity::rate(rate.after));
        return format!(", rate {before} → {after}");
    }
    let (before, after) = (
        quantity::share(failed.before),
        quantity::share(failed.after),
    );
    format!(", failed {before} → {after}")
}

/// Returns the name of a figure.
pub(super) fn name(figure: LatencyFigure) -> &'static str {
    match figure {
        LatencyFigure::Mean => "mean",
        LatencyFigure::P50 => "p50",
        LatencyFigure::P90 => "p90",
        LatencyFigure::P99 => "p99",
    }
}

fn latency(change: &LatencyChange) -> Vec<Cell> {
    let interval = change.low_ns.zip(change.high_ns);
    vec![
        plain(name(change.figure)),
        plain(quantity::duration(change.before_ns)),
        plain(quantity::duration(change.after_ns)),
        plain(quantity::difference(change.difference_ns)),
        plain(interval.map_or_else(String::new, |(low, high)| quantity::interval(low, high))),
        judgement(change.judgement),
    ]
}

fn scalar(name: &str, change: &QuantityChange, show: fn(f64) -> String) -> Vec<Cell> {
    let signed = |value: f64| {
        let sign = if value > 0.0 {
            "+"
        } else if value < 0.0 {
            "−"
        } else {
            "±"
        };
        format!("{sign}{}", show(value.abs()))
    };
    let interval = change.low.zip(change.high);
    vec![
        plain(name),
        plain(show(change.before)),
        plain(show(change.after)),
        plain(signed(change.difference)),
        plain(interval.map_or_else(String::new, |(low, high)| {
            let (low, high) = (signed(low), signed(high));
            if low == high {
                low
            } else {
                format!("{low} to {high}")
            }
        })),
        judgement(change.judgement),
    ]
}

fn judgement(judgement: Judgement) -> Cell {
    let (tone, text) = judged(judgement);
    cell(tone, text)
}

/// Returns the words for a judgement, and their tone.
pub(super) fn judged(judgement: Judgement) -> (Tone, &'static str) {
    match judgement {
        Judgement::Better => (Tone::Good, "better"),
        Judgement::Worse => (Tone::Bad, "worse"),
        Judgement::NoDifference => (Tone::Plain, "no difference"),
        Judgement::Immaterial => (Tone::Plain, "too small to matter"),
        Judgement::Uncertain => (Tone::Caution, "too noisy to tell"),
        Judgement::NotJudged => (Tone::Dim, "not judged"),
    }
}

/// Returns the parts of a finding's line: a mark for its fate, the tone, the cause with the fate,
/// and the explanation.
fn fate(finding: &FindingChange) -> (&'static str, Tone, String, String) {
    let (mark, tone, fate) = match finding.fate {
        Fate::Vanished => ("✓", Tone::Good, "gone"),
        Fate::Stayed => ("✗", Tone::Bad, "still there"),
        Fate::Appeared => ("✗", Tone::Bad, "new"),
        Fate::NotMeasured => ("–", Tone::Caution, "not measured"),
    };
    let head = format!("{} ({fate}):", finding.cause);
    let mut shares = finding.explanation.clone();
    if finding.share_before > 0.0 || finding.share_after > 0.0 {
        let [before, after] = [finding.share_before, finding.share_after].map(quantity::share);
        shares = format!("share of time {before} before, {after} after. {shares}");
    }
    (mark, tone, head, shares)
}

fn prediction(page: &mut Page, check: &PredictionCheck) {
    page.heading("Prediction");
    let (tone, word) = match check.holds {
        Some(true) => (Tone::Good, "The prediction was right."),
        Some(false) => (Tone::Bad, "The prediction was wrong."),
        None => (
            Tone::Caution,
            "The prediction cannot be checked: it was made for a different rate.",
        ),
    };
    let figure = |name: &str, figure: &PredictedFigure| {
        let (predicted, measured) = (
            quantity::duration(figure.predicted_ns),
            quantity::duration(figure.measured_ns),
        );
        format!("{name} {predicted} predicted, {measured} measured")
    };
    let text = format!(
        "At {}: {}; {}. Measured at {}.",
        quantity::rate(check.at_rate),
        figure("p50", &check.p50),
        figure("p99", &check.p99),
        quantity::rate(check.measured_rate)
    );
    page.spans(2, &[(tone, word), (Tone::Plain, &text)]);
    if let Some(((low, high), holds)) = check.closed_loop_rate.zip(check.closed_loop_holds) {
        let verdict = if holds { "within" } else { "outside" };
        let text = format!(
            "The rate of the closed loop is {verdict} the predicted {} to {}.",
            quantity::rate(low),
            quantity::rate(high)
        );
        page.paragraph(2, Tone::Plain, &text);
    }
}
