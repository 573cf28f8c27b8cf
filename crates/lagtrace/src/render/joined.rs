//! The comparison of two captures of the same connections.

use lagtrace_core::report::{ClockRelation, Joined, Report, Way};

use super::page::{Page, Tone};
use super::quantity;
use super::table::{Align, Content, Table, plain};

/// Width of a full bar, in columns.
const BAR: usize = 20;

/// Writes the relation of the clocks, the delays of both directions, and the places where
/// the requests' time went.
pub(super) fn write(page: &mut Page, report: &Report) {
    let Some(joined) = &report.joined else {
        return;
    };
    page.heading("Between the two captures");
    page.paragraph(2, Tone::Plain, &what(joined));
    page.paragraph(2, Tone::Plain, &clock(&joined.clock));
    page.table(2, &ways(&joined.ways));
    if !joined.places.is_empty() {
        page.heading("Where the time of the requests went");
        page.table(2, &places(joined));
    }
}

/// Returns sentences on the places where the requests' time went, the delays and losses of both
/// directions, and the relation of the clocks.
pub(super) fn in_lines(report: &Report) -> Vec<String> {
    let Some(joined) = &report.joined else {
        return Vec::new();
    };
    let places = joined.places.iter().map(|place| {
        let share = quantity::share(place.share);
        format!("{} {share}", spaced(&place.place))
    });
    let places = places.collect::<Vec<_>>().join(", ");
    let ways = joined.ways.iter().map(|way| {
        let (p50, lost) = (
            quantity::duration(way.delay_ns.p50),
            quantity::count(way.lost),
        );
        format!("{} {p50} (p50), {lost} lost", spaced(&way.direction))
    });
    let ways = ways.collect::<Vec<_>>().join("; ");
    vec![
        format!("Between the two captures: {places}."),
        format!("Ways: {ways}."),
        clock(&joined.clock),
    ]
}

fn what(joined: &Joined) -> String {
    let translated = match joined.translated {
        0 => String::new(),
        some => format!(" ({} through address translation)", quantity::count(some)),
    };
    let partial = if joined.is_partial {
        " Only the first packets of both were compared."
    } else {
        ""
    };
    format!(
        "{} at the client and {} at the server contain the same {}{translated}, {} of them. The \
         diagnosis is based on what the client saw.{partial}",
        joined.client_capture,
        joined.server_capture,
        quantity::counted(joined.connections, "connection", "connections"),
        quantity::counted(joined.packets, "packet", "packets"),
    )
}

fn clock(clock: &ClockRelation) -> String {
    let offset = match clock.offset_ns {
        ns if ns >= 0 => format!("{} ahead of", quantity::duration(ns.unsigned_abs())),
        ns => format!("{} behind", quantity::duration(ns.unsigned_abs())),
    };
    let error = quantity::duration(clock.offset_error_ns);
    let ppm = |ppb: f64| format!("{:.2} ppm", ppb / 1e3);
    let drift = match (clock.drift_ppb, clock.drift_error_ppb) {
        (_, None) => "they are too short to measure the drift".to_owned(),
        (0, Some(error)) => format!("no drift beyond ±{}", ppm(error as f64)),
        (drift, Some(error)) => {
            format!("gaining {} (±{})", ppm(drift as f64), ppm(error as f64))
        }
    };
    format!("The server's clock is {offset} the client's (±{error}); {drift}.")
}

fn ways(ways: &[Way]) -> Table {
    let mut table = Table::new(&[
        (Align::Left, "way"),
        (Align::Right, "packets"),
        (Align::Right, "least"),
        (Align::Right, "p50"),
        (Align::Right, "p99"),
        (Align::Right, "most"),
        (Align::Right, "lost"),
        (Align::Right, "needlessly retransmitted"),
        (Align::Right, "ACKs lost"),
    ]);
    for way in ways {
        let delay = &way.delay_ns;
        table.row(vec![
            plain(spaced(&way.direction)),
            plain(quantity::count(delay.count)),
            plain(quantity::duration(delay.min)),
            plain(quantity::duration(delay.p50)),
            plain(quantity::duration(delay.p99)),
            plain(quantity::duration(delay.max)),
            plain(quantity::count(way.lost)),
            plain(quantity::count(way.needless)),
            plain(quantity::count(way.acks_lost)),
        ]);
    }
    table
}

fn places(joined: &Joined) -> Table {
    let mut table = Table::new(&[
        (Align::Left, "place"),
        (Align::Right, "time"),
        (Align::Right, "share"),
        (Align::Bar(BAR), ""),
        (Align::Left, ""),
    ]);
    for place in &joined.places {
        let loss = match place.loss_ns {
            0 => String::new(),
            ns => format!("{} of it to repair losses", quantity::duration(ns)),
        };
        table.row(vec![
            plain(spaced(&place.place)),
            plain(quantity::duration(place.total_ns)),
            plain(quantity::share(place.share)),
            (Tone::Plain, Content::Share(place.share)),
            plain(loss),
        ]);
    }
    table
}

/// Replaces hyphens by spaces: `client to server` for `client-to-server`.
fn spaced(name: &str) -> String {
    name.replace('-', " ")
}
