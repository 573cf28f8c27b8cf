//! The live display while requests are watched.

use lagtrace_core::observed::kernel_span::WatchTally;
use lagtrace_core::report::{Exemplar, Figures, Finding, Report, WatchedService};
use lagtrace_core::stats::histogram::Distribution;

use super::page::{Page, Tone};
use super::table::{Align, Content, Table, dim, plain};
use super::{place, quantity, waits, watch, words};

/// Width of a full bar, in columns.
const BAR: usize = 16;
/// Maximum number of rows of the histogram.
const ROWS: usize = 8;
/// Maximum number of services whose stages are shown.
const SERVICES: usize = 2;
/// Maximum number of findings shown.
const FINDINGS: usize = 4;
/// The keys of the page.
const KEYS: &str = "Enter: single requests · /: those that meet a condition · q: end";
/// Maximum number of waits named for an exchange.
const LONGEST: usize = 2;

/// The state of a watch, for display.
#[derive(Debug)]
pub(crate) struct Watching<'a> {
    /// Recent rate, in requests per second.
    pub(crate) rate: f64,
    /// Distribution of the recent latencies.
    pub(crate) latest: &'a Distribution,
    /// Totals since the watch began.
    pub(crate) tally: &'a WatchTally,
    /// The latest report, if there is one yet.
    pub(crate) report: Option<&'a Report>,
    /// True if the user can browse single exchanges with keys.
    pub(crate) has_keys: bool,
}

/// Writes the state of a watch.
pub(super) fn write(page: &mut Page, watching: &Watching<'_>) {
    page.paragraph(0, Tone::Strong, &now(watching));
    if let Some(lost) = watch::lost(watching.tally) {
        page.paragraph(0, Tone::Caution, &lost);
    }
    if watching.has_keys {
        page.paragraph(0, Tone::Dim, KEYS);
    }
    page.table(2, &histogram(&watching.tally.latency));
    let Some(report) = watching.report else {
        return;
    };
    let mut services: Vec<&WatchedService> = match &report.watch {
        Some(watch) => watch.services.iter().collect(),
        None => Vec::new(),
    };
    services.retain(|service| service.turns > 0);
    services.sort_by_key(|service| std::cmp::Reverse(service.turns));
    for service in services.into_iter().take(SERVICES) {
        page.blank();
        page.table(0, &stages(service));
    }
    if let Some(owners) = waits::in_a_line(&report.exchanges) {
        page.blank();
        page.paragraph(0, Tone::Plain, &owners);
    }
    let worst = worst(&report.exchanges.slowest);
    if !worst.is_empty() {
        page.blank();
        page.table(0, &worst);
    }
    if report.causes().next().is_some() {
        page.blank();
    }
    for finding in report.causes().take(FINDINGS) {
        say(page, finding);
    }
}

/// Returns the summary line:
/// `2,283/s now: p50 43.1 ms, p99 44.0 ms · 12,384 requests on 20 connections`.
fn now(watching: &Watching<'_>) -> String {
    let tally = watching.tally;
    let quantile = |of| {
        let value = watching.latest.quantile(of).unwrap_or_default();
        quantity::duration(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX))
    };
    let latest = if watching.latest.is_empty() {
        "no requests now".to_owned()
    } else {
        format!(
            "{} now: p50 {}, p99 {}",
            quantity::rate(watching.rate),
            quantile(0.5),
            quantile(0.99)
        )
    };
    let sampled = match tally.sampled_share {
        share if share > 0.0 && share < 1.0 => {
            format!(", {} of these examined in detail", quantity::share(share))
        }
        _ => String::new(),
    };
    format!(
        "{latest} · {}{sampled} on {}",
        quantity::counted(tally.latency.count(), "request", "requests"),
        quantity::counted(tally.connections, "connection", "connections"),
    )
}

/// Returns the histogram of the latencies, in steps of equal ratio.
fn histogram(latency: &Distribution) -> Table {
    let mut table = Table::new(&[
        (Align::Right, "latency up to"),
        (Align::Right, "requests"),
        (Align::Bar(BAR), ""),
    ]);
    for (end, count) in steps(&latency.buckets()) {
        let part = count as f64 / latency.count().max(1) as f64;
        table.row(vec![
            plain(quantity::duration(end)),
            plain(quantity::count(count)),
            (Tone::Plain, Content::Share(part)),
        ]);
    }
    table
}

