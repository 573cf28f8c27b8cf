//! A load run: rate, latencies, their distribution, the generator's part.

use lagtrace_core::histogram::Distribution;
use lagtrace_core::report::{Figures, Generator, LoadRun, Report};

use super::latency::statuses;
use super::page::{Page, Tone};
use super::quantity;
use super::table::{Align, Content, Table, dim, plain};
use super::transport;

/// Columns of a full bar.
const BAR: usize = 32;
/// Steps of the distribution that are shown at most.
const STEPS: usize = 14;

/// A row of the table, and how many requests it takes to mean anything.
type Row = (&'static str, fn(&Figures) -> u64, u64);

const ROWS: [Row; 9] = [
    ("min", |f| f.min, 1),
    ("mean", |f| f.mean, 1),
    ("p50", |f| f.p50, 2),
    ("p75", |f| f.p75, 4),
    ("p90", |f| f.p90, 10),
    ("p99", |f| f.p99, 100),
    ("p99.9", |f| f.p999, 1_000),
    ("max", |f| f.max, 1),
    ("requests", |_| 0, 0),
];

/// Writes the run; nothing where there was none.
pub(super) fn write(page: &mut Page, report: &Report) {
    let Some(load) = &report.load else {
        return;
    };
    headline(page, load);
    outcomes(page, load);
    transport::write(page, load);
    if load.responses == 0 {
        return;
    }
    page.heading("Latency");
    page.table(2, &figures(load));
    if load.offered_rate.is_some() && differs(&load.latency_ns, &load.service_ns) {
        page.paragraph(
            2,
            Tone::Dim,
            "latency begins when a request was due, which is what users wait; service begins \
             when it was sent: the difference is the wait for a free connection, which tools \
             that send only when answered never see",
        );
    }
    if let Some(details) = &report.details {
        distribution(page, &details.latency);
    }
    if let Some(generator) = &load.generator {
        own_part(page, load, generator);
    }
}

fn headline(page: &mut Page, load: &LoadRun) {
    let margin = match load.rate_margin {
        Some(margin) => format!(" ± {}", quantity::rate(margin)),
        None => String::new(),
    };
    let manner = match load.offered_rate {
        Some(rate) => format!("at a rate of {}", quantity::rate(rate)),
        None => "in closed loop".to_owned(),
    };
    let text = format!(
        "{} in {} on {}, {manner}: {}{margin}, {}/s",
        quantity::counted(load.responses, "response", "responses"),
        quantity::duration((load.seconds * 1e9) as u64),
        quantity::counted(load.connections.into(), "connection", "connections"),
        quantity::rate(load.rate),
        quantity::bytes((load.received_bytes as f64 / load.seconds.max(1e-9)) as u64),
    );
    page.paragraph(0, Tone::Strong, &text);
}

fn outcomes(page: &mut Page, load: &LoadRun) {
    let tone = if load.failed > 0 {
        Tone::Bad
    } else {
        Tone::Dim
    };
    let mut text = statuses(&load.outcomes);
    text.push_str(&format!(
        " · {} without a whole response",
        quantity::count(load.failed)
    ));
    if load.connects > 0 {
        let connects = quantity::counted(load.connects, "connection", "connections");
        text.push_str(&format!(" · {connects} opened meanwhile"));
    }
    page.paragraph(0, tone, &text);
    if let Some(offered) = load.offered_rate.filter(|_| load.falls_behind) {
        let text = format!(
            "The service did not keep up: {} were due, {} answered, and the queue for \
             connections grew all the time. The latencies are those of that queue.",
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
    columns.push((Align::Right, "first byte"));
    let mut table = Table::new(&columns);
    for (name, figure, least) in ROWS {
        let cell = |figures: &Figures| match (least, figures.count) {
            (0, count) => plain(quantity::count(count)),
            (least, count) if count < least => dim("–"),
            _ => plain(quantity::duration(figure(figures))),
        };
        let mut row = vec![plain(name), cell(&load.latency_ns)];
        if has_service {
            row.push(cell(&load.service_ns));
        }
        row.push(cell(&load.first_byte_ns));
        table.row(row);
    }
    table
}

/// Whether two distributions differ by more than their steps do.
fn differs(one: &Figures, other: &Figures) -> bool {
    let apart = |a: u64, b: u64| a.abs_diff(b) > a.max(b) / 20 && a.abs_diff(b) > 50_000;
    apart(one.p50, other.p50) || apart(one.p99, other.p99) || apart(one.max, other.max)
}

/// How many requests took how long, in steps of equal ratio.
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
    let mut counts = vec![0; steps];
    for (value, count) in latencies.buckets() {
        let step = ((value as f64 / min).max(1.0).ln() / ratio.ln()) as usize;
        if let Some(sum) = counts.get_mut(step.min(steps - 1)) {
            *sum += count;
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
    let requests = load.responses + load.failed;
    let text = format!(
        "The generator took {} of processor time a request; its busiest thread was busy {} of \
         the time.",
        quantity::duration(generator.cpu_ns / requests.max(1)),
        quantity::share(generator.busiest_share),
    );
    page.blank();
    page.paragraph(0, Tone::Dim, &text);
    if generator.is_limit {
        let text = "It may itself have been the limit: the figures judge no service. Use fewer \
                    connections or a lower rate, another host, or more threads (-t).";
        page.paragraph(0, Tone::Caution, text);
    }
}
