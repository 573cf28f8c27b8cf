//! The verdict of a diagnosis: everything that a person needs to act, without a script.

use lagtrace_core::exchange::wait::Owner;
use lagtrace_core::report::{Finding, Layer, LayerState, Remark, Report, Verdict};

mod finding;

use super::blocks::{class, phrase};
use super::writer::Html;
use crate::render::page::Tone;
use crate::render::percentiles::{ROWS, value};
use crate::render::{capture, experiments, groups, healthy, layers, quantity, words};

/// Writes the verdict section of a report.
pub(super) fn write(html: &mut Html, report: &Report) {
    let section = [("id", "verdict"), ("aria-labelledby", "verdict-title")];
    html.element("section", &section, |html| {
        html.leaf("h2", &[("id", "verdict-title")], "Verdict");
        result(html, report);
        measured(html, report);
        findings(html, report);
        strip(html, &report.layers);
        besides(html, report);
        notes(html, &report.notes);
    });
}

/// Writes the overall result: the number of causes, or the words for a report without one.
fn result(html: &mut Html, report: &Report) {
    let (tone, text) = match groups::groups(report).len() as u64 {
        0 => {
            let (tone, text) = healthy::opening(report);
            (tone, text.to_owned())
        }
        count => (
            Tone::Bad,
            format!("{} found.", quantity::counted(count, "cause", "causes")),
        ),
    };
    html.element("p", &[("class", "result")], |html| {
        phrase(html, tone, &text)
    });
}

/// Writes how many requests there were, and their percentiles.
fn measured(html: &mut Html, report: &Report) {
    let exchanges = &report.exchanges;
    if let Some(line) = healthy::counted(exchanges) {
        html.leaf("p", &[], &line);
    }
    let figures = &exchanges.latency_ns;
    let rows = ROWS
        .iter()
        .filter_map(|&row| Some((row.0, (row.1)(figures), value(figures, row)?)));
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return;
    }
    html.element("table", &[("class", "figures")], |html| {
        html.leaf("caption", &[], "Latency of the requests");
        html.element("tr", &[], |html| {
            for (name, ..) in &rows {
                html.leaf("th", &[("scope", "col")], name);
            }
        });
        html.element("tr", &[], |html| {
            for (_, ns, shown) in &rows {
                html.leaf("td", &[("data-ns", &ns.to_string())], shown);
            }
        });
    });
}

/// Writes the causes, each with its best example, then the places of time without a cause.
fn findings(html: &mut Html, report: &Report) {
    let groups = groups::groups(report);
    let firsts = groups.iter().filter_map(|group| {
        let first = group.first().copied()?;
        Some((first, groups::others(group)))
    });
    let places = report.places().map(|place| (place, None));
    for (at, (found, others)) in firsts.chain(places).enumerate() {
        let id = format!("finding-{}", at + 1);
        let class = format!(
            "finding {} {}",
            certainty_class(found),
            owner_class(found.culprit)
        );
        html.element("article", &[("class", &class), ("id", &id)], |html| {
            finding::write(html, found, others.as_deref(), report);
        });
    }
}

/// Returns the class for the certainty of a finding: of its cause, or of its place if it has no
/// cause.
fn certainty_class(finding: &Finding) -> &'static str {
    let place = finding.location.as_ref().filter(|_| finding.locates);
    match place.map_or(finding.verdict, |place| place.certainty) {
        Verdict::Proven => "verdict-proven",
        Verdict::Strong => "verdict-strong",
        Verdict::Possible => "verdict-possible",
    }
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

/// Writes the state of each layer.
fn strip(html: &mut Html, all: &[Layer]) {
    if all.is_empty() {
        return;
    }
    html.leaf("h3", &[], "Layer by layer");
    html.element("ul", &[("class", "layers")], |html| {
        for layer in all {
            let (mark, tone) = layers::mark(layer.state);
            let (state, said) = state(layer.state);
            html.element("li", &[("class", state)], |html| {
                let mark_class = format!("mark {}", class(tone));
                html.leaf(
                    "span",
                    &[("class", &mark_class), ("aria-hidden", "true")],
                    mark,
                );
                html.text(" ");
                html.leaf("strong", &[], &layer.layer);
                html.text(" ");
                html.classed("span", "state", &format!("{said}:"));
                html.text(" ");
                html.classed("span", "line", &layers::line(layer));
            });
        }
    });
}

/// Returns the class of a layer's state, and its name.
fn state(state: LayerState) -> (&'static str, &'static str) {
    match state {
        LayerState::Cleared => ("layer-cleared", "cleared"),
        LayerState::Accused => ("layer-accused", "accused"),
        LayerState::Suspected => ("layer-suspected", "not ruled out"),
        LayerState::NotMeasured => ("layer-not-measured", "not measured"),
    }
}

/// Writes the limits of the verdict, defects of the capture, and the effects of the experiments.
fn besides(html: &mut Html, report: &Report) {
    let has_cause = report.causes().next().is_some();
    let mut lines = if has_cause {
        healthy::margin(report)
    } else {
        let layers = healthy::measured_layers(report).into_iter();
        let layers = layers.map(|(_, text)| text);
        layers.chain(healthy::limits(report)).collect()
    };
    lines.extend(capture::lacks(report));
    lines.extend(experiments::in_lines(report));
    if lines.is_empty() {
        return;
    }
    html.leaf("h3", &[], "How far this goes");
    html.element("ul", &[("class", "limits")], |html| {
        for line in &lines {
            html.leaf("li", &[], line);
        }
    });
}

fn notes(html: &mut Html, remarks: &[Remark]) {
    if remarks.is_empty() {
        return;
    }
    html.leaf("h3", &[], "Notes");
    html.element("ul", &[("class", "notes")], |html| {
        for remark in remarks {
            html.leaf("li", &[], &words::sentence(&remark.text));
        }
    });
}
