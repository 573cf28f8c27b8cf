//! One request as a bar of its waits, in the order in which they passed.

use lagtrace_core::exchange::wait::Owner;
use lagtrace_core::report::{Exemplar, WaitSpan};

use super::example::{Example, Marked, signed};
use super::shares::{ROOM_FOR_LETTER, ROOM_FOR_NAME, letter, owner_class, percent};
use super::writer::Html;
use crate::render::{ladder, quantity, words};

/// Maximum number of waits that are drawn, the longest ones; the place of others is empty.
const MOST: usize = 64;

/// A part of the bar: the setup, or a wait.
struct Part {
    from_ns: i64,
    duration_ns: u64,
    /// `None` for the setup.
    owner: Option<Owner>,
    name: &'static str,
    is_marked: bool,
}

/// Writes the bar with its legend.
pub(super) fn write(html: &mut Html, example: &Example<'_>, title: &str) {
    let parts = parts(example);
    html.element("figure", &[("class", "request")], |html| {
        html.element("figcaption", &[], |html| caption(html, example, title));
        bar(html, &parts, example.whole_ns());
        legend(html, &parts);
        if let Some(line) = ladder::at_host(example.request) {
            html.classed("p", "muted", &line);
        }
    });
}

fn caption(html: &mut Html, example: &Example<'_>, title: &str) {
    let request = example.request;
    html.leaf("strong", &[], title);
    html.text(" ");
    html.text(&named(request));
    html.text(" ");
    let value = request.latency_ns.to_string();
    let took = quantity::duration(request.latency_ns);
    html.leaf("strong", &[("data-ns", &value)], &took);
    if example.setup_ns > 0 {
        let setup = quantity::duration(example.setup_ns);
        html.text(&format!(", after {setup} of connection setup"));
    }
    if let (Some(first), Some(last)) = (request.first_packet, request.last_packet) {
        html.text(" ");
        let packets = format!("packets {first} to {last}");
        html.classed("span", "muted", &packets);
    }
}

/// Returns the request and its outcome: `GET / → 200`.
fn named(request: &Exemplar) -> String {
    let parts = [request.request.as_str(), request.outcome.as_str()];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" → ")
}

fn parts(example: &Example<'_>) -> Vec<Part> {
    let marked = example.marked;
    let setup = (example.setup_ns > 0).then(|| Part {
        from_ns: -signed(example.setup_ns),
        duration_ns: example.setup_ns,
        owner: None,
        name: "connection setup",
        is_marked: marked.is_some_and(|marked| marked.kind.is_none() && marked.is_found),
    });
    let mut from_ns = 0_i64;
    let waits = example.request.waits.iter().map(|wait| {
        let part = part(wait, from_ns, example);
        from_ns = from_ns.saturating_add(signed(wait.duration_ns));
        part
    });
    let least_ns = least(&example.request.waits);
    let waits = waits.filter(|part| part.duration_ns > least_ns);
    setup.into_iter().chain(waits).collect()
}

/// Returns the time that a wait must exceed to be drawn: not 0 if there are too many.
fn least(waits: &[WaitSpan]) -> u64 {
    let mut lengths: Vec<u64> = waits.iter().map(|wait| wait.duration_ns).collect();
    lengths.sort_unstable_by(|one, other| other.cmp(one));
    lengths.get(MOST).copied().unwrap_or_default()
}

fn part(wait: &WaitSpan, from_ns: i64, example: &Example<'_>) -> Part {
    let to_ns = from_ns.saturating_add(signed(wait.duration_ns));
    let is_it = |marked: Marked| {
        let is_within = marked.from_ns < to_ns && marked.to_ns > from_ns;
        marked.is_found && marked.kind == Some(wait.kind) && is_within
    };
    Part {
        from_ns,
        duration_ns: wait.duration_ns,
        owner: Some(wait.owner),
        name: words::wait(wait.kind),
        is_marked: example.kinds.contains(&wait.kind) || example.marked.is_some_and(is_it),
    }
}

fn bar(html: &mut Html, parts: &[Part], whole_ns: u64) {
    let said: Vec<String> = parts.iter().map(Part::said).collect();
    let said = format!("In time order: {}.", said.join("; "));
    let attributes = [("class", "bar"), ("role", "img"), ("aria-label", &*said)];
    let start = parts.first().map_or(0, |part| part.from_ns);
    let share = |ns: f64| ns / whole_ns.max(1) as f64;
    html.element("svg", &attributes, |html| {
        for part in parts {
            let at = share(part.from_ns.saturating_sub(start) as f64);
            piece(html, part, at, share(part.duration_ns as f64));
        }
    });
}

/// Writes a piece of the bar: a picture of its own, which cuts a name that does not fit.
fn piece(html: &mut Html, part: &Part, at: f64, share: f64) {
    let (x, width) = (percent(at), percent(share));
    let class = part.class();
    let place = [("x", &*x), ("width", &*width), ("class", &*class)];
    let whole = [("width", "100%"), ("height", "100%")];
    html.element("svg", &place, |html| {
        html.element("rect", &whole, |html| html.leaf("title", &[], &part.said()));
        let place = [("x", "0.5em"), ("y", "50%"), ("dy", "0.35em")];
        let letter = part.owner.map_or("", letter);
        if share >= ROOM_FOR_NAME {
            html.leaf("text", &place, &format!("{letter} {}", part.name));
        } else if share >= ROOM_FOR_LETTER {
            html.leaf("text", &place, letter);
        }
    });
}

impl Part {
    fn class(&self) -> String {
        let owner = self.owner.map_or("owner-none", owner_class);
        let marked = if self.is_marked { " marked" } else { "" };
        format!("{owner}{marked}")
    }

    fn said(&self) -> String {
        let owner = self.owner.map_or("", words::owner);
        let took = quantity::duration(self.duration_ns);
        format!("{owner} {} {took}", self.name).trim().to_owned()
    }
}

/// Writes each kind of wait with its owner and its time in this request, in the order of their first
/// part.
fn legend(html: &mut Html, parts: &[Part]) {
    let mut sums: Vec<(&Part, u64, bool)> = Vec::new();
    for part in parts {
        let is_it = |(other, ..): &&mut (&Part, u64, bool)| {
            (other.owner, other.name) == (part.owner, part.name)
        };
        match sums.iter_mut().find(is_it) {
            Some((_, sum, is_marked)) => {
                *sum = sum.saturating_add(part.duration_ns);
                *is_marked |= part.is_marked;
            }
            None => sums.push((part, part.duration_ns, part.is_marked)),
        }
    }
    html.element("ul", &[("class", "legend")], |html| {
        for (part, sum, is_marked) in sums {
            let owner = part.owner.map_or("owner-none", owner_class);
            html.element("li", &[("class", owner)], |html| {
                let letter = part.owner.map_or("", letter);
                let attributes = [("class", "letter"), ("aria-hidden", "true")];
                html.leaf("span", &attributes, letter);
                let owner = part.owner.map(|owner| format!("{}: ", words::owner(owner)));
                html.text(&format!(" {}{} ", owner.unwrap_or_default(), part.name));
                let tag = if is_marked { "strong" } else { "span" };
                html.leaf(tag, &[], &quantity::duration(sum));
                if is_marked {
                    html.text(" ");
                    html.classed("span", "bad", "✗");
                }
            });
        }
    });
}

/// Returns the words for the marked wait: `response held for an ACK (Nagle)`.
pub(super) fn what(marked: Marked) -> &'static str {
    marked.kind.map_or("connection setup", words::wait)
}
