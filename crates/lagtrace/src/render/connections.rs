//! The table of connections, and with `--verbose` each in full.

use lagtrace_core::report::{ConnectionRecord, Connections, Retransmissions, RoundTripFigures};

use super::page::{Page, Tone};
use super::quantity;
use super::table::{Align, Cell, Table, cell, dim, plain};

mod full;

/// The placeholder for an unknown value.
const UNKNOWN: &str = "–";

/// Writes the table of connections.
pub(super) fn write(page: &mut Page, connections: &Connections) {
    let Connections {
        seen,
        sorted_by,
        list,
    } = connections;
    page.heading("Connections");
    let shown = list.len() as u64;
    let seen = quantity::counted(*seen, "connection", "connections");
    let title = if shown == 0 {
        "None were seen.".to_owned()
    } else if *sorted_by == "start" {
        format!("{} of {seen}, the first ones", quantity::count(shown))
    } else {
        format!(
            "{} of {seen}, most {sorted_by} first",
            quantity::count(shown)
        )
    };
    page.paragraph(2, Tone::Dim, &title);
    page.table(2, &table(list));
    if shown > 0 {
        page.paragraph(
            2,
            Tone::Dim,
            "– means that the capture does not show it. Round trips are measured from the capture \
             point: minimum to the client + minimum to the server. -v prints all figures.",
        );
    }
    if page.is_verbose() {
        for record in list {
            full::write(page, record);
        }
    }
}

fn table(list: &[ConnectionRecord]) -> Table {
    let mut table = Table::new(&[
        (Align::Right, "stream"),
        (Align::Name, "client → server"),
        (Align::Right, "lost"),
        (Align::Right, "requests"),
        (Align::Right, "handshake"),
        (Align::Right, "round trip"),
        (Align::Right, "packets"),
        (Align::Right, "bytes ←"),
        (Align::Right, "resent"),
        (Align::Name, "end"),
    ]);
    for record in list {
        table.row(row(record));
    }
    table
}

fn row(record: &ConnectionRecord) -> Vec<Cell> {
    let (client, server) = (&record.client_side, &record.server_side);
    let resent = [client, server].map(|side| side.retransmissions);
    let resent = match resent {
        [None, None] => None,
        sides => Some(quantity::total(sides.iter().flatten().map(resent_by))),
    };
    let lost = record.lost.map(|lost| lost.total_ns);
    vec![
        dim(stream(record)),
        plain(format!("{} → {}", record.client, record.server)),
        cell(
            if lost.is_some_and(|ns| ns > 0) {
                Tone::Strong
            } else {
                Tone::Plain
            },
            lost.map_or(UNKNOWN.to_owned(), quantity::duration),
        ),
        plain(known(record.exchanges)),
        plain(duration(record.handshake.as_ref().and_then(|h| h.took_ns))),
        plain(round_trip(record)),
        plain(quantity::count(quantity::total([
            client.packets,
            server.packets,
        ]))),
        plain(match server.packets {
            0 => UNKNOWN.to_owned(),
            _ => quantity::bytes(server.bytes),
        }),
        match resent {
            Some(0) | None => plain(known(resent)),
            _ => cell(Tone::Caution, known(resent)),
        },
        plain(end(record)),
    ]
}

/// Returns the number of retransmissions, whether the original was lost before or after the
/// observation point.
fn resent_by(side: &Retransmissions) -> u64 {
    quantity::total([side.repeated, side.lost_before, side.filled])
}

fn stream(record: &ConnectionRecord) -> String {
    let number = record.stream.map_or(UNKNOWN.to_owned(), |n| n.to_string());
    match record.protocol.as_str() {
        "quic" => format!("udp {number}"),
        _ => number,
    }
}

/// Returns the manner in which the connection ended, and the end that ended it, if known.
fn end(record: &ConnectionRecord) -> String {
    match &record.end.by {
        Some(by) => format!("{}, {by}", record.end.how),
        None => record.end.how.clone(),
    }
}

fn round_trip(record: &ConnectionRecord) -> String {
    let least = |figures: &Option<RoundTripFigures>| figures.as_ref().map(|trip| trip.min_ns);
    let parts = [&record.client_side, &record.server_side].map(|side| least(&side.round_trip));
    match parts {
        [None, None] => UNKNOWN.to_owned(),
        [client, server] => format!("{}+{}", duration(client), duration(server)),
    }
}

fn known(count: Option<u64>) -> String {
    count.map_or(UNKNOWN.to_owned(), quantity::count)
}

fn duration(ns: Option<u64>) -> String {
    ns.map_or(UNKNOWN.to_owned(), quantity::duration)
}
