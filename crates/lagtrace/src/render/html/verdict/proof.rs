//! Why a finding is believed: its evidence, what was ruled out, and what would refute it.

use lagtrace_core::report::{Candidate, Evidence, Finding, Report};

use super::folded;
use crate::render::html::blocks::class;
use crate::render::html::writer::Html;
use crate::render::{finding as text, words};

/// Writes the proof, folded.
pub(super) fn write(html: &mut Html, finding: &Finding, report: &Report) {
    folded(html, "proof", &title(finding), |html| {
        html.element("div", &[("class", "proof")], |html| {
            html.element("div", &[], |html| evidence(html, finding, report));
            html.element("div", &[], |html| doubts(html, finding));
        });
    });
}

/// Returns what the proof consists of.
fn title(finding: &Finding) -> String {
    let counted = |count: usize, what: &str| (count > 0).then(|| format!("{what} ({count})"));
    let parts = [
        counted(finding.evidence.len(), "evidence"),
        counted(finding.ruled_out.len(), "ruled out"),
        counted(finding.candidates.len(), "possible causes"),
        (!finding.overturned_by.is_empty()).then(|| "what would refute this".to_owned()),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        "More on this".to_owned()
    } else {
        words::capitalized(&words::list(&parts))
    }
}

fn evidence(html: &mut Html, finding: &Finding, report: &Report) {
    if !finding.evidence.is_empty() {
        html.leaf("h4", &[], "Evidence");
        html.element("ul", &[("class", "evidence")], |html| {
            for piece in &finding.evidence {
                html.element("li", &[], |html| self::piece(html, piece, finding.locates));
            }
        });
    }
    if finding.locates
        && let Some(place) = text::whereabouts(finding)
    {
        html.said("p", "place", &place);
    }
    for (tone, line) in text::not_for(&finding.witnesses) {
        html.said("p", class(tone), &line);
    }
    wireshark(html, finding, report);
}

/// Writes the display filter, or how to keep the packets to which it would refer.
fn wireshark(html: &mut Html, finding: &Finding, report: &Report) {
    let is_kept = report.keeps_packets();
    let keep = (!is_kept).then(|| way_to_keep(report)).flatten();
    if keep.is_none() && (!is_kept || finding.display_filter.is_none()) {
        return;
    }
    html.leaf("h4", &[], "To see it in Wireshark");
    match (keep, &finding.display_filter) {
        (Some(keep), _) => html.said("p", "keep", keep),
        (None, Some(filter)) => {
            html.element("p", &[], |html| html.classed("code", "filter", filter));
        }
        (None, None) => {}
    }
}

/// Returns how to keep the packets of a run that did not; `None` if it saw none.
fn way_to_keep(report: &Report) -> Option<&'static str> {
    match report.command.as_str() {
        "watch" => Some("`lagtrace capture -w FILE` keeps the packets while this happens."),
        _ if report.capture.is_some() => Some("Run it again with `-w FILE` to keep the packets."),
        _ => None,
    }
}

fn piece(html: &mut Html, piece: &Evidence, locates: bool) {
    let said = words::sentence(&piece.text);
    if locates {
        html.prose(&words::capitalized(&said));
    } else {
        html.leaf("strong", &[], &text::label(piece));
        html.text(" ");
        html.prose(&said);
    }
    let reference = text::reference(piece);
    if !reference.is_empty() {
        html.text(" ");
        html.classed("span", "reference muted", &reference);
    }
}

/// Writes what was ruled out, what else may be the cause, and what would refute the finding.
fn doubts(html: &mut Html, finding: &Finding) {
    let ruled_out = finding.ruled_out.iter();
    let ruled_out = ruled_out.map(|one| (one.cause.to_string(), words::sentence(&one.because)));
    causes(html, "Ruled out", "ruled-out", ruled_out);
    let candidates = finding.candidates.iter();
    let candidates = candidates.map(|one: &Candidate| (one.cause.to_string(), text::to_check(one)));
    let title = "Possible causes, and how to check them";
    causes(html, title, "candidates", candidates);
    if !finding.overturned_by.is_empty() {
        html.leaf("h4", &[], "What would refute this");
        html.said("p", "refute", &words::sentence(&finding.overturned_by));
    }
    if !finding.locates {
        html.element("p", &[("class", "muted")], |html| {
            html.text("More on this cause: ");
            html.leaf("code", &[], &format!("lagtrace explain {}", finding.cause));
        });
    }
}

fn causes(
    html: &mut Html,
    title: &str,
    class: &str,
    causes: impl ExactSizeIterator<Item = (String, String)>,
) {
    if causes.len() == 0 {
        return;
    }
    html.leaf("h4", &[], title);
    html.element("ul", &[("class", class)], |html| {
        for (cause, because) in causes {
            html.element("li", &[], |html| {
                html.leaf("strong", &[], &format!("{cause}:"));
                html.text(" ");
                html.prose(&because);
            });
        }
    });
}
