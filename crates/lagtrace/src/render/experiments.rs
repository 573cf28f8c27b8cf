//! The experiments: deliberate changes and their effects.

use lagtrace_core::report::{ExperimentOutcome, Report};

use super::page::{Page, Tone};
use super::table::{Align, Table, cell, plain};
use super::{quantity, words};

/// Writes the experiments: the latencies of control and change side by side, then the meaning of
/// each result.
pub(super) fn write(page: &mut Page, report: &Report) {
    if report.experiments.is_empty() {
        return;
    }
    page.heading("Experiments");
    let mut table = Table::new(&[
        (Align::Left, "our side changed"),
        (Align::Right, "control"),
        (Align::Right, "changed"),
        (Align::Right, "difference"),
        (Align::Right, "95 % interval"),
        (Align::Right, "turns"),
    ]);
    for outcome in &report.experiments {
        table.row(vec![
            plain(name(outcome)),
            plain(quantity::duration(outcome.control.mean)),
            plain(quantity::duration(outcome.treated.mean)),
            cell(Tone::Strong, quantity::difference(outcome.difference_ns)),
            plain(quantity::interval(
                outcome.difference_low_ns,
                outcome.difference_high_ns,
            )),
            plain(quantity::count(outcome.alternations)),
        ]);
    }
    page.table(2, &table);
    for outcome in report
        .experiments
        .iter()
        .filter(|outcome| !outcome.meaning.is_empty())
    {
        let name = format!("{}:", name(outcome));
        let meaning = words::sentence(&outcome.meaning);
        page.item(
            2,
            "•",
            Tone::Dim,
            &[(Tone::Dim, &name), (Tone::Plain, &meaning)],
        );
    }
}

/// Returns a line for each experiment with the change of the mean latency.
pub(super) fn in_lines(report: &Report) -> impl Iterator<Item = String> {
    report.experiments.iter().map(|outcome| {
        if !outcome.is_conclusive {
            return format!("Experiment, {}. {}", name(outcome), outcome.meaning);
        }
        let (low, high) = (outcome.difference_low_ns, outcome.difference_high_ns);
        format!(
            "Experiment, {}: {} ({}).",
            name(outcome),
            quantity::difference(outcome.difference_ns),
            quantity::interval(low, high)
        )
    })
}

fn name(outcome: &ExperimentOutcome) -> String {
    let experiment = outcome.experiment.to_string();
    if outcome.target == "twin" {
        format!("{experiment} (twin)")
    } else {
        experiment
    }
}
