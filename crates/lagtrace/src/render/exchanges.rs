//! The table of exchanges.

use lagtrace_core::report::{ExchangeRecord, WaitSpan};

use super::page::{Page, Tone};
use super::table::{Align, Table, dim, plain};
use super::{quantity, words};

/// Writes `records` in the order given; `met` of the `seen` exchanges meet the condition.
pub(super) fn write(page: &mut Page, records: &[&ExchangeRecord], met: u64, seen: u64) {
    let mut table = Table::new(&[
        (Align::Right, "latency"),
        (Align::Right, "cost"),
        (Align::Left, "longest wait"),
        (Align::Right, "took"),
        (Align::Left, "request"),
        (Align::Left, "outcome"),
        (Align::Name, "server"),
        (Align::Right, "stream"),
        (Align::Right, "packets"),
    ]);
    for record in records {
        let exchange = &record.exchange;
        let longest = longest(record);
        table.row(vec![
            plain(quantity::duration(exchange.latency_ns)),
            plain(quantity::duration(record.cost_ns)),
            plain(longest.map(named).unwrap_or_default()),
            plain(longest.map_or_else(String::new, |wait| quantity::duration(wait.duration_ns))),
            plain(&exchange.request),
            plain(&exchange.outcome),
            dim(&exchange.server),
            dim(record.stream.map(|n| n.to_string()).unwrap_or_default()),
            dim(packets(record)),
        ]);
    }
    page.table(0, &table);
    page.blank();
    page.paragraph(0, Tone::Dim, &count(records.len() as u64, met, seen));
}

pub(super) fn longest(record: &ExchangeRecord) -> Option<&WaitSpan> {
    // Reversed, so that of equal waits the earlier is chosen.
    let waits = record.exchange.waits.iter().rev();
    waits.max_by_key(|wait| wait.duration_ns)
}

pub(super) fn named(wait: &WaitSpan) -> String {
    format!("{}: {}", words::owner(wait.owner), words::wait(wait.kind))
}

fn packets(record: &ExchangeRecord) -> String {
    let exchange = &record.exchange;
    match (exchange.first_packet, exchange.last_packet) {
        (Some(first), Some(last)) => format!("{first}–{last}"),
        _ => String::new(),
    }
}

fn count(shown: u64, met: u64, seen: u64) -> String {
    let all = quantity::counted(seen, "exchange", "exchanges");
    match (shown, met) {
        (_, 0) => format!("None of {all}."),
        (shown, met) if met == seen => format!("{} of {all}.", quantity::count(shown)),
        (shown, met) => format!(
            "{} of {} that match the condition, of {all}.",
            quantity::count(shown),
            quantity::count(met)
        ),
    }
}
