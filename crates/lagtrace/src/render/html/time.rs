//! Where the time goes: a bar for the mean and for each part of the distribution, by owner and
//! kind of wait, and a table with the same figures.

use std::iter;

use lagtrace_core::exchange::wait::{Owner, WaitKind};
use lagtrace_core::report::{LatencyMode, Part, PartShares, Picture, Report, WaitShare};

use super::setup;
use super::shares::{Length, bar, legend, owner_class};
use super::verdict::folded;
use super::writer::Html;
use crate::render::{quantity, waits, words};

/// A part of the requests, and the shares of their time.
struct Row<'a> {
    title: String,
    /// The title of its column in the table.
    short: String,
    /// Mean time of a request.
    mean_ns: Option<u64>,
    waits: &'a [WaitShare],
}

/// Writes the section; nothing if neither a wait nor a connection's setup is known.
pub(super) fn write(html: &mut Html, report: &Report, picture: Option<&Picture>) {
    let rows = rows(report, picture);
    // Our own timestamps alone do not say who owns the time.
    let is_known = |wait: &WaitShare| wait.kind != WaitKind::Unknown;
    let has_waits = picture.is_some() || rows.iter().any(|row| row.waits.iter().any(is_known));
    let has_requests = has_waits && !rows.is_empty();
    if !has_requests && !setup::is_seen(report) {
        return;
    }
    let section = [("id", "time"), ("aria-labelledby", "time-title")];
    html.element("section", &section, |html| {
        let title = if has_requests {
            waits::title(report)
        } else {
            "Where the time went".to_owned()
        };
        html.leaf("h2", &[("id", "time-title")], &title);
        if has_requests {
            requests(html, &rows, &services(picture), report);
        }
        setup::write(html, report);
    });
}

/// Writes the bars of all parts and of all services, on one scale.
fn requests(html: &mut Html, rows: &[Row<'_>], services: &[Row<'_>], report: &Report) {
    let all = || rows.iter().chain(services);
    legend(html, all().flat_map(|row| row.waits));
    let longest_ns = all().filter_map(|row| row.mean_ns).max();
    let longest_ns = longest_ns.unwrap_or_default();
    for (at, row) in all().enumerate() {
        if at == rows.len() {
            html.leaf("h3", &[], "By service, on the same scale");
        }
        html.element("figure", &[("class", "part")], |html| {
            caption(html, row);
            let ns = row.mean_ns;
            bar(html, row.waits, Length { ns, longest_ns });
        });
    }
    folded(html, "table", "As a table: shares of the time", |html| {
        table(html, rows, report);
    });
}

/// Returns the mean request of each service, if there are several.
fn services(picture: Option<&Picture>) -> Vec<Row<'_>> {
    let services = picture.map(|picture| picture.services.as_slice());
    let services = services.unwrap_or_default();
    let shares = picture.into_iter().flat_map(|picture| &picture.shares);
    let rows = shares.filter_map(|part| {
        let service = services.get(usize::from(part.service?))?;
        let is_row = part.part == Part::All && !part.waits.is_empty();
        let count = quantity::counted(part.count, "request", "requests");
        let name = match service.server.as_str() {
            "" => "all other servers",
            server => server,
        };
        is_row.then(|| Row {
            title: format!("{name} ({count})"),
            short: String::new(),
            mean_ns: Some(part.mean_ns),
            waits: &part.waits,
        })
    });
    let rows: Vec<Row<'_>> = rows.collect();
    if rows.len() > 1 { rows } else { Vec::new() }
}

/// Returns the parts of all requests, or all requests if there is no picture.
fn rows<'a>(report: &'a Report, picture: Option<&'a Picture>) -> Vec<Row<'a>> {
    let shares = picture.into_iter().flat_map(|picture| &picture.shares);
    let of_all = shares.filter(|part| part.service.is_none() && !part.waits.is_empty());
    let mut parts: Vec<&PartShares> = Vec::new();
    for part in of_all {
        let is_new = parts.first().is_none_or(|all| is_part(part, all));
        if is_new && !parts.iter().any(|other| is_same(other, part)) {
            parts.push(part);
        }
    }
    let modes = &report.exchanges.modes;
    let rows = parts.into_iter().map(|part| Row {
        title: title(part, modes),
        short: short(part, modes),
        mean_ns: Some(part.mean_ns),
        waits: &part.waits,
    });
    let rows: Vec<Row<'_>> = rows.collect();
    if !rows.is_empty() || report.exchanges.waits.is_empty() {
        return rows;
    }
    vec![Row {
        title: "all requests".to_owned(),
        short: "all".to_owned(),
        mean_ns: None,
        waits: &report.exchanges.waits,
    }]
}

/// Reports whether a part says something besides `all` and the median: a peak that holds nearly all
/// requests does not, nor does a tail that holds most of them.
fn is_part(part: &PartShares, all: &PartShares) -> bool {
    let most = match part.part {
        Part::All | Part::Median => 1.0,
        Part::P99 | Part::Slowest => 0.5,
        Part::Mode => 0.9,
    };
    part.count as f64 <= most * all.count as f64
}

