//! The packets of a request between client and server, with the marked wait shaded: those around
//! the wait, the first and the last ones. The page's script shows all of them.

mod layout;

use lagtrace_core::report::LadderPacket;

use self::layout::{Cut, Layout};
use super::example::{Example, Marked};
use super::request;
use super::shares::{owner_class, percent};
use super::writer::Html;
use crate::render::{quantity, words};

/// The lines of client and server, as parts of the width; the times are left of them.
const CLIENT: f64 = 0.19;
const SERVER: f64 = 0.985;
/// How far an arrow falls: it shows the direction, not the time on the path.
const FALL: f64 = 6.0;
/// Height in which the time of the marked wait stands below its name.
const ROOM_FOR_TIME: f64 = 48.0;

/// Writes the ladder of an example; nothing if its packets were not read.
pub(super) fn write(html: &mut Html, example: &Example<'_>) {
    let Some(ladder) = example.packets else {
        return;
    };
    let layout = Layout::of(ladder, example.marked);
    html.element("figure", &[("class", "rungs")], |html| {
        html.element("figcaption", &[], |html| {
            html.leaf("strong", &[], "Its packets");
            html.text(&format!(" {} → {}", ladder.client, ladder.server));
        });
        let said = said(&layout, example.marked);
        let height = format!("{:.0}", layout.height + FALL);
        let attributes = [
            ("width", "100%"),
            ("height", &*height),
            ("role", "img"),
            ("aria-label", &*said),
        ];
        html.element("svg", &attributes, |html| {
            if let Some(marked) = example.marked {
                shade(html, &layout, marked);
            }
            lines(html, layout.height);
            for &(y, ns) in &layout.silences {
                let passed = format!("⋮ {}", quantity::duration(ns));
                text(html, "silence", CLIENT - 0.015, y + 4.0, &passed);
            }
            for &(packet, y) in &layout.packets {
                arrow(html, packet, y);
            }
            for cut in &layout.cuts {
                text(html, "cut", middle(), cut.y + 4.0, &cut_words(cut));
            }
            if let Some(marked) = example.marked {
                name(html, &layout, marked);
            }
        });
    });
}

fn middle() -> f64 {
    f64::midpoint(CLIENT, SERVER)
}

/// Returns the ladder for those who do not see it.
fn said(layout: &Layout<'_>, marked: Option<Marked>) -> String {
    let packets = layout.packets.iter().map(|(packet, _)| {
        let from = if packet.from_client {
            "client"
        } else {
            "server"
        };
        format!("{} ms {from} sends {}", millis(packet.at_ns), label(packet))
    });
    let packets: Vec<String> = packets.collect();
    let marked = marked.map_or_else(String::new, |marked| {
        format!("Marked: {}. ", marked_words(marked))
    });
    format!("{marked}{}.", packets.join("; "))
}

fn marked_words(marked: Marked) -> String {
    let took = quantity::duration(marked.took_ns());
    format!(
        "{} {}, {took}",
        words::owner(marked.owner),
        request::what(marked)
    )
}

fn cut_words(cut: &Cut) -> String {
    let packets = quantity::counted(cut.packets, "more packet", "more packets");
    format!("… {packets} …")
}

/// Writes text at a place: horizontally as a part of the width, vertically in pixels.
fn text(html: &mut Html, class: &'static str, x: f64, y: f64, said: &str) {
    let (x, y) = (percent(x), format!("{y:.1}"));
    let place = [("class", class), ("x", &*x), ("y", &*y)];
    html.leaf("text", &place, said);
}

fn shade(html: &mut Html, layout: &Layout<'_>, marked: Marked) {
    let (top, bottom) = layout.extent(marked);
    let (x, width) = (percent(CLIENT), percent(SERVER - CLIENT));
    let (y, height) = (format!("{top:.1}"), format!("{:.1}", bottom - top));
    let found = if marked.is_found { "found" } else { "longest" };
    let class = format!("{} gap {found}", owner_class(marked.owner));
    let place = [
        ("class", &*class),
        ("x", &*x),
        ("y", &*y),
        ("width", &*width),
        ("height", &*height),
    ];
    html.element("rect", &place, |_| {});
}

/// Writes the name of the marked wait in the widest space between its packets, and below it its
/// time, if there is room.
fn name(html: &mut Html, layout: &Layout<'_>, marked: Marked) {
    let (y, space) = layout.widest(marked);
    let y = y + FALL;
    let took = quantity::duration(marked.took_ns());
    if space < ROOM_FOR_TIME {
        return text(html, "gap-name", middle(), y, request::what(marked));
    }
    text(html, "gap-name", middle(), y - 5.0, request::what(marked));
    text(html, "gap-name", middle(), y + 11.0, &took);
}

fn lines(html: &mut Html, height: f64) {
    text(html, "unit", CLIENT - 0.015, 14.0, "ms");
    let height = format!("{height:.0}");
    for (end, x, class) in [("client", CLIENT, "end"), ("server", SERVER, "end right")] {
        text(html, class, x, 14.0, end);
        let x = percent(x);
        let place = [
            ("class", "lifeline"),
            ("x1", &*x),
            ("x2", &*x),
            ("y1", "20"),
            ("y2", &*height),
        ];
        html.element("line", &place, |_| {});
    }
}

fn arrow(html: &mut Html, packet: &LadderPacket, y: f64) {
    let kind = if packet.is_retransmission {
        "packet resent"
    } else {
        "packet sent"
    };
    let (from, to, head) = if packet.from_client {
        (CLIENT, SERVER, "M0 0L-8 -4V3Z")
    } else {
        (SERVER, CLIENT, "M0 0L8 -4V3Z")
    };
    html.element("g", &[("class", kind)], |html| {
        let title = format!("packet {}, flags {}", packet.number, packet.flags);
        html.leaf("title", &[], &title);
        text(html, "time", CLIENT - 0.015, y + 4.0, &millis(packet.at_ns));
        let (from, to) = (percent(from), percent(to));
        let (y1, y2) = (format!("{y:.1}"), format!("{:.1}", y + FALL));
        let place = [("x1", &*from), ("x2", &*to), ("y1", &*y1), ("y2", &*y2)];
        html.element("line", &place, |_| {});
        // A picture of its own, so that the head keeps its size in a wider picture.
        let place = [("class", "tip"), ("x", &*to), ("y", &*y2)];
        html.element("svg", &place, |html| {
            html.element("path", &[("d", head)], |_| {});
        });
        text(html, "packet-label", middle(), y - 1.0, &label(packet));
    });
}

/// Returns what a packet carries: `#12 93 B`, `#13 ACK`.
fn label(packet: &LadderPacket) -> String {
    let mut parts = vec![format!("#{}", packet.number)];
    if packet.bytes > 0 {
        parts.push(quantity::bytes(packet.bytes));
    }
    let has = |flag| packet.flags.contains(flag);
    for (flag, name) in [('S', "SYN"), ('F', "FIN"), ('R', "RST")] {
        if has(flag) {
            parts.push(name.to_owned());
        }
    }
    if has('.') && (packet.bytes == 0 && !has('R')) {
        parts.push("ACK".to_owned());
    }
    if packet.is_retransmission {
        parts.push("again".to_owned());
    }
    parts.join(" ")
}

fn millis(ns: i64) -> String {
    format!("{:.3}", ns as f64 / 1e6).replace('-', "−")
}
