//! The results of commands that draw no verdict: routes, probes, loads, comparisons and scores. Their
//! first words and their figures come first, and then what their text shows.

use lagtrace_core::report::{Figures, Report, Sweep, SweepStep};
use lagtrace_core::views::compare::{Comparison, LatencyChange};

use super::blocks;
use super::figures::{self, Bar};
use super::verdict::folded;
use super::writer::Html;
use crate::render::page::{Block, Body, Page};
use crate::render::percentiles::{ROWS, value};
use crate::render::{comparison, quantity, sweep};

/// The figures of a distribution that are drawn.
const DRAWN: [&str; 5] = ["p50", "p90", "p99", "p99.9", "max"];

/// Writes the section of a result.
pub(super) fn section(html: &mut Html, content: impl FnOnce(&mut Html)) {
    let section = [("id", "verdict"), ("aria-labelledby", "verdict-title")];
    html.element("section", &section, content);
}

/// Writes the heading of the section.
pub(super) fn title(html: &mut Html, text: &str) {
    html.leaf("h2", &[("id", "verdict-title")], text);
}

/// Writes what a command's text shows of a report.
pub(super) fn write(html: &mut Html, report: &Report, shown: &[Block]) {
    section(html, |html| match &report.sweep {
        Some(sweep) => steps(html, sweep, shown),
        None => {
            let rest = opening(html, shown, "Result");
            if report.command == "load" {
                distribution(html, &report.exchanges.latency_ns);
            }
            blocks::write(html, rest);
        }
    });
}

/// Returns what the command's text shows; `None` for a command that makes a diagnosis.
pub(super) fn shown(report: &Report) -> Option<Vec<Block>> {
    let write = match report.command.as_str() {
        "load" => crate::render::write_load,
        "probe" => crate::render::write_probes,
        "route" => crate::render::write_route,
        _ => return None,
    };
    let mut page = Page::recording();
    write(&mut page, report);
    Some(page.into_blocks())
}

/// Writes the first paragraph as the heading, and returns the rest.
fn opening<'a>(html: &mut Html, shown: &'a [Block], otherwise: &str) -> &'a [Block] {
    let first = shown.split_first().map(|(first, rest)| (&first.body, rest));
    let Some((Body::Paragraph(spans), rest)) = first else {
        title(html, otherwise);
        return shown;
    };
    html.element("h2", &[("id", "verdict-title")], |html| {
        blocks::phrases(html, spans);
    });
    rest
}

/// Writes the percentiles of a load.
fn distribution(html: &mut Html, latency: &Figures) {
    let rows = ROWS.iter().filter(|(name, ..)| DRAWN.contains(name));
    let bars = rows.filter_map(|&row| {
        Some(Bar {
            name: row.0.to_owned(),
            value: (row.1)(latency) as f64,
            shown: value(latency, row)?,
            class: "",
            remark: String::new(),
        })
    });
    let bars: Vec<Bar> = bars.collect();
    figures::write(html, "Latency", &bars);
}

/// Writes the knee of a load in steps, then its steps, then the figures of the step at the knee.
fn steps(html: &mut Html, sweep: &Sweep, shown: &[Block]) {
    title(html, &sweep::knee(sweep));
    if let Some(why) = sweep::why(sweep) {
        html.said("p", "why", &why);
    }
    html.element("div", &[("class", "beside")], |html| {
        figures::write(
            html,
            "Latency (p99) by step",
            &bars(sweep, |step| {
                let ns = step.latency_ns.p99;
                (ns as f64, quantity::duration(ns))
            }),
        );
        figures::write(
            html,
            "Requests answered a second",
            &bars(sweep, |step| (step.rate, quantity::rate(step.rate))),
        );
    });
    folded(html, "all", "All figures", |html| {
        blocks::write(html, shown)
    });
}

fn bars(sweep: &Sweep, figure: impl Fn(&SweepStep) -> (f64, String)) -> Vec<Bar> {
    let steps = sweep.steps.iter().enumerate();
    let bars = steps.map(|(at, step)| {
        let (value, shown) = figure(step);
        let is_knee = sweep.knee == Some(at);
        Bar {
            name: sweep::load(step),
            value,
            shown,
            class: if is_knee { "chosen" } else { "" },
            remark: sweep::remarks(step, is_knee).join(", "),
        }
    });
    bars.collect()
}

/// Writes a comparison: its outcome, its latencies before and after, and what became of the findings.
pub(super) fn compared(html: &mut Html, comparison: &Comparison) {
    let mut page = Page::recording();
    crate::render::write_comparison(&mut page, comparison);
    let shown = page.into_blocks();
    section(html, |html| {
        let rest = opening(html, &shown, "Comparison");
        let is_heading = |block: &Block| matches!(block.body, Body::Heading(_));
        let sides = rest.iter().position(is_heading).unwrap_or(rest.len());
        let (sides, rest) = rest.split_at(sides);
        let others = rest.iter().skip(1).position(is_heading);
        let (table, others) = rest.split_at(others.map_or(rest.len(), |at| at + 1));
        html.element("div", &[("class", "beside")], |html| {
            html.element("div", &[], |html| {
                figures::write(html, "Latency before and after", &both(comparison));
                folded(html, "table", "As a table: figures", |html| {
                    blocks::write(html, table.get(1..).unwrap_or_default());
                });
                blocks::write(html, sides);
            });
            html.element("div", &[("class", "act")], |html| {
                blocks::write(html, others)
            });
        });
    });
}

fn both(comparison: &Comparison) -> Vec<Bar> {
    let pair = |change: &LatencyChange| {
        let name = comparison::name(change.figure);
        let bar = |when: &str, ns: u64, class, remark| Bar {
            name: format!("{name} {when}"),
            value: ns as f64,
            shown: quantity::duration(ns),
            class,
            remark,
        };
        let judged = comparison::judged(change.judgement).1.to_owned();
        let difference = quantity::difference(change.difference_ns);
        [
            bar("before", change.before_ns, "before", String::new()),
            bar(
                "after",
                change.after_ns,
                "after",
                format!("{difference}, {judged}"),
            ),
        ]
    };
    comparison.latency.iter().flat_map(pair).collect()
}
