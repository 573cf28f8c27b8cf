//! A traced route: one line per hop.

pub(super) mod csv;

use lagtrace_core::report::{Hop, HopState, LayerState, Report, Route, RouteMtu, RoutePath};

use super::page::{Page, Tone};
use super::quantity;
use super::table::{Align, Cell, Table, cell, dim, plain};

/// Maximum number of probes per hop for which each round trip is shown instead of
/// statistics.
const FEW: u64 = 5;

/// Writes the report of `lagtrace route`.
pub(super) fn write(page: &mut Page, report: &Report) {
    for layer in &report.layers {
        let tone = match layer.state {
            LayerState::Cleared => Tone::Good,
            _ => Tone::Bad,
        };
        page.spans(0, &[(tone, &format!("{}.", layer.line))]);
        page.paragraph(2, Tone::Dim, &format!("{}.", layer.because));
    }
    page.blank();
    page.table(0, &reported(report, page.width()));
    if let Some(route) = &report.route {
        paths(page, &route.paths);
        if let Some(mtu) = &route.mtu {
            largest(page, mtu);
        }
    }
}

/// Returns the hops of a report as a table.
pub(super) fn reported(report: &Report, width: usize) -> Table {
    let route = report.route.as_ref();
    fitting(width, |figures| {
        table(&report.hops, route, figures, Align::Name)
    })
}

/// Returns the hops as a table that is redrawn in place, each row on one line of the
/// terminal.
pub(super) fn live(hops: &[Hop], width: usize) -> Table {
    fitting(width, |figures| table(hops, None, figures, Align::Left))
}

/// Returns the table with all figures if it fits `width`, else the one with fewer figures.
fn fitting(width: usize, table: impl Fn(&[Figure]) -> Table) -> Table {
    let whole = table(&FIGURES);
    if whole.wanted() <= width {
        return whole;
    }
    let few: Vec<Figure> = FIGURES
        .into_iter()
        .filter(|(_, is_first)| *is_first)
        .collect();
    table(&few)
}

