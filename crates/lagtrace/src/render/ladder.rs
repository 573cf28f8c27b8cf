//! The ladder of a request's waits, drawn to scale.

use lagtrace_core::report::{Exemplar, Finding, Report, WaitSpan};

use super::page::{Page, Tone};
use super::table::{Align, Content, Table, cell, dim};
use super::{place, quantity, words};

/// Maximum number of waits of which each is a step. If there are more, consecutive short waits are
/// joined.
const STEPS: usize = 16;
/// Width of the whole request, in columns.
const SCALE: usize = 30;

/// A step of the ladder: one wait, or several consecutive short ones.
struct Step<'a> {
    start_ns: u64,
    duration_ns: u64,
    waits: &'a [WaitSpan],
}

/// Writes the best example of the first finding that has an example. If no finding has one, writes
/// the slowest exchange.
pub(super) fn write(page: &mut Page, report: &Report) {
    let shown = report
        .findings
        .iter()
        .find_map(|f| Some((f.exemplars.first()?, Some(f))));
    let slowest = || Some((report.exchanges.slowest.first()?, None));
    let Some((exemplar, finding)) = shown.or_else(slowest) else {
        return;
    };
    if exemplar.waits.is_empty() {
        return;
    }
    page.heading("One request, step by step");
    let shows = finding.filter(|_| report.causes().nth(1).is_some());
    page.paragraph(2, Tone::Dim, &title(exemplar, shows));
    page.table(2, &ladder(exemplar, finding));
    if let Some(line) = at_host(exemplar) {
        page.paragraph(2, Tone::Plain, &line);
    }
}

/// Returns the stages of the request in the server's kernel, without those below 1 % of their sum.
pub(super) fn at_host(exemplar: &Exemplar) -> Option<String> {
    let stages = &exemplar.at_host;
    let whole = stages
        .iter()
        .fold(0_u64, |sum, stage| sum.saturating_add(stage.duration_ns));
    let shown = stages
        .iter()
        .filter(|stage| stage.duration_ns >= whole / 100);
    let shown: Vec<_> = shown
        .map(|stage| format!("{} {}", quantity::duration(stage.duration_ns), stage.stage))
        .collect();
    let whole = quantity::duration(whole);
    (!shown.is_empty()).then(|| {
        format!(
            "The server's kernel saw {whole} of it: {}",
            shown.join(", ")
        )
    })
}

pub(super) fn title(exemplar: &Exemplar, shows: Option<&Finding>) -> String {
    let mut parts = vec![
        exemplar.request.clone(),
        exemplar.outcome.clone(),
        quantity::duration(exemplar.latency_ns),
        format!("{} → {}", exemplar.client, exemplar.server),
    ];
    parts.push(match (exemplar.first_packet, exemplar.last_packet) {
        (Some(first), Some(last)) => format!("packets {first} to {last}"),
        _ => place::instant(exemplar.start_ns),
    });
    parts.extend(shows.map(|finding| format!("shows {}", finding.cause)));
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}

pub(super) fn ladder(exemplar: &Exemplar, finding: Option<&Finding>) -> Table {
    let guilty = finding.and_then(|finding| guilty(exemplar, finding));
    let is_numbered = exemplar.first_packet.is_some();
    let ended_by = if is_numbered { "ended by" } else { "" };
    let mut table = Table::new(&[
        (Align::Left, ""),
        (Align::Right, "at"),
        (Align::Right, "took"),
        (Align::Left, "who"),
        (Align::Left, "what"),
        (Align::Bar(SCALE), ""),
        (Align::Right, ended_by),
    ]);
    let whole = exemplar
        .waits
        .iter()
        .fold(0, |sum: u64, w| sum.saturating_add(w.duration_ns));
    let at = |ns: u64| ns as f64 / whole.max(1) as f64;
    for step in steps(&exemplar.waits) {
        let is_guilty = guilty.is_some_and(|g| step.waits.iter().any(|w| std::ptr::eq(w, g)));
        let (mark, tone) = if is_guilty {
            ("✗", Tone::Bad)
        } else {
            ("", Tone::Plain)
        };
        let end = step.start_ns.saturating_add(step.duration_ns);
        let (who, what, packet) = describe(&step);
        table.row(vec![
            cell(tone, mark),
            dim(quantity::duration(step.start_ns)),
            cell(tone, took(&step)),
            cell(tone, who),
            cell(tone, what),
            (tone, Content::Span(at(step.start_ns), at(end))),
            dim(packet.map(|n| format!("packet {n}")).unwrap_or_default()),
        ]);
    }
    table
}

fn took(step: &Step<'_>) -> String {
    let is_inferred = step
        .waits
        .iter()
        .any(|wait| wait.error_ns.is_some_and(|error| error > 0));
    format!(
        "{}{}",
        if is_inferred { "≈ " } else { "" },
        quantity::duration(step.duration_ns)
    )
}

fn describe(step: &Step<'_>) -> (String, String, Option<u64>) {
    match step.waits {
        [only] => (
            words::owner(only.owner).to_owned(),
            words::wait(only.kind).to_owned(),
            only.released_by_packet,
        ),
        several => (
            String::new(),
            format!("{} short waits", several.len()),
            None,
        ),
    }
}

/// Returns the wait that the finding lengthens: the longest of the kinds that the finding names. If
/// there is none, the culprit's longest wait is returned.
pub(super) fn guilty<'a>(exemplar: &'a Exemplar, finding: &Finding) -> Option<&'a WaitSpan> {
    let longest = |is_suspect: &dyn Fn(&WaitSpan) -> bool| {
        exemplar
            .waits
            .iter()
            .filter(|wait| is_suspect(wait))
            .max_by_key(|wait| wait.duration_ns)
    };
    longest(&|wait| finding.waits.contains(&wait.kind))
        .or_else(|| longest(&|wait| wait.owner == finding.culprit))
}

/// Groups the waits into steps. If there are more than [`STEPS`], only the longest waits have their
/// own step.
fn steps(waits: &[WaitSpan]) -> Vec<Step<'_>> {
    let mut lengths: Vec<u64> = waits.iter().map(|wait| wait.duration_ns).collect();
    lengths.sort_unstable_by(|one, other| other.cmp(one));
    // With n long waits, there are at most n + 1 groups of short waits between and around them.
    let limit = match lengths.get(STEPS / 2) {
        Some(&limit) if waits.len() > STEPS => limit,
        _ => 0,
    };
    let is_short = |wait: &WaitSpan| limit > 0 && wait.duration_ns <= limit;
    let mut start_ns = 0_u64;
    waits
        .chunk_by(|one, next| is_short(one) && is_short(next))
        .map(|waits| {
            let duration_ns = waits
                .iter()
                .fold(0, |s: u64, w| s.saturating_add(w.duration_ns));
            let step = Step {
                start_ns,
                duration_ns,
                waits,
            };
            start_ns = start_ns.saturating_add(duration_ns);
            step
        })
        .collect()
}