/// Merges the buckets into at most [`ROWS`] steps, as pairs of upper bound and count. The bounds
/// increase by a constant factor, which is a power of two. Empty steps between others are kept. The
/// last step ends at the longest latency.
fn steps(buckets: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (Some(&(least, _)), Some(&(most, _))) = (buckets.first(), buckets.last()) else {
        return Vec::new();
    };
    let octave = |value: u64| (u64::BITS - value.leading_zeros()) as usize;
    let first = octave(least);
    let wide = (octave(most) - first + 1).div_ceil(ROWS);
    let mut list: Vec<(u64, u64)> = Vec::new();
    for &(value, count) in buckets {
        let at = (octave(value) - first) / wide;
        while list.len() <= at {
            let end = 1_u64.checked_shl((first + (list.len() + 1) * wide - 1) as u32);
            list.push((
                end.map_or(u64::MAX, |end| end.saturating_sub(1)).min(most),
                0,
            ));
        }
        if let Some((_, sum)) = list.get_mut(at) {
            *sum = sum.saturating_add(count);
        }
    }
    list
}

/// Returns the table of the stages of one service's requests.
fn stages(service: &WatchedService) -> Table {
    let mean = |figures: &Figures| figures.mean as f64;
    let all: f64 = service.stages.iter().map(|s| mean(&s.time_ns)).sum();
    let mut table = Table::new(&[
        (Align::Name, service.service.as_str()),
        (Align::Right, "p50"),
        (Align::Right, "p90"),
        (Align::Right, "p99"),
        (Align::Right, "max"),
        (Align::Bar(BAR), ""),
        (Align::Left, ""),
    ]);
    let mut row = |name: &str, figures: &Figures, part: f64, meaning: &str| {
        let values = [figures.p50, figures.p90, figures.p99, figures.max];
        let mut cells = vec![plain(format!("  {name}"))];
        cells.extend(values.map(|value| plain(quantity::duration(value))));
        cells.push((Tone::Plain, Content::Share(part)));
        cells.push(dim(meaning));
        table.row(cells);
    };
    row(
        "request",
        &service.latency_ns,
        0.0,
        &service.programs.join(", "),
    );
    for stage in service.stages.iter().filter(|s| s.time_ns.max > 0) {
        let part = mean(&stage.time_ns) / all.max(1.0);
        row(
            &stage.name,
            &stage.time_ns,
            part,
            watch::meaning(&stage.name),
        );
    }
    table
}

/// Returns the table of the slowest exchanges so far.
fn worst(slowest: &[Exemplar]) -> Table {
    let mut table = Table::new(&[
        (Align::Right, "slowest"),
        (Align::Name, "at (UTC)"),
        (Align::Name, "connection"),
        (Align::Left, "request"),
        (Align::Left, "mostly"),
    ]);
    for slow in slowest {
        table.row(vec![
            plain(quantity::duration(slow.latency_ns)),
            dim(place::time(slow.start_ns)),
            plain(format!("{} → {}", slow.client, slow.server)),
            plain(format!("{} {}", slow.request, slow.outcome).trim()),
            plain(mostly(slow)),
        ]);
    }
    table
}

/// Returns the longest waits of an exchange.
fn mostly(slow: &Exemplar) -> String {
    let mut waits: Vec<_> = slow.waits.iter().collect();
    waits.sort_by_key(|wait| std::cmp::Reverse(wait.duration_ns));
    let waits = waits
        .into_iter()
        .take(LONGEST)
        .filter(|wait| wait.duration_ns > 0);
    let named = waits.map(|wait| {
        let took = quantity::duration(wait.duration_ns);
        format!(
            "{took} {}: {}",
            words::owner(wait.owner),
            words::wait(wait.kind)
        )
    });
    named.collect::<Vec<_>>().join(", ")
}

fn say(page: &mut Page, finding: &Finding) {
    let (word, tone) = words::verdict(finding.verdict);
    let affected = finding.affected;
    let text = format!(
        "{} ({}), in {} of {}, {} of all request time",
        finding.title,
        finding.service,
        quantity::count(affected.exchanges),
        quantity::counted(affected.of, "request", "requests"),
        quantity::share(finding.share)
    );
    page.item(0, "✗", tone, &[(tone, word), (Tone::Plain, &text)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_hold_all_and_are_few() {
        for buckets in [
            vec![(0, 3)],
            vec![(1, 1), (u64::MAX, 1)],
            vec![(40_000, 5), (41_000, 2), (90_000_000, 1)],
            vec![(1_000, 1), (1_500, 1)],
        ] {
            let steps = steps(&buckets);
            assert!(steps.len() <= ROWS && !steps.is_empty(), "{steps:?}");
            let sum: u64 = steps.iter().map(|(_, count)| count).sum();
            assert_eq!(sum, buckets.iter().map(|(_, count)| count).sum::<u64>());
            assert_eq!(steps.last().map(|s| s.0), buckets.last().map(|b| b.0));
            assert!(steps.is_sorted(), "{steps:?}");
        }
        assert!(steps(&[]).is_empty());
    }
}