/// The title of a figure, and true if a narrow table has it.
type Figure = (&'static str, bool);

const FIGURES: [Figure; 8] = [
    ("loss", true),
    ("sent", true),
    ("best", true),
    ("avg", false),
    ("p50", true),
    ("p99", false),
    ("worst", true),
    ("mdev", false),
];

fn table(hops: &[Hop], route: Option<&Route>, shown: &[Figure], words: Align) -> Table {
    let is_few = hops.iter().all(|hop| hop.sent <= FEW);
    let mut columns = vec![(Align::Right, "hop"), (words, "address")];
    if is_few {
        columns.push((Align::Name, "round trips"));
    } else {
        columns.extend(shown.iter().map(|(title, _)| (Align::Right, *title)));
    }
    columns.push((words, ""));
    let mut table = Table::new(&columns);
    // All hops after the last one that answered share one line.
    let known = hops.iter().rposition(|hop| hop.received > 0);
    let known = known.map_or(0, |last| last + 1);
    let (told, silent) = hops.split_at(known);
    for hop in told {
        let is_last = route.is_some_and(|route| route.distance == Some(hop.ttl));
        let mut row = vec![plain(hop.ttl.to_string()), name(hop)];
        row.extend(if is_few {
            trips(hop)
        } else {
            figures(hop, shown)
        });
        row.push(remark(hop, route, is_last));
        table.row(row);
    }
    if let (Some(first), Some(last)) = (silent.first(), silent.last()) {
        let range = if first.ttl == last.ttl {
            first.ttl.to_string()
        } else {
            format!("{}–{}", first.ttl, last.ttl)
        };
        let mut row = vec![plain(range), dim("*")];
        row.resize_with(columns.len() - 1, || dim(""));
        row.push(dim("silent"));
        table.row(row);
    }
    table
}

fn name(hop: &Hop) -> Cell {
    let owner = hop
        .asn
        .map_or_else(String::new, |asn| format!(" [AS{asn}]"));
    match (&hop.name, &hop.address) {
        (Some(name), Some(address)) => plain(format!("{name} ({address}){owner}")),
        (None, Some(address)) => plain(format!("{address}{owner}")),
        _ => dim("*"),
    }
}

/// Returns each round-trip time, `*` for a lost probe.
fn trips(hop: &Hop) -> Vec<Cell> {
    let one = |rtt: &Option<u64>| match rtt {
        Some(rtt) => milliseconds(*rtt),
        None => "*".to_owned(),
    };
    if hop.received == 0 {
        return vec![dim("*")];
    }
    let all: Vec<String> = hop.history_ns.iter().map(one).collect();
    vec![plain(format!("{} ms", all.join("  ")))]
}

fn figures(hop: &Hop, shown: &[Figure]) -> Vec<Cell> {
    let rtt = &hop.rtt_ns;
    let lost = hop.sent.saturating_sub(hop.received);
    let time = |ns| match hop.received {
        0 => dim(""),
        _ => plain(milliseconds(ns)),
    };
    let figure = |(title, _): &Figure| match *title {
        "loss" => plain(quantity::share(lost as f64 / hop.sent.max(1) as f64)),
        "sent" => plain(quantity::count(hop.sent)),
        "best" => time(rtt.min),
        "avg" => time(rtt.mean),
        "p50" => time(rtt.p50),
        "p99" => time(rtt.p99),
        "worst" => time(rtt.max),
        _ => time(rtt.mdev),
    };
    shown.iter().map(figure).collect()
}

/// Formats a time in milliseconds with three decimals, so that a column is easy to compare.
fn milliseconds(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

/// Returns the remarks on a hop: losses, delays, address translation, names, refusals, labels
/// and other addresses.
fn remark(hop: &Hop, route: Option<&Route>, is_last: bool) -> Cell {
    let (sent, received) = (hop.sent, hop.received);
    let mut words = Vec::new();
    let tone = match hop.state {
        HopState::Lossy => Tone::Bad,
        HopState::Undecided => Tone::Caution,
        _ => Tone::Dim,
    };
    match hop.state {
        HopState::Answers => {}
        HopState::Silent => words.push("silent".to_owned()),
        HopState::Limited => words.push(format!("limited: answers {received} of {sent}")),
        HopState::Lossy => words.push(format!("lossy: {received} of {sent} come back")),
        HopState::Undecided => {
            words.push(format!("answers {received} of {sent}: limited or lossy"));
        }
    }
    if let Some(route) = route.filter(|_| is_last) {
        words.push(route.outcome.clone());
    }
    words.extend(hop.slow_ns.map(|own| {
        let own = quantity::duration(own);
        format!("slow to answer: {own} are the router's own")
    }));
    let is_changed = route.is_some_and(|route| route.translated_before.contains(&hop.ttl));
    words.extend(translation(hop, is_changed));
    words.extend(hop.as_name.clone());
    let refusals = hop.answers.iter().filter(|a| a.starts_with("unreachable"));
    words.extend(refusals.map(|answer| format!("ICMP {answer}")));
    let labels = hop.labels.iter();
    words.extend(labels.map(|label| format!("MPLS {} (ttl {})", label.label, label.ttl)));
    if hop.addresses.len() > 1 {
        let others: Vec<&str> = hop
            .addresses
            .iter()
            .skip(1)
            .map(|a| a.address.as_str())
            .collect();
        words.push(format!("also {}", others.join(", ")));
    }
    cell(tone, words.join("; "))
}

/// Returns the form in which probes arrive at a hop, if a translator (NAT) changed it; `is_changed`
/// is true if it differs from the form at the previous hop.
fn translation(hop: &Hop, is_changed: bool) -> Option<String> {
    let Some(seen) = &hop.translation else {
        return is_changed.then(|| "as they were sent".to_owned());
    };
    let end = |address: &Option<String>, port: u16| match address {
        Some(address) => format!("{address} port {port}"),
        None => format!("port {port}"),
    };
    let text = format!(
        "{} to {}, checksum +{:#06x}",
        end(&seen.source, seen.source_port),
        end(&seen.destination, seen.destination_port),
        seen.checksum_shift
    );
    Some(if is_changed {
        format!("after NAT: comes from {text}")
    } else {
        "translated alike".to_owned()
    })
}

fn paths(page: &mut Page, paths: &[RoutePath]) {
    if paths.is_empty() {
        return;
    }
    page.heading("Paths");
    let flows = quantity::total(paths.iter().map(|path| path.flows));
    for path in paths {
        let hops = path.hops.iter().map(|hop| hop.as_deref().unwrap_or("*"));
        let head = format!("{} of {flows} flows:", path.flows);
        let way = hops.collect::<Vec<_>>().join(" → ");
        page.item(
            2,
            "•",
            Tone::Dim,
            &[(Tone::Strong, &head), (Tone::Plain, &way)],
        );
    }
}

fn largest(page: &mut Page, mtu: &RouteMtu) {
    page.heading("Largest packet");
    let text = match mtu.mtu_bytes {
        Some(bytes) => format!("{bytes} bytes get through to hop {}.", mtu.to_ttl),
        None => format!(
            "Even a small packet was not answered at hop {}.",
            mtu.to_ttl
        ),
    };
    page.paragraph(2, Tone::Plain, &text);
    for narrowing in &mtu.narrowings {
        let at = narrowing
            .ttl
            .map_or_else(String::new, |ttl| format!("hop {ttl} "));
        let bytes = narrowing.mtu_bytes;
        let (tone, text) = match &narrowing.address {
            Some(address) => (
                Tone::Plain,
                format!("{at}({address}) reports an MTU of {bytes} bytes for its next link."),
            ),
            None => (
                Tone::Bad,
                format!(
                    "Larger packets are dropped before {at}without an ICMP message: a black \
                    hole."
                ),
            ),
        };
        page.item(2, "•", Tone::Dim, &[(tone, &text)]);
    }
}

#[cfg(test)]
mod tests {
    use lagtrace_core::report::ProbeFigures;

    use super::*;
    use crate::render::{Length, Style};

    #[test]
    fn what_is_drawn_in_place_keeps_to_the_lines_of_a_small_terminal() {
        let hop = |ttl: u8| Hop {
            ttl,
            address: Some(format!("2001:db8:aaaa:bbbb:cccc:dddd:eeee:{ttl:04x}")),
            asn: Some(4_200_000_000),
            as_name: Some("EXAMPLE-BACKBONE, ZZ".to_owned()),
            sent: 100,
            received: 100,
            rtt_ns: ProbeFigures {
                max: 1_024_459_000,
                ..ProbeFigures::default()
            },
            ..Hop::default()
        };
        let hops: Vec<Hop> = (1..=9).map(hop).collect();
        for width in [80, 120] {
            let style = Style {
                width,
                color: false,
                ascii: false,
                length: Length::Screen,
            };
            let text = crate::render::hops(&hops, &style);
            assert_eq!(text.lines().count(), 10);
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(width), "{text}");
            assert!(!text.contains("mdev"), "{text}");
        }
        // All figures are shown if there is room.
        let near = Hop {
            address: Some("192.0.2.1".to_owned()),
            as_name: None,
            ..hop(1)
        };
        let table = live(&[near], 100);
        assert!(table.wanted() <= 100 && table.wanted() > 80);
    }
}
