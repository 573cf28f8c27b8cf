//! A load run: rate, latencies, their distribution, the generator's own load.

mod stages;
mod urls;

use lagtrace_core::observed::event::RequestFailure;
use lagtrace_core::report::{Figures, Generator, Interval, LoadRun, Report, StatusCount};
use lagtrace_core::stats::histogram::Distribution;

use super::latency::statuses;
use super::page::{Page, Tone};
use super::percentiles::{ROWS, value};
use super::quantity;
use super::table::{Align, Cell, Content, Table, dim, plain};
use super::transport;

/// Width of a full bar, in columns.
const BAR: usize = 32;
/// Maximum number of steps of the distribution.
const STEPS: usize = 14;

/// Writes the run; nothing if there was none.
pub(super) fn write(page: &mut Page, report: &Report) {
    let Some(load) = &report.load else {
        return;
    };
    headline(page, report, load);
    outcomes(page, load);
    transport::write(page, load);
    if load.responses == 0 {
        return;
    }
    page.heading("Latency");
    page.table(2, &figures(load));
    intervals(page, load);
    ways(page, load);
    stages::write(page, load);
    urls::write(page, load);
    if let Some(details) = &report.details {
        distribution(page, &details.latency);
    }
    if let Some(generator) = &load.generator {
        own_part(page, load, generator);
    }
}

/// Writes the 95 % intervals of the figures, as estimated by resampling.
fn intervals(page: &mut Page, load: &LoadRun) {
    let Some(intervals) = &load.intervals else {
        return;
    };
    let text = |interval: &Interval| {
        let (low, high) = (interval.low, interval.high);
        format!(
            "{} to {}",
            quantity::duration(low),
            quantity::duration(high)
        )
    };
    let text = format!(
        "95 % intervals: p50 {}, p99 {} (bootstrap over seconds and groups of connections; the \
         interval of the rate comes from its variation over the seconds)",
        text(&intervals.p50_ns),
        text(&intervals.p99_ns),
    );
    page.paragraph(2, Tone::Dim, &text);
}

/// Writes remarks on other ways to count latency, if those would give other figures.
fn ways(page: &mut Page, load: &LoadRun) {
    if load.waits_for_connections {
        page.paragraph(
            2,
            Tone::Dim,
            "latency begins when a request was due: this is how long users wait. service begins \
             when the request was sent. The difference is the wait for a free connection. Tools \
             that send only after a response (ab, hey, h2load, wrk) do not measure this wait.",
        );
    }
    if even_pace(load).is_some() {
        page.paragraph(
            2,
            Tone::Dim,
            "latency counts each request once, as ab, hey and h2load do: a stall delays only one \
             request per connection, and no more are sent. \"At an even pace\" also counts the \
             requests that would have been due during the stall, each with the rest of the stall, \
             as wrk does. This is the latency of users who do not wait for each other; --rate \
             measures it.",
        );
    }
}

/// Returns the latencies that requests due at an even pace would have had, if they differ markedly
/// from the measured ones.
fn even_pace(load: &LoadRun) -> Option<&Figures> {
    load.even_pace_ns.as_ref().filter(|_| load.hides_stalls)
}

fn headline(page: &mut Page, report: &Report, load: &LoadRun) {
    let margin = match load.rate_margin {
        Some(margin) => format!(" ± {}", quantity::rate(margin)),
        None => String::new(),
    };
    let manner = match load.offered_rate {
        Some(rate) => format!("at a rate of {}", quantity::rate(rate)),
        None => "in closed loop".to_owned(),
    };
    let connections = quantity::counted(load.connections.into(), "connection", "connections");
    if load.responses == 0 {
        let why = if were_never_open(report, load) {
            ", none of which was established"
        } else {
            ""
        };
        let text = format!("No response on {connections}{why}, {manner}.");
        return page.paragraph(0, Tone::Bad, &text);
    }
    let text = format!(
        "{} in {} on {connections}, {manner}: {}{margin}, {}/s",
        quantity::counted(load.responses, "response", "responses"),
        quantity::duration((load.seconds * 1e9) as u64),
        quantity::rate(load.rate),
        quantity::bytes((load.received_bytes as f64 / load.seconds.max(1e-9)) as u64),
    );
    page.paragraph(0, Tone::Strong, &text);
    if load.warm_up_seconds > 0.0 {
        let warm_up = quantity::duration((load.warm_up_seconds * 1e9) as u64);
        let text = format!("after a warm-up of {warm_up}, which is not counted");
        page.paragraph(0, Tone::Dim, &text);
    }
}

