//! All figures of a connection, its ends side by side.

use lagtrace_core::report::{ConnectionRecord, ConnectionSide, Delays, Retransmissions, Spells};

use super::{UNKNOWN, duration, end, known};
use crate::render::page::{Page, Tone};
use crate::render::quantity;
use crate::render::table::{Align, Table, dim, plain};

/// Writes a connection in full.
pub(super) fn write(page: &mut Page, record: &ConnectionRecord) {
    let number = record.stream.map_or(String::new(), |n| format!(" {n}"));
    let protocol = &record.protocol;
    page.heading(&format!(
        "Connection{number}: {} → {} ({protocol})",
        record.client, record.server
    ));
    page.paragraph(2, Tone::Plain, &story(record));
    let mut table = Table::new(&[
        (Align::Name, ""),
        (Align::Right, "client"),
        (Align::Right, "server"),
    ]);
    let (client, server) = (&record.client_side, &record.server_side);
    for (name, of) in FIGURES {
        table.row(vec![dim(*name), plain(of(client)), plain(of(server))]);
    }
    page.table(2, &table);
    for (name, side) in [("client", client), ("server", server)] {
        let system = &side.system;
        let because = system.because.join(", ");
        match &system.looks_like {
            _ if because.is_empty() => {}
            Some(system) => {
                let text = format!("The {name} looks like {system}: {because}.");
                page.paragraph(2, Tone::Plain, &text);
            }
            None => page.paragraph(2, Tone::Plain, &format!("The {name}: {because}.")),
        }
    }
}

/// Returns a summary of the connection in one line: packets, duration, handshake, time lost,
/// options, end.
fn story(record: &ConnectionRecord) -> String {
    let mut parts = vec![
        format!("packets {} to {}", record.first_packet, record.last_packet),
        format!("{} long", quantity::duration(record.duration_ns)),
    ];
    match &record.handshake {
        Some(handshake) => parts.push(format!(
            "handshake {} ({} to the server, {} to the client)",
            duration(handshake.took_ns),
            duration(handshake.to_server_ns),
            duration(handshake.to_client_ns)
        )),
        None => parts.push("its beginning was not seen".to_owned()),
    }
    if let (Some(place), Some(what)) = (&record.vantage.place, &record.vantage.known_by) {
        parts.push(format!("seen at {place} (by {what})"));
    }
    if let Some(lost) = record.lost {
        parts.push(format!(
            "lost {}: client {}, server {}, path {}, not explained {}",
            quantity::duration(lost.total_ns),
            quantity::duration(lost.client_ns),
            quantity::duration(lost.server_ns),
            quantity::duration(lost.path_ns),
            quantity::duration(lost.unknown_ns)
        ));
    }
    for (name, is_used) in [
        ("timestamps", record.timestamps),
        ("SACK", record.sack),
        ("window scaling", record.window_scaling),
    ] {
        parts.push(match is_used {
            Some(true) => name.to_owned(),
            Some(false) => format!("no {name}"),
            None => format!("{name} unknown"),
        });
    }
    parts.push(format!("end: {}", end(record)));
    parts.join(" · ")
}

/// A function that formats one figure of one end.
type Figure = fn(&ConnectionSide) -> String;

const FIGURES: &[(&str, Figure)] = &[
    ("packets seen", |side| quantity::count(side.packets)),
    ("with data", |side| seen(side, side.data_packets)),
    ("bytes", |side| seen(side, side.bytes)),
    ("missed by the capture", |side| known(side.unseen_bytes)),
    ("MSS offered", |side| known(side.mss.map(u64::from))),
    ("window shift offered", |side| {
        known(side.window_scale.map(u64::from))
    }),
    ("initial window", |side| match side.initial_window {
        Some(window) => {
            let at_least = if window.is_least { "≥ " } else { "" };
            format!(
                "{at_least}{} ({} segments)",
                quantity::count(window.bytes),
                window.segments
            )
        }
        None => UNKNOWN.to_owned(),
    }),
    ("most in flight", |side| known(side.in_flight_max)),
    ("window, least", |side| known(side.window.map(|w| w.min))),
    ("window, most", |side| known(side.window.map(|w| w.max))),
    ("own window zero", |side| spells(side.zero_window)),
    ("peer's window full", |side| spells(side.full_window)),
    ("round trip to it, least", |side| {
        duration(side.round_trip.as_ref().map(|trip| trip.min_ns))
    }),
    ("median", |side| {
        duration(side.round_trip.as_ref().and_then(|trip| trip.median_ns))
    }),
    ("95th percentile", |side| {
        duration(side.round_trip.as_ref().and_then(|trip| trip.p95_ns))
    }),
    ("told from", |side| match &side.round_trip {
        Some(trip) => format!("{} × {}", quantity::count(trip.samples), trip.method),
        None => UNKNOWN.to_owned(),
    }),
    ("repeated", |side| resent(side, |r| Some(r.repeated))),
    ("repeated bytes", |side| {
        resent(side, |r| Some(r.repeated_bytes))
    }),
    ("first copy lost before", |side| {
        resent(side, |r| Some(r.lost_before))
    }),
    ("overtaken", |side| resent(side, |r| Some(r.overtaken))),
    ("by bytes, most", |side| {
        resent(side, |r| r.overtaken_by_bytes)
    }),
    ("late, reason unknown", |side| {
        resent(side, |r| Some(r.filled))
    }),
    ("needlessly retransmitted", |side| {
        resent(side, |r| Some(r.spurious))
    }),
    ("duplicated on the path", |side| {
        resent(side, |r| Some(r.copies))
    }),
    ("repaired fast", |side| resent(side, |r| r.fast)),
    ("by the timer", |side| resent(side, |r| r.timeout)),
    ("by a tail-loss probe", |side| {
        resent(side, |r| r.tail_loss_probe)
    }),
    ("retransmission lost too", |side| {
        resent(side, |r| r.lost_again)
    }),
    ("probes", |side| resent(side, |r| Some(r.probes))),
    ("bare ACKs", |side| {
        known(side.acknowledgements.map(|a| a.bare))
    }),
    ("duplicate ACKs", |side| {
        known(side.acknowledgements.map(|a| a.duplicate))
    }),
    ("SACKs", |side| {
        known(side.acknowledgements.map(|a| a.sacks))
    }),
    ("D-SACKs", |side| {
        known(side.acknowledgements.map(|a| a.d_sacks))
    }),
    ("delayed ACKs", |side| {
        delays(side.acknowledgements.and_then(|a| a.delayed))
    }),
];

fn seen(side: &ConnectionSide, count: u64) -> String {
    match side.packets {
        0 => UNKNOWN.to_owned(),
        _ => quantity::count(count),
    }
}

fn resent(side: &ConnectionSide, which: fn(Retransmissions) -> Option<u64>) -> String {
    known(side.retransmissions.and_then(which))
}

fn spells(spells: Option<Spells>) -> String {
    match spells {
        Some(Spells { count: 0, .. }) => "never".to_owned(),
        Some(Spells { count, total_ns }) => {
            format!(
                "{} ×, {}",
                quantity::count(count),
                quantity::duration(total_ns)
            )
        }
        None => UNKNOWN.to_owned(),
    }
}

fn delays(delays: Option<Delays>) -> String {
    match delays {
        Some(Delays { count: 0, .. }) => "0".to_owned(),
        Some(Delays { count, median_ns }) => {
            format!("{} × {}", quantity::count(count), duration(median_ns))
        }
        None => UNKNOWN.to_owned(),
    }
}
