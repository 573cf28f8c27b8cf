//! The extent of the capture, and the phases of the run.

use lagtrace_core::report::{Capture, CapturePoint, PhaseSpan, Report};

use super::page::{Page, Tone};
use super::quantity;
use super::table::{Align, Table, plain};

/// Writes the capture's extent and damage, and the phases.
pub(super) fn write(page: &mut Page, report: &Report) {
    if let Some(capture) = &report.capture {
        page.heading("Capture");
        page.paragraph(2, Tone::Plain, &extent(capture));
        for one in &capture.points {
            point(page, one);
        }
    }
    if !report.phases.is_empty() {
        page.heading("Phases");
        page.table(2, &phases(&report.phases));
    }
}

/// Returns a sentence for each defect of the capture: damage, lost packets, link types that are
/// not decoded.
pub(super) fn lacks(report: &Report) -> Vec<String> {
    let Some(capture) = &report.capture else {
        return Vec::new();
    };
    let damaged = capture.points.iter().filter_map(|point| {
        let damage = point.damage.as_ref()?;
        Some(format!("Reading {} ended early: {damage}.", point.name))
    });
    let lost = capture.dropped.filter(|&lost| lost > 0).map(|lost| {
        let packets = quantity::counted(lost, "packet", "packets");
        format!("The capture dropped {packets}.")
    });
    let links = capture.points.iter().flat_map(|point| &point.unread_links);
    let unread = links.map(|link| {
        let packets = quantity::counted(link.packets, "packet", "packets");
        format!("{packets} of {}, which cannot be decoded.", link.name)
    });
    damaged.chain(lost).chain(unread).collect()
}

fn extent(capture: &Capture) -> String {
    let dropped = match capture.dropped {
        Some(0) => "none dropped by the capture".to_owned(),
        Some(lost) => format!("{} dropped by the capture", quantity::count(lost)),
        None => "it is not known whether the capture dropped any".to_owned(),
    };
    let truncated = match capture.truncated {
        0 => String::new(),
        cut => format!(", {} cut short", quantity::count(cut)),
    };
    let span = capture.start_ns.zip(capture.end_ns);
    let took = span.and_then(|(start, end)| u64::try_from(end.saturating_sub(start)).ok());
    let took = took.filter(|&took| took > 0);
    let took = took.map_or(String::new(), |took| {
        format!(", in {}", quantity::duration(took))
    });
    format!(
        "{}, {}{took}; {dropped}{truncated}.",
        quantity::counted(capture.packets, "packet", "packets"),
        quantity::bytes(capture.bytes),
    )
}

fn point(page: &mut Page, point: &CapturePoint) {
    let name = format!("{}:", point.name);
    let mut text = match point.connections {
        // A file of a rotated capture, or the file from the other end, may have no connection of
        // its own.
        0 => quantity::counted(point.packets, "packet", "packets"),
        count => quantity::counted(count, "connection", "connections"),
    };
    if !point.vantage.is_empty() && point.connections > 0 {
        text.push_str(&format!(", captured at: {}", point.vantage));
    }
    let unread = quantity::total(point.unread_links.iter().map(|link| link.packets));
    let without_tcp = point.undecoded.saturating_sub(unread);
    if without_tcp > 0 {
        let packets = quantity::counted(without_tcp, "non-TCP packet", "non-TCP packets");
        text.push_str(&format!(", {packets}"));
    }
    for link in &point.unread_links {
        let packets = quantity::counted(link.packets, "packet", "packets");
        text.push_str(&format!(
            ", {packets} of {}, which cannot be decoded",
            link.name
        ));
    }
    page.item(
        2,
        "•",
        Tone::Dim,
        &[(Tone::Strong, &name), (Tone::Plain, &text)],
    );
    if let Some(damage) = &point.damage {
        page.paragraph(4, Tone::Caution, &format!("Reading ended early: {damage}"));
    }
}

fn phases(spans: &[PhaseSpan]) -> Table {
    let mut table = Table::new(&[
        (Align::Left, "phase"),
        (Align::Left, "target"),
        (Align::Right, "took"),
        (Align::Right, "offered"),
        (Align::Left, "captured"),
        (Align::Left, "changed"),
    ]);
    for span in spans {
        let took = u64::try_from(span.end_ns.saturating_sub(span.start_ns)).unwrap_or_default();
        table.row(vec![
            plain(&span.phase),
            plain(&span.target),
            plain(quantity::duration(took)),
            plain(
                span.offered_rate
                    .map_or_else(|| "closed loop".to_owned(), quantity::rate),
            ),
            plain(if span.is_observed { "yes" } else { "no" }),
            plain(span.experiment.map(|e| e.to_string()).unwrap_or_default()),
        ]);
    }
    table
}