/// Returns true if no connection was established; one whose TLS handshake failed was.
fn were_never_open(report: &Report, load: &LoadRun) -> bool {
    let reached = [
        RequestFailure::Certificate,
        RequestFailure::Tls,
        RequestFailure::TlsTimeout,
    ];
    let mut outcomes = load.outcomes.iter();
    let has_reached = |outcome: &StatusCount| {
        let mut reached = reached.iter();
        reached.any(|failure| failure.name() == outcome.status)
    };
    let mut notes = report.notes.iter();
    notes.any(|note| note.id == "nothing-connected") && !outcomes.any(has_reached)
}

fn outcomes(page: &mut Page, load: &LoadRun) {
    let tone = if load.failed > 0 {
        Tone::Bad
    } else {
        Tone::Dim
    };
    let mut parts = Vec::new();
    if !load.outcomes.is_empty() {
        parts.push(statuses(&load.outcomes));
    }
    parts.push(format!(
        "{} without a complete response",
        quantity::count(load.failed)
    ));
    if load.connects > 0 {
        let connects = quantity::counted(load.connects, "connection", "connections");
        parts.push(format!("{connects} opened during it"));
    }
    page.paragraph(0, tone, &parts.join(" · "));
    if let Some(offered) = load.offered_rate.filter(|_| load.falls_behind) {
        let text = format!(
            "The service did not keep up: {} were due, {} answered, and the queue for connections \
             kept growing. The latencies are those of this queue.",
            quantity::rate(offered),
            quantity::rate(load.rate),
        );
        page.paragraph(0, Tone::Caution, &text);
    }
}

fn figures(load: &LoadRun) -> Table {
    let mut columns = vec![(Align::Left, ""), (Align::Right, "latency")];
    let has_service = load.offered_rate.is_some();
    if has_service {
        columns.push((Align::Right, "service"));
    }
    let even_pace = even_pace(load);
    if even_pace.is_some() {
        columns.push((Align::Right, "at an even pace"));
    }
    columns.push((Align::Right, "first byte"));
    let mut table = Table::new(&columns);
    let mut row = |name, of: &dyn Fn(&Figures) -> Cell| {
        let mut row = vec![plain(name), of(&load.latency_ns)];
        if has_service {
            row.push(of(&load.service_ns));
        }
        row.extend(even_pace.map(of));
        row.push(of(&load.first_byte_ns));
        table.row(row);
    };
    for percentile in ROWS {
        row(percentile.0, &|figures| {
            value(figures, percentile).map_or_else(|| dim("–"), plain)
        });
    }
    row("requests", &|figures| plain(quantity::count(figures.count)));
    table
}

/// Writes the histogram of the latencies, in steps of equal ratio.
fn distribution(page: &mut Page, latencies: &Distribution) {
    let (Some(min), Some(max)) = (latencies.min(), latencies.max()) else {
        return;
    };
    let (min, max) = (min.as_nanos() as f64, max.as_nanos() as f64);
    if latencies.count() < 10 || max <= min * 1.2 {
        return;
    }
    let steps = ((max / min).log2() * 2.0).ceil().clamp(3.0, STEPS as f64) as usize;
    let ratio = (max / min).powf(1.0 / steps as f64);
    let mut counts = vec![0_u64; steps];
    for (value, count) in latencies.buckets() {
        let step = ((value as f64 / min).max(1.0).ln() / ratio.ln()) as usize;
        if let Some(sum) = counts.get_mut(step.min(steps - 1)) {
            *sum = sum.saturating_add(count);
        }
    }
    page.heading("Distribution");
    let mut table = Table::new(&[
        (Align::Right, "up to"),
        (Align::Right, "requests"),
        (Align::Bar(BAR), ""),
        (Align::Right, "share"),
    ]);
    for (step, &count) in counts.iter().enumerate() {
        let part = count as f64 / latencies.count() as f64;
        table.row(vec![
            plain(quantity::duration(
                (min * ratio.powi(step as i32 + 1)) as u64,
            )),
            plain(quantity::count(count)),
            (Tone::Plain, Content::Share(part)),
            plain(quantity::share(part)),
        ]);
    }
    page.table(2, &table);
}

fn own_part(page: &mut Page, load: &LoadRun, generator: &Generator) {
    let requests = load.responses.saturating_add(load.failed);
    let text = format!(
        "The generator took {} of processor time per request; its busiest thread was busy for {} \
         of the time.",
        quantity::duration(generator.cpu_ns / requests.max(1)),
        quantity::share(generator.busiest_share),
    );
    page.blank();
    page.paragraph(0, Tone::Dim, &text);
    if generator.is_limit {
        let text = "The generator may have been the limit, so the figures say little about the \
                    service. Use fewer connections or a lower rate, another host, or more threads \
                    (-t).";
        page.paragraph(0, Tone::Caution, text);
    }
}