/// Reports whether two parts are the same requests: of few requests, those around the 99th
/// percentile are the slowest.
fn is_same(one: &PartShares, other: &PartShares) -> bool {
    let figures = |part: &PartShares| (part.low_ns, part.high_ns, part.count, part.mean_ns);
    figures(one) == figures(other)
}

/// Returns the name of a part in a column's head.
fn short(part: &PartShares, modes: &[LatencyMode]) -> String {
    match part.part {
        Part::All => "all".to_owned(),
        Part::Median => "median".to_owned(),
        Part::P99 => "p99".to_owned(),
        Part::Slowest => "slowest".to_owned(),
        Part::Mode => {
            let mode = part.mode.and_then(|at| modes.get(usize::from(at)));
            let peak_ns = mode.map_or(part.low_ns, |mode| mode.peak_ns);
            format!("peak at {}", quantity::duration(peak_ns))
        }
    }
}

fn title(part: &PartShares, modes: &[LatencyMode]) -> String {
    let range = || {
        let (low, high) = (
            quantity::duration(part.low_ns),
            quantity::duration(part.high_ns),
        );
        if low == high {
            low
        } else {
            format!("{low} to {high}")
        }
    };
    let count = quantity::counted(part.count, "request", "requests");
    match part.part {
        Part::All => format!("all requests ({count})"),
        Part::Median => format!("around the median: {} ({count})", range()),
        Part::P99 => format!("around the 99th percentile: {} ({count})", range()),
        Part::Slowest => format!("the slowest: {} ({count})", range()),
        Part::Mode => {
            let mode = part.mode.and_then(|at| modes.get(usize::from(at)));
            let near = mode.map_or_else(range, |mode| quantity::duration(mode.peak_ns));
            format!("peak at {near} ({count})")
        }
    }
}

fn caption(html: &mut Html, row: &Row<'_>) {
    html.element("figcaption", &[], |html| {
        html.text(&row.title);
        if let Some(mean) = row.mean_ns {
            html.text(", mean ");
            html.leaf(
                "span",
                &[("data-ns", &mean.to_string())],
                &quantity::duration(mean),
            );
        }
    });
}

/// Writes the figures of the bars: a row for each kind of wait, a column for each part.
fn table(html: &mut Html, rows: &[Row<'_>], report: &Report) {
    let mut kinds: Vec<(Owner, WaitKind)> = Vec::new();
    for row in rows {
        for (owner, parts) in waits::owners(row.waits) {
            let new = parts.iter().map(|wait| (owner, wait.kind));
            kinds.extend(new.filter(|kind| !kinds.contains(kind)).collect::<Vec<_>>());
        }
    }
    kinds.sort_by_key(|(owner, _)| *owner);
    html.element("div", &[("class", "scroll"), ("tabindex", "0")], |html| {
        html.element("table", &[("class", "twin")], |html| {
            html.leaf(
                "caption",
                &[],
                "Shares of the time by owner and kind of wait",
            );
            html.element("thead", &[], |html| head(html, rows));
            html.element("tbody", &[], |html| {
                for kind in kinds {
                    line(html, kind, rows, report);
                }
            });
        });
    });
}

fn head(html: &mut Html, rows: &[Row<'_>]) {
    html.element("tr", &[], |html| {
        for title in ["owner", "wait"] {
            html.leaf("th", &[("scope", "col")], title);
        }
        let parts = rows.iter().map(|row| &*row.short);
        for title in iter::once("per request").chain(parts) {
            html.leaf("th", &[("scope", "col"), ("class", "number")], title);
        }
    });
}

/// Writes a kind of wait: its time in the mean request, and its share of each part.
fn line(html: &mut Html, (owner, kind): (Owner, WaitKind), rows: &[Row<'_>], report: &Report) {
    let of = |waits: &[WaitShare]| {
        let mut of_kind = waits.iter().filter(|w| (w.owner, w.kind) == (owner, kind));
        of_kind.next().cloned()
    };
    let exchanges = &report.exchanges;
    html.element("tr", &[("class", owner_class(owner))], |html| {
        html.leaf("th", &[("scope", "row")], words::owner(owner));
        html.leaf("th", &[("scope", "row")], words::wait(kind));
        let each = of(&exchanges.waits).map(|w| w.total_ns / waits::exchanges_of(exchanges));
        html.classed(
            "td",
            "number",
            &each.map_or("–".to_owned(), quantity::duration),
        );
        for row in rows {
            match of(row.waits) {
                Some(wait) => {
                    let value = wait.share.to_string();
                    let cell = [("class", "number"), ("data-value", &*value)];
                    html.leaf("td", &cell, &quantity::share(wait.share));
                }
                None => html.classed("td", "number", "–"),
            }
        }
    });
}
