//! A finding: what was found, who is responsible, the cost, the evidence, the change, and what
//! would refute it.

use lagtrace_core::report::{Candidate, Evidence, Finding, Fix, Report};

use crate::render::html::blocks::class;
use crate::render::html::writer::Html;
use crate::render::page::Tone;
use crate::render::{finding as text, quantity, verdict, words};

/// Writes a finding; `others` names the other servers where it was found. What to do comes first,
/// why this is believed second; a wide screen shows them beside each other.
pub(super) fn write(html: &mut Html, finding: &Finding, others: Option<&str>, report: &Report) {
    headline(html, finding);
    html.element("div", &[("class", "act")], |html| {
        cost(html, finding, others, report);
        changes(html, "What to change", &finding.fix);
        expectation(html, finding, report);
        changes(html, "What to measure next", &finding.next);
    });
    html.element("div", &[("class", "proof")], |html| {
        evidence(html, finding);
        doubts(html, finding);
    });
}

/// Writes what the finding costs, who is responsible, and how it comes about.
fn cost(html: &mut Html, finding: &Finding, others: Option<&str>, report: &Report) {
    if let Some(cost) = verdict::whole_cost(finding, report) {
        html.element("p", &[("class", "cost")], |html| {
            html.text(&cost);
            if finding.cost_ns > 0 {
                html.text(" In total ");
                duration(html, finding.cost_ns);
                html.text(".");
            }
        });
    } else if finding.affected.of > 0 {
        let [_, many] = finding.unit.words();
        let (some, of) = (finding.affected.exchanges, finding.affected.of);
        let (some, of) = (quantity::count(some), quantity::count(of));
        html.classed("p", "cost", &format!("{some} of {of} {many} affected."));
    }
    for line in others.into_iter().chain(Some(&*finding.summary)) {
        if !line.is_empty() {
            html.leaf("p", &[], line);
        }
    }
    if !finding.locates {
        html.classed("p", "culprit muted", &verdict::responsible(finding));
    }
}

fn headline(html: &mut Html, finding: &Finding) {
    let (word, tone) = if finding.locates {
        ("Cause unknown:", Tone::Caution)
    } else {
        verdict::sureness(finding)
    };
    html.element("h3", &[], |html| {
        html.classed("span", &format!("verdict {}", class(tone)), word);
        html.text(" ");
        html.text(&verdict::title(finding));
    });
}

/// Writes a duration with its value in the report.
fn duration(html: &mut Html, ns: u64) {
    let value = ns.to_string();
    html.leaf("span", &[("data-ns", &value)], &quantity::duration(ns));
}

fn evidence(html: &mut Html, finding: &Finding) {
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
        html.leaf("p", &[], &place);
    }
    for (tone, line) in text::not_for(&finding.witnesses) {
        html.classed("p", class(tone), &line);
    }
    if let Some(filter) = &finding.display_filter {
        html.leaf("h4", &[], "To see it in Wireshark");
        html.element("p", &[], |html| html.classed("code", "filter", filter));
    }
}

fn piece(html: &mut Html, piece: &Evidence, locates: bool) {
    let said = words::sentence(&piece.text);
    if locates {
        html.text(&words::capitalized(&said));
    } else {
        html.leaf("strong", &[], &text::label(piece));
        html.text(" ");
        html.text(&said);
    }
    let reference = text::reference(piece);
    if !reference.is_empty() {
        html.text(" ");
        html.classed("span", "reference muted", &reference);
    }
    if let Some(filter) = &piece.display_filter {
        html.element("div", &[("class", "muted")], |html| {
            html.text("Wireshark filter: ");
            html.classed("code", "filter", filter);
        });
    }
}

/// Writes changes or measurements, the best first.
fn changes(html: &mut Html, title: &str, changes: &[Fix]) {
    if changes.is_empty() {
        return;
    }
    html.leaf("h4", &[], title);
    html.element("ol", &[("class", "fix")], |html| {
        for change in changes {
            html.element("li", &[], |html| {
                html.classed("strong", "where", &format!("{}:", change.r#where));
                html.text(" ");
                html.text(&change.change);
            });
        }
    });
}

/// Writes the latency to expect after the change.
fn expectation(html: &mut Html, finding: &Finding, report: &Report) {
    let Some(prediction) = &finding.predicted else {
        return;
    };
    html.leaf("h4", &[], "What to expect afterwards");
    html.element("dl", &[("class", "figures")], |html| {
        let (then, now) = (&prediction.latency_ns, prediction.measured_ns.as_ref());
        for (name, now, then) in [
            ("p50", now.map(|now| now.p50), then.p50),
            ("p99", now.map(|now| now.p99), then.p99),
        ] {
            html.element("div", &[], |html| {
                html.leaf("dt", &[], name);
                html.element("dd", &[], |html| {
                    if let Some(now) = now {
                        duration(html, now);
                        html.text(" → ");
                    }
                    duration(html, then);
                });
            });
        }
    });
    let said = text::expectation(prediction, finding, report);
    html.classed("p", "expect", &said);
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
        html.leaf("p", &[], &words::sentence(&finding.overturned_by));
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
                html.text(&because);
            });
        }
    });
}
