//! Bars of shares of time, by owner and kind of wait.

use lagtrace_core::exchange::wait::Owner;
use lagtrace_core::report::WaitShare;

use super::writer::Html;
use crate::render::{quantity, waits, words};

/// Minimum share of a wait whose owner's letter is written into a bar.
pub(super) const ROOM_FOR_LETTER: f64 = 0.03;

/// Minimum share of a wait that is named there; what does not fit is cut.
pub(super) const ROOM_FOR_NAME: f64 = 0.12;

/// Writes the owners that occur, with their letters.
pub(super) fn legend<'a>(html: &mut Html, waits: impl Iterator<Item = &'a WaitShare>) {
    let mut owners: Vec<Owner> = Vec::new();
    for wait in waits {
        if wait.total_ns > 0 && !owners.contains(&wait.owner) {
            owners.push(wait.owner);
        }
    }
    owners.sort_unstable();
    html.element("ul", &[("class", "legend")], |html| {
        for owner in owners {
            html.element("li", &[("class", owner_class(owner))], |html| {
                html.leaf(
                    "span",
                    &[("class", "letter"), ("aria-hidden", "true")],
                    letter(owner),
                );
                html.text(" ");
                html.text(words::owner(owner));
            });
        }
    });
}

/// Returns the class of an owner.
pub(super) fn owner_class(owner: Owner) -> &'static str {
    match owner {
        Owner::Client => "owner-client",
        Owner::Server => "owner-server",
        Owner::Path => "owner-path",
        Owner::Resolver => "owner-resolver",
        Owner::Proxy => "owner-proxy",
        Owner::Unknown => "owner-unknown",
    }
}

/// Returns the letter of an owner, so that no meaning is in the colour alone.
pub(super) fn letter(owner: Owner) -> &'static str {
    match owner {
        Owner::Client => "C",
        Owner::Server => "S",
        Owner::Path => "P",
        Owner::Resolver => "N",
        Owner::Proxy => "X",
        Owner::Unknown => "?",
    }
}

/// A bar among others on the same scale.
#[derive(Clone, Copy)]
pub(super) struct Length {
    /// The time that the bar stands for; `None` if it is not known, so that the bar is as long as
    /// can be.
    pub(super) ns: Option<u64>,
    /// The time of the longest bar.
    pub(super) longest_ns: u64,
}

impl Length {
    fn part(self) -> f64 {
        let part = |ns: u64| ns as f64 / self.longest_ns.max(1) as f64;
        self.ns.map_or(1.0, part)
    }
}

/// Writes a bar of the shares, by owner and then by kind, each with the letter of its owner. Places
/// are in percent, so that the bar fits any width without distorting its letters.
pub(super) fn bar(html: &mut Html, waits: &[WaitShare], length: Length) {
    let said = said(waits);
    let attributes = [("class", "bar"), ("role", "img"), ("aria-label", &*said)];
    let part = length.part();
    html.element("svg", &attributes, |html| {
        let mut at = 0.0;
        for (owner, parts) in waits::owners(waits) {
            html.element("g", &[("class", owner_class(owner))], |html| {
                for wait in parts {
                    piece(html, at * part, wait.share * part, wait);
                    at += wait.share;
                }
            });
        }
    });
}

/// Writes the piece of a wait. It is a picture of its own, which cuts a name that does not fit.
fn piece(html: &mut Html, at: f64, share: f64, wait: &WaitShare) {
    let (x, width) = (percent(at), percent(share));
    let place = [("x", &*x), ("width", &*width), ("height", "100%")];
    html.element("svg", &place, |html| {
        let whole = [("width", "100%"), ("height", "100%")];
        let (owner, kind) = (words::owner(wait.owner), words::wait(wait.kind));
        html.element("rect", &whole, |html| {
            let share = quantity::share(wait.share);
            html.leaf("title", &[], &format!("{owner}, {kind}: {share}"));
        });
        let place = [("x", "0.5em"), ("y", "50%"), ("dy", "0.35em")];
        let letter = letter(wait.owner);
        if share >= ROOM_FOR_NAME {
            html.leaf("text", &place, &format!("{letter} {kind}"));
        } else if share >= ROOM_FOR_LETTER {
            html.leaf("text", &place, letter);
        }
    });
}

/// Returns a part of a width.
pub(super) fn percent(part: f64) -> String {
    format!("{:.3}%", part.clamp(0.0, 1.0) * 100.0)
}

/// Returns the owners and their shares as a sentence for those who do not see the bar.
fn said(waits: &[WaitShare]) -> String {
    let owners = waits::owners(waits).into_iter().map(|(owner, parts)| {
        let whole = parts.iter().map(|wait| wait.share).sum();
        format!("{} {}", words::owner(owner), quantity::share(whole))
    });
    owners.collect::<Vec<_>>().join(", ")
}
