//! The steps of a load sweep as a table, and the knee.

use lagtrace_core::report::{Report, Sweep, SweepStep};

use super::page::{Page, Tone};
use super::table::{Align, Table, cell, plain};
use super::{quantity, words};

/// Writes the steps; nothing if there were none.
pub(super) fn write(page: &mut Page, report: &Report) {
    let Some(sweep) = &report.sweep else {
        return;
    };
    page.heading("Steps");
    page.table(2, &steps(sweep));
    let Some(step) = step_of_knee(sweep) else {
        let remark = sweep.remark.as_deref().unwrap_or_default();
        page.paragraph(2, Tone::Caution, remark);
        page.paragraph(
            2,
            Tone::Dim,
            "The figures below are those of the last step.",
        );
        return;
    };
    let text = format!(
        "The knee is at {}: {WHY_KNEE} The figures below are those of this step.",
        load(step)
    );
    page.paragraph(2, Tone::Plain, &text);
}

/// The reason that a step is the knee.
const WHY_KNEE: &str = "the throughput divided by the mean latency is highest there (Kleinrock's \
    power). More load adds more waiting than throughput.";

fn step_of_knee(sweep: &Sweep) -> Option<&SweepStep> {
    sweep.knee.and_then(|knee| sweep.steps.get(knee))
}

/// Returns the load of a step: `8 connections`, `200/s`.
pub(super) fn load(step: &SweepStep) -> String {
    match step.offered_rate {
        Some(rate) => quantity::rate(rate),
        None => quantity::counted(step.connections.into(), "connection", "connections"),
    }
}

/// Returns a sentence on the knee: `The knee is at 8 connections: 615/s, p50 641 µs, p99 7.94 ms.`
pub(super) fn knee(sweep: &Sweep) -> String {
    step_of_knee(sweep).map_or_else(
        || "No knee was found.".to_owned(),
        |step| {
            format!(
                "The knee is at {}: {} answered, p50 {}, p99 {}.",
                load(step),
                quantity::rate(step.rate),
                quantity::duration(step.latency_ns.p50),
                quantity::duration(step.latency_ns.p99)
            )
        },
    )
}

/// Returns the sentences on why a step is the knee, or why none is.
pub(super) fn why(sweep: &Sweep) -> Option<String> {
    match step_of_knee(sweep) {
        Some(_) => Some(words::capitalized(WHY_KNEE)),
        None => sweep.remark.clone(),
    }
}

fn steps(sweep: &Sweep) -> Table {
    let mut table = Table::new(&[
        (Align::Right, "connections"),
        (Align::Right, "offered/s"),
        (Align::Right, "achieved/s"),
        (Align::Right, "p50"),
        (Align::Right, "p99"),
        (Align::Right, "failed"),
        (Align::Left, ""),
    ]);
    for (number, step) in sweep.steps.iter().enumerate() {
        let offered = step.offered_rate.map_or("–".to_owned(), quantity::rate);
        let tone = match step.failed {
            0 => Tone::Plain,
            _ => Tone::Bad,
        };
        table.row(vec![
            plain(quantity::count(step.connections.into())),
            plain(offered),
            plain(quantity::rate(step.rate)),
            plain(quantity::duration(step.latency_ns.p50)),
            plain(quantity::duration(step.latency_ns.p99)),
            cell(tone, quantity::count(step.failed)),
            plain(remarks(step, sweep.knee == Some(number)).join(", ")),
        ]);
    }
    table
}

/// Returns remarks on a step.
pub(super) fn remarks(step: &SweepStep, is_knee: bool) -> Vec<&'static str> {
    [
        (is_knee, "knee"),
        (step.falls_behind, "did not keep up"),
        (step.is_generator_limit, "generator was the limit"),
    ]
    .into_iter()
    .filter_map(|(is_so, text)| is_so.then_some(text))
    .collect()
}
