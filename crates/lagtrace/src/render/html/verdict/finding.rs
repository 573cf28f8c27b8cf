//! A finding: what was found, the request that shows it, what to change, and what to expect.

use lagtrace_core::report::{Finding, Fix, Picture, Report};

use super::{Shown, certainty_class, proof};
use crate::render::html::blocks::class;
use crate::render::html::example::Example;
use crate::render::html::shares::owner_class;
use crate::render::html::writer::Html;
use crate::render::html::{request, rungs};
use crate::render::page::Tone;
use crate::render::{finding as text, healthy, quantity, verdict, words};

/// Writes the first finding, which the section is about. `measured` writes the figures of all
/// requests.
pub(super) fn first(
    html: &mut Html,
    shown: &Shown<'_>,
    report: &Report,
    picture: Option<&Picture>,
    measured: impl FnOnce(&mut Html),
) {
    let finding = shown.finding;
    let classes = classes(finding);
    let attributes = [("class", &*classes), ("id", "finding-1")];
    html.element("article", &attributes, |html| {
        html.element("h2", &[("id", "verdict-title")], |html| {
            headline(html, finding);
        });
        cost(html, finding, report);
        if report.accusations().next().is_none() {
            let (tone, text) = healthy::opening(report);
            html.said("p", class(tone), &text);
        }
        measured(html);
        body(html, shown, report, picture);
    });
}

/// Writes another finding, folded.
pub(super) fn other(
    html: &mut Html,
    number: usize,
    shown: &Shown<'_>,
    report: &Report,
    picture: Option<&Picture>,
) {
    let finding = shown.finding;
    let id = format!("finding-{number}");
    let classes = classes(finding);
    let attributes = [("class", &*classes), ("id", &*id)];
    html.element("details", &attributes, |html| {
        html.element("summary", &[], |html| {
            html.element("h3", &[], |html| headline(html, finding));
            cost(html, finding, report);
        });
        body(html, shown, report, picture);
    });
}

fn classes(finding: &Finding) -> String {
    let certainty = certainty_class(finding);
    format!("finding {certainty} {}", owner_class(finding.culprit))
}

/// Writes the request and its packets beside what to change, then the proof, folded.
fn body(html: &mut Html, shown: &Shown<'_>, report: &Report, picture: Option<&Picture>) {
    let finding = shown.finding;
    let example = Example::of(finding, picture);
    if let Some(example) = &example {
        request::write(html, example, "One request:");
    }
    html.element("div", &[("class", "beside")], |html| {
        if let Some(example) = &example {
            rungs::write(html, example);
        }
        html.element("div", &[("class", "act")], |html| {
            changes(html, "What to change", &finding.fix);
            changes(html, "What to measure next", &finding.next);
            expectation(html, finding, report);
            why(html, finding, shown.others.as_deref());
        });
    });
    proof::write(html, finding, report);
}

fn headline(html: &mut Html, finding: &Finding) {
    let (word, tone) = if finding.locates {
        ("Cause unknown:", Tone::Caution)
    } else {
        verdict::sureness(finding)
    };
    html.classed("span", &format!("verdict {}", class(tone)), word);
    html.text(" ");
    html.prose(&words::sentence(&verdict::gist(finding)));
}

/// Writes what the finding costs, or how much it affects.
fn cost(html: &mut Html, finding: &Finding, report: &Report) {
    if let Some(cost) = verdict::whole_cost(finding, report) {
        html.said("p", "cost", &cost);
    } else if finding.affected.of > 0 {
        let [_, many] = finding.unit.words();
        let (some, of) = (finding.affected.exchanges, finding.affected.of);
        let (some, of) = (quantity::count(some), quantity::count(of));
        html.classed("p", "cost", &format!("{some} of {of} {many} affected."));
    }
}

/// Writes how the finding comes about, and who is responsible.
fn why(html: &mut Html, finding: &Finding, others: Option<&str>) {
    html.leaf("h3", &[], "Why");
    html.said("p", "why", &finding.summary);
    if let Some(others) = others {
        html.said("p", "others", others);
    }
    if !finding.locates {
        html.said("p", "culprit muted", &verdict::responsible(finding));
    }
}

/// Writes a duration with its value in the report.
fn duration(html: &mut Html, ns: u64) {
    let value = ns.to_string();
    html.leaf("span", &[("data-ns", &value)], &quantity::duration(ns));
}

/// Writes changes or measurements, the best first.
fn changes(html: &mut Html, title: &str, changes: &[Fix]) {
    if changes.is_empty() {
        return;
    }
    html.leaf("h3", &[], title);
    html.element("ol", &[("class", "fix")], |html| {
        for change in changes {
            html.element("li", &[], |html| {
                html.classed("strong", "where", &format!("{}:", change.r#where));
                html.text(" ");
                html.prose(&change.change);
            });
        }
    });
}

/// Writes the latency to expect after the change.
fn expectation(html: &mut Html, finding: &Finding, report: &Report) {
    let Some(prediction) = &finding.predicted else {
        return;
    };
    html.leaf("h3", &[], "What to expect afterwards");
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
    let said = text::conditions(prediction, finding, report);
    html.said("p", "expect muted", &said);
}
