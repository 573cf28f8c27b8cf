//! The latency distributions of the investigated service and of its healthy twin, side by side.

use lagtrace_core::report::{Exchanges, Report, StatusCount};

use super::page::{Page, Tone};
use super::percentiles::{ROWS, value};
use super::table::{Align, Cell, Table, cell, plain};
use super::{place, quantity};

/// Maximum number of statuses named.
const STATUSES: usize = 8;
/// Maximum number of slow requests listed.
const SLOWEST: usize = 10;

/// Writes the latencies, the outcomes and the connections made.
pub(super) fn write(page: &mut Page, report: &Report) {
    let sides: Vec<(&str, &Exchanges)> = [
        ("subject", Some(&report.exchanges)),
        ("twin", report.twin.as_ref()),
    ]
    .into_iter()
    .filter_map(|(name, side)| Some((name, side?)))
    .filter(|(_, side)| {
        [side.count, side.errors, side.timeouts]
            .iter()
            .any(|&n| n > 0)
    })
    .collect();
    if sides.is_empty() && report.setups.count == 0 {
        return;
    }
    page.heading("Latency");
    page.table(2, &figures(report, &sides));
    let has_twin = report.twin.is_some();
    for (name, side) in sides {
        outcomes(page, if has_twin { name } else { "" }, side);
    }
    setups(page, report);
    slowest(page, &report.exchanges);
}

fn figures(report: &Report, sides: &[(&str, &Exchanges)]) -> Table {
    let predicted = report
        .findings
        .iter()
        .find_map(|finding| finding.predicted.as_ref())
        .filter(|predicted| predicted.is_of(&report.exchanges));
    let mut columns = vec![(Align::Left, "")];
    columns.extend(sides.iter().map(|(name, _)| (Align::Right, *name)));
    if predicted.is_some() {
        columns.push((Align::Right, "after the fix"));
    }
    let mut table = Table::new(&columns);
    if sides.iter().all(|(_, side)| side.count == 0) {
        return table;
    }
    let mut row = |name: &str, value: &dyn Fn(&Exchanges) -> String, then: Option<u64>| {
        let mut cells: Vec<Cell> = vec![plain(name)];
        cells.extend(sides.iter().map(|(_, side)| plain(value(side))));
        if predicted.is_some() {
            cells.push(cell(
                Tone::Good,
                then.map(quantity::duration).unwrap_or_default(),
            ));
        }
        table.row(cells);
    };
    row("requests", &|side| quantity::count(side.count), None);
    row("rate", &|side| quantity::rate(side.rate), None);
    for percentile in ROWS {
        let name = percentile.0;
        let then = predicted.and_then(|p| match name {
            "p50" => Some(p.latency_ns.p50),
            "p99" => Some(p.latency_ns.p99),
            _ => None,
        });
        let of = |side: &Exchanges| value(&side.latency_ns, percentile).unwrap_or("–".to_owned());
        row(name, &of, then);
    }
    table
}

fn outcomes(page: &mut Page, name: &str, side: &Exchanges) {
    // In a capture, a client that gives up may have a timeout or another reason.
    let [one, many] = match side.measured_by.as_str() {
        "packets" => ["given up by the client"; 2],
        _ => ["timeout", "timeouts"],
    };
    let mut parts = vec![
        quantity::counted(side.errors, "error", "errors"),
        quantity::counted(side.timeouts, one, many),
    ];
    if side.cut > 0 {
        parts.push(format!("{} cut by the capture", quantity::count(side.cut)));
    }
    let mut text = if name.is_empty() {
        String::new()
    } else {
        format!("{name}: ")
    };
    text.push_str(&parts.join(", "));
    if !side.statuses.is_empty() {
        text.push_str(&format!(" · {}", statuses(&side.statuses)));
    }
    if !side.measured_by.is_empty() {
        text.push_str(&format!(" · measured by {}", side.measured_by));
    }
    page.paragraph(2, Tone::Dim, &text);
}

/// Formats the counts of statuses: `200 ×22,738, timeout ×83`.
pub(super) fn statuses(counts: &[StatusCount]) -> String {
    let mut parts: Vec<String> = counts
        .iter()
        .take(STATUSES)
        .map(|status| format!("{} ×{}", status.status, quantity::count(status.count)))
        .collect();
    if counts.len() > STATUSES {
        parts.push("…".to_owned());
    }
    parts.join(", ")
}

fn setups(page: &mut Page, report: &Report) {
    let setups = &report.setups;
    if setups.count == 0 {
        return;
    }
    let outcomes: Vec<String> = setups
        .outcomes
        .iter()
        .map(|outcome| format!("{} {}", quantity::count(outcome.count), outcome.outcome))
        .collect();
    let mut text = quantity::counted(setups.count, "connection", "connections");
    if !outcomes.is_empty() {
        text.push_str(&format!(": {}", outcomes.join(", ")));
    }
    let took = &setups.latency_ns;
    if took.count > 0 {
        let (p50, max) = (quantity::duration(took.p50), quantity::duration(took.max));
        text.push_str(&format!(" · connecting took {p50} (median), at most {max}"));
    }
    page.paragraph(2, Tone::Dim, &text);
}

fn slowest(page: &mut Page, exchanges: &Exchanges) {
    let mut table = Table::new(&[
        (Align::Right, "slowest"),
        (Align::Left, "request"),
        (Align::Left, "outcome"),
        (Align::Left, "client"),
        (Align::Right, place::title(&exchanges.slowest)),
    ]);
    for slow in exchanges.slowest.iter().take(SLOWEST) {
        table.row(vec![
            plain(quantity::duration(slow.latency_ns)),
            plain(&slow.request),
            plain(&slow.outcome),
            plain(&slow.client),
            plain(place::place(slow)),
        ]);
    }
    if !table.is_empty() {
        page.blank();
        page.table(2, &table);
    }
}
