//! The steps of a load sweep as a table, and the knee.

use lagtrace_core::report::{Report, Sweep, SweepStep};

use super::page::{Page, Tone};
use super::quantity;
use super::table::{Align, Table, cell, plain};

/// Writes the steps; nothing if there were none.
pub(super) fn write(page: &mut Page, report: &Report) {
    let Some(sweep) = &report.sweep else {
        return;
    };
    page.heading("Steps");
    page.table(2, &steps(sweep));
    let Some(step) = sweep.knee.and_then(|knee| sweep.steps.get(knee)) else {
        let remark = sweep.remark.as_deref().unwrap_or_default();
        page.paragraph(2, Tone::Caution, remark);
        page.paragraph(
            2,
            Tone::Dim,
            "The figures below are those of the last step.",
        );
        return;
    };
    let at = match step.offered_rate {
        Some(rate) => format!("{} a second", quantity::rate(rate)),
        None => quantity::counted(step.connections.into(), "connection", "connections"),
    };
    let text = format!(
        "The knee is at {at}: the throughput divided by the mean latency is highest there \
         (Kleinrock's power). More load adds more waiting than throughput. The figures below are \
         those of this step."
    );
    page.paragraph(2, Tone::Plain, &text);
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

fn remarks(step: &SweepStep, is_knee: bool) -> Vec<&'static str> {
    [
        (is_knee, "knee"),
        (step.falls_behind, "did not keep up"),
        (step.is_generator_limit, "generator was the limit"),
    ]
    .into_iter()
    .filter_map(|(is_so, text)| is_so.then_some(text))
    .collect()
}
