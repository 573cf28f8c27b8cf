//! The verdict of a diagnosis: everything that a person needs to act, without a script.

use lagtrace_core::report::{Finding, Layer, LayerState, Picture, Report, Verdict};

mod finding;
mod proof;

use super::blocks::{class, phrase};
use super::example::Example;
use super::writer::Html;
use super::{request, rungs};
use crate::render::percentiles::{ROWS, value};
use crate::render::{capture, experiments, groups, healthy, layers, quantity, words};

/// Writes the verdict section of a report: first what was found, the one request that shows it best
/// and what to change, so that a screen holds them. The rest is folded.
pub(super) fn write(html: &mut Html, report: &Report, picture: Option<&Picture>) {
    let result = report.overall.as_ref().map(|overall| overall.result);
    let result = result.map_or_else(String::new, |result| word(&result));
    let section = [
        ("id", "verdict"),
        ("aria-labelledby", "verdict-title"),
        ("data-result", &*result),
    ];
    html.element("section", &section, |html| {
        let shown = shown(report);
        match shown.split_first() {
            Some((first, others)) => {
                finding::first(html, first, report, picture, |html| measured(html, report));
                for (at, other) in others.iter().enumerate() {
                    finding::other(html, at + 2, other, report, picture);
                }
            }
            None => without_finding(html, report, picture),
        }
        strip(html, &report.layers);
        if !shown.is_empty() {
            list(html, "limits", "What stays open", &besides(report));
        }
        let notes = report.notes.iter();
        let notes: Vec<String> = notes.map(|note| words::sentence(&note.text)).collect();
        list(html, "notes", "Notes", &notes);
    });
}

/// Returns a word of a closed vocabulary as it is in the report's JSON.
fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// A finding, and the words that name the other servers where it was found.
struct Shown<'a> {
    finding: &'a Finding,
    others: Option<String>,
}

/// Returns the causes, each with its best example, then the places of time without a cause.
fn shown(report: &Report) -> Vec<Shown<'_>> {
    let groups = groups::groups(report);
    let firsts = groups.iter().filter_map(|group| {
        let others = groups::others(group);
        let finding = group.first().copied()?;
        Some(Shown { finding, others })
    });
    let places = report.places().map(|finding| Shown {
        finding,
        others: None,
    });
    firsts.chain(places).collect()
}

/// Writes the result of a report without a finding, with the slowest request.
fn without_finding(html: &mut Html, report: &Report, picture: Option<&Picture>) {
    let (tone, text) = healthy::opening(report);
    html.element("h2", &[("id", "verdict-title")], |html| {
        phrase(html, tone, &text);
    });
    measured(html, report);
    let example = Example::slowest(report, picture);
    if let Some(example) = &example {
        request::write(html, example, "The slowest request:");
    }
    html.element("div", &[("class", "beside")], |html| {
        if let Some(example) = &example {
            rungs::write(html, example);
        }
        html.element("div", &[("class", "act")], |html| {
            html.leaf("h3", &[], "What this rests on");
            lines(html, "limits", &besides(report));
        });
    });
}

/// Writes how many requests there were, their percentiles, and what the capture lacks.
fn measured(html: &mut Html, report: &Report) {
    let exchanges = &report.exchanges;
    let figures = healthy::latency(report);
    let rows = ROWS
        .iter()
        .filter_map(|&row| Some((row.0, (row.1)(figures), value(figures, row)?)));
    html.element("div", &[("class", "measured")], |html| {
        if let Some(line) = healthy::counted(report) {
            html.leaf("p", &[], &line);
        }
        html.element("dl", &[("class", "figures")], |html| {
            for (name, ns, shown) in rows {
                html.element("div", &[], |html| {
                    html.leaf("dt", &[], name);
                    html.leaf("dd", &[("data-ns", &ns.to_string())], &shown);
                });
            }
        });
    });
    let mut lacks = capture::lacks(report);
    if exchanges.cut > 0 && report.capture.is_some() {
        lacks.push(format!(
            "The capture lacks packets of {}, left out here and marked over time.",
            quantity::counted(exchanges.cut, "more request", "more requests")
        ));
    }
    for line in lacks {
        html.said("p", "caution", &line);
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

/// Writes the state of each layer.
fn strip(html: &mut Html, all: &[Layer]) {
    if all.is_empty() {
        return;
    }
    folded(html, "layers", &strip_summary(all), |html| {
        layer_list(html, all)
    });
}

/// Returns the states of all layers in a line.
fn strip_summary(all: &[Layer]) -> String {
    let states = all.iter().map(|layer| {
        let (mark, _) = layers::mark(layer.state);
        format!("{mark} {}", layer.layer)
    });
    let states: Vec<String> = states.collect();
    format!("Layer by layer: {}", states.join(", "))
}

fn layer_list(html: &mut Html, all: &[Layer]) {
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
                html.said("span", "line", &layers::line(layer));
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

/// Returns the limits of the verdict and the effects of the experiments.
fn besides(report: &Report) -> Vec<String> {
    let mut lines = if report.causes().next().is_some() {
        healthy::margin(report)
    } else {
        let layers = healthy::measured_layers(report).into_iter();
        let layers = layers.map(|(_, text)| text);
        layers.chain(healthy::limits(report)).collect()
    };
    lines.extend(experiments::in_lines(report));
    lines
}

/// Writes a folded list of sentences; nothing if there are none.
fn list(html: &mut Html, class: &'static str, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    folded(html, class, &format!("{title} ({})", lines.len()), |html| {
        self::lines(html, class, lines);
    });
}

fn lines(html: &mut Html, class: &'static str, lines: &[String]) {
    html.element("ul", &[("class", class)], |html| {
        for line in lines {
            html.element("li", &[], |html| html.prose(line));
        }
    });
}

/// Writes a part of the page that a reader opens.
pub(super) fn folded(html: &mut Html, name: &str, title: &str, content: impl FnOnce(&mut Html)) {
    let class = format!("fold fold-{name}");
    html.element("details", &[("class", &class)], |html| {
        html.leaf("summary", &[], title);
        content(html);
    });
}
