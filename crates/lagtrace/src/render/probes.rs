//! Round-trip statistics in the manner of `ping` and `hping3`, and the route's hops.

use lagtrace_core::report::{Probe, ProbeFigures, ProbePhase, ProbeStepRow, ProbeTlsFacts, Report};

use super::latency::statuses;
use super::page::{Page, Tone};
use super::table::{Align, Table, dim, plain};
use super::{quantity, route};
use crate::clock;

/// Writes the probes and the hops.
pub(super) fn write(page: &mut Page, report: &Report) {
    if !report.probes.is_empty() {
        page.heading("Round trips");
    }
    for probe in &report.probes {
        summary(page, probe);
    }
    if !report.hops.is_empty() {
        page.heading("Route");
        let table = route::reported(report, page.width());
        page.table(2, &table);
    }
}

fn summary(page: &mut Page, probe: &Probe) {
    let during = if probe.during.is_empty() {
        String::new()
    } else {
        format!(", {}", probe.during)
    };
    let head = format!("{} to {}{during}:", probe.method, probe.target);
    let mut tail = format!(
        "{} sent, {} answered, {} lost",
        quantity::count(probe.sent),
        quantity::count(probe.received),
        quantity::share(probe.lost as f64 / probe.sent.max(1) as f64)
    );
    for (count, what) in [
        (probe.late, "late"),
        (probe.duplicates, "duplicated"),
        (probe.reordered, "out of order"),
    ] {
        if count > 0 {
            tail.push_str(&format!(", {} {what}", quantity::count(count)));
        }
    }
    if !probe.answers.is_empty() {
        tail.push_str(&format!(" · {}", statuses(&probe.answers)));
    }
    page.item(
        2,
        "•",
        Tone::Dim,
        &[(Tone::Strong, &head), (Tone::Plain, &tail)],
    );
    if probe.received > 0 {
        page.paragraph(4, Tone::Plain, &round_trips(probe));
        if let Some(noticed) = &probe.noticed_ns {
            page.paragraph(4, Tone::Dim, &ladder(probe, noticed));
        }
    }
    if !probe.phases.is_empty() {
        page.table(4, &phases(&probe.phases));
    }
    if let Some(tls) = &probe.tls {
        page.paragraph(4, Tone::Dim, &agreed(tls));
    }
    if !probe.steps.is_empty() {
        page.table(4, &steps(&probe.steps));
    }
}

/// Returns the table of the phases of a probe, in order of time.
fn phases(rows: &[ProbePhase]) -> Table {
    let mut table = Table::new(&[
        (Align::Name, "of it"),
        (Align::Right, "median"),
        (Align::Right, "p90"),
        (Align::Right, "p99"),
        (Align::Right, "most"),
    ]);
    for row in rows {
        let name = match row.phase.as_str() {
            "tls" => "TLS handshake",
            "tls-first-byte" => "  to its first byte",
            "first-byte" => "request to first byte",
            "transfer" => "first to last byte",
            other => other,
        };
        let took = &row.took_ns;
        let mut cells = vec![plain(name)];
        cells.extend(
            [took.p50, took.p90, took.p99, took.max].map(|ns| plain(quantity::duration(ns))),
        );
        table.row(cells);
    }
    table
}

/// Returns the TLS parameters that the handshakes negotiated.
fn agreed(tls: &ProbeTlsFacts) -> String {
    let ends = tls.certificate_ends_ns.map_or_else(String::new, |end| {
        let end = clock::started(Some(end));
        let day = end.split('T').next().unwrap_or_default();
        format!(", a certificate that expires on {day}")
    });
    format!("{}, {}{ends}", tls.version, tls.cipher)
}

/// Returns the table of the outcomes by value; consecutive values with the same outcome
/// share one row.
fn steps(rows: &[ProbeStepRow]) -> Table {
    let by = rows.first().map_or("", |row| row.by.as_str());
    let mut table = Table::new(&[
        (Align::Name, by),
        (Align::Right, "sent"),
        (Align::Right, "answered"),
        (Align::Left, "mostly by"),
        (Align::Right, "least"),
    ]);
    let is_alike = |a: &ProbeStepRow, b: &ProbeStepRow| {
        a.by != "flags" && a.answer == b.answer && (a.received < a.sent) == (b.received < b.sent)
    };
    for alike in rows.chunk_by(is_alike) {
        let sum = |of: fn(&ProbeStepRow) -> u64| quantity::total(alike.iter().map(of));
        let values = match alike {
            [] => continue,
            [one] => one.value.clone(),
            [first, .., last] => format!("{}–{}", first.value, last.value),
        };
        let least = alike.iter().filter_map(|row| row.least_ns).min();
        table.row(vec![
            plain(values),
            plain(quantity::count(sum(|row| row.sent))),
            plain(quantity::count(sum(|row| row.received))),
            plain(alike.first().map_or("", |row| row.answer.as_str())),
            dim(least.map_or(String::new(), quantity::duration)),
        ]);
    }
    table
}

/// Returns the round-trip time as a program sees it, split by the kernel's timestamps.
fn ladder(probe: &Probe, noticed: &ProbeFigures) -> String {
    let own = match &probe.own_ns {
        Some(own) => format!("{} its own calls, ", quantity::duration(own.p50)),
        None => String::new(),
    };
    let queue = match &probe.queued_ns {
        Some(queued) => format!("{} queue, ", quantity::duration(queued.p50)),
        None => String::new(),
    };
    let by = match probe.method.as_str() {
        "tcp-connect" => "TCP_INFO",
        _ => "the kernel's timestamps",
    };
    format!(
        "lagtrace itself saw {}: {own}{queue}{} path and peer (medians, by {by})",
        quantity::duration(noticed.p50),
        quantity::duration(probe.rtt_ns.p50),
    )
}

/// Returns the round-trip statistics, all in one unit so that they are easy to compare.
fn round_trips(probe: &Probe) -> String {
    let rtt = &probe.rtt_ns;
    let (unit, size) = if rtt.max < 1_000_000 {
        ("µs", 1e3)
    } else {
        ("ms", 1e6)
    };
    let digits = if size > 1e3 { 3 } else { 1 };
    let figures: Vec<String> = [rtt.min, rtt.mean, rtt.max, rtt.mdev]
        .iter()
        .map(|&ns| format!("{:.digits$}", ns as f64 / size))
        .collect();
    let quantiles: Vec<String> = [rtt.p50, rtt.p90, rtt.p99]
        .iter()
        .map(|&ns| format!("{:.digits$}", ns as f64 / size))
        .collect();
    let stamped = if probe.stamp.is_empty() {
        String::new()
    } else {
        format!(" · {} timestamps", probe.stamp)
    };
    format!(
        "rtt min/avg/max/mdev = {} {unit} · p50/p90/p99 {} {unit} · jitter {:.digits$} {unit}{stamped}",
        figures.join("/"),
        quantiles.join("/"),
        probe.jitter_ns as f64 / size,
    )
}
