//! Round trips as `ping` and `hping3` sum them up, and the route's hops.

use lagtrace_core::report::{Probe, ProbeFigures, Report};

use super::latency::statuses;
use super::page::{Page, Tone};
use super::{quantity, route};

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
        page.table(2, &route::table(&report.hops, report.route.as_ref()));
    }
}

fn summary(page: &mut Page, probe: &Probe) {
    let during = if probe.during.is_empty() {
        String::new()
    } else {
        format!(", {}", probe.during)
    };
    let head = format!("{} to {}{during}:", probe.method, probe.target);
    let lost = probe.sent.saturating_sub(probe.received);
    let mut tail = format!(
        "{} sent, {} answered, {} lost",
        quantity::count(probe.sent),
        quantity::count(probe.received),
        quantity::share(lost as f64 / probe.sent.max(1) as f64)
    );
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
        page.paragraph(4, Tone::Plain, &round_trips(&probe.rtt_ns, &probe.stamp));
    }
}

/// In one unit, so that the four figures compare at a glance.
fn round_trips(rtt: &ProbeFigures, stamp: &str) -> String {
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
    let p50 = format!("{:.digits$}", rtt.p50 as f64 / size);
    let stamped = if stamp.is_empty() {
        String::new()
    } else {
        format!(" · {stamp} stamps")
    };
    format!(
        "rtt min/avg/max/mdev = {} {unit} · median {p50} {unit}{stamped}",
        figures.join("/")
    )
}
