//! Additional remarks of a report, one line each: first the other findings, then the limits of
//! all findings, then other observations.

use lagtrace_core::exchange::wait::Owner;
use lagtrace_core::registry::Id;
use lagtrace_core::report::{Finding, Layer, LayerState, OverallResult, Remark, Report};

use crate::render::page::{Page, Tone};
use crate::render::{
    Length, capacity, capture, experiments, groups, healthy, joined, quantity, verdict, watch,
    words,
};

/// The ids of remarks that come before all others.
const FIRST: [&str; 3] = [
    Remark::COMPUTES,
    Remark::SHORT_OF_PROCESSORS,
    Remark::FOREIGN_REQUESTS,
];

/// The ids of other remarks that a reader must not miss: on files that are not what the command line
/// asked for, and on observations that are not what they seem.
const URGENT: [&str; 4] = [
    "observations-not-kept",
    "packets-not-kept",
    "capture-clock-set",
    "watched-process-ended",
];

/// The beginning of the ids of remarks on what could not be measured.
const NOT_MEASURED: &str = "not-measured-";

/// A line: a tone, the opening words in this tone, and the remaining text.
pub(super) type Line = (Tone, String, String);

/// Returns all lines, the most important first, and the number of those that a reader must not miss:
/// the other findings, and what could not be judged. A brief page has only the other findings and
/// the defects of the capture; on other pages, these defects are among the notes.
pub(super) fn lines(report: &Report, length: Length) -> (Vec<Line>, usize) {
    let mut lines = found(report, length);
    if length == Length::Brief {
        lines.extend(plain(Tone::Caution, capture::lacks(report)));
        let kept = lines.len();
        return (lines, kept);
    }
    lines.extend(plain(Tone::Caution, healthy::uncovered(report)));
    lines.extend(remarks(&with(report, Remark::COMPUTES)));
    lines.extend(plain(Tone::Plain, capacity::lines(report)));
    lines.extend(remarks(&with(report, Remark::SHORT_OF_PROCESSORS)));
    lines.extend(remarks(&with(report, Remark::FOREIGN_REQUESTS)));
    for id in URGENT {
        lines.extend(remarks(&with(report, id)));
    }
    lines.extend(layers(report));
    let kept = lines.len();
    lines.extend(plain(Tone::Plain, healthy::margin(report)));
    lines.extend(plain(Tone::Plain, experiments::in_lines(report)));
    lines.extend(plain(Tone::Plain, watch::in_lines(report)));
    lines.extend(plain(Tone::Plain, joined::in_lines(report)));
    let is_said = |note: &&Remark| {
        let id = note.id.as_str();
        FIRST.contains(&id)
            || URGENT.contains(&id)
            || note.id == "interrupted" && healthy::interruption(report).is_some()
    };
    let notes = report.notes.iter().filter(|note| !is_said(note)).cloned();
    lines.extend(remarks(&notes.collect::<Vec<_>>()));
    (lines, kept)
}

/// Returns the remarks with this id.
fn with(report: &Report, id: &str) -> Vec<Remark> {
    let notes = report.notes.iter();
    notes.filter(|note| note.id == id).cloned().collect()
}

/// Returns the first sentence of each remark, and all of those that say how to allow a measurement.
/// A remark on a cause that costs nothing is for the whole report.
pub(super) fn remarks(remarks: &[Remark]) -> Vec<Line> {
    let is_free = |remark: &&Remark| remark.id.parse::<Id>().is_ok_and(|id| id.cause().is_free);
    let told = |remark: &Remark| match remark.text.split_once(". ") {
        Some((first, _)) if !remark.id.starts_with(NOT_MEASURED) => words::sentence(first),
        _ => words::sentence(&remark.text),
    };
    let remarks = remarks.iter().filter(|remark| !is_free(remark));
    plain(Tone::Plain, remarks.map(told))
}

/// Writes the first `shown` lines, and the number of those left out.
pub(super) fn write(page: &mut Page, title: Option<&str>, lines: &[Line], shown: usize) {
    if lines.is_empty() {
        return;
    }
    if let Some(title) = title.filter(|_| !page.is_brief()) {
        page.heading(title);
    }
    for (tone, head, text) in lines.iter().take(shown) {
        page.item(2, "•", Tone::Dim, &[(*tone, head), (Tone::Plain, text)]);
    }
    let hidden = lines.len().saturating_sub(shown);
    if hidden > 0 {
        let hidden = quantity::counted(hidden as u64, "more remark", "more remarks");
        page.paragraph(2, Tone::Dim, &format!("{hidden}: see -v."));
    }
}

fn plain(tone: Tone, texts: impl IntoIterator<Item = String>) -> Vec<Line> {
    let texts = texts.into_iter();
    texts.map(|text| (tone, String::new(), text)).collect()
}

/// Returns all findings except the first, which has its own part of the page. The first finding is
/// not always the most costly, so each line also names the best change, unless the page is brief.
fn found(report: &Report, length: Length) -> Vec<Line> {
    let groups = groups::groups(report);
    let causes = groups.iter().filter_map(|group| group.first().copied());
    let others = causes.chain(report.places()).skip(1);
    let line = |finding: &Finding| {
        let (word, tone) = if finding.locates {
            ("Cause unknown:", Tone::Caution)
        } else {
            verdict::sureness(finding)
        };
        let best = finding.fix.iter().chain(&finding.next).next();
        let text = match best.filter(|_| length != Length::Brief) {
            Some(best) => format!(
                "{} → {}: {}",
                gist(finding, report),
                best.r#where,
                words::sentence(&best.change)
            ),
            None => gist(finding, report),
        };
        (tone, word.to_owned(), text)
    };
    others.map(line).collect()
}

/// Returns title, culprit and share: `The path loses packets (path, 17 % of all time).` For time
/// that no cause explains, the longest kind of wait takes the culprit's place.
fn gist(finding: &Finding, report: &Report) -> String {
    let owner = match finding.culprit {
        Owner::Unknown => "owner unknown".to_owned(),
        known => words::owner(known).to_owned(),
    };
    // A finding that only locates time already names the owner.
    let first = match finding.waits.first() {
        _ if finding.cause.cause().says_only_where => None,
        _ if !finding.locates => Some(owner),
        longest => longest.map(|&kind| format!("mostly {}", words::wait(kind))),
    };
    let mut parts: Vec<String> = first.into_iter().collect();
    if finding.cost_ns > 0 {
        let share = quantity::share(finding.share);
        let whole = if finding.locates {
            "all time".to_owned()
        } else {
            verdict::whole_time(finding)
        };
        parts.push(if report.account.len() > 1 {
            format!("{share} of {whole} at {}", finding.service)
        } else {
            format!("{share} of {whole}")
        });
    }
    if is_counted_before(finding) {
        parts.push("partly the same time as above".to_owned());
    }
    let said = verdict::gist(finding);
    match parts.join(", ") {
        parts if parts.is_empty() => words::sentence(&said),
        parts => format!("{said} ({parts})."),
    }
}

/// Returns true if a finding on connection setup shares much of its time with earlier findings,
/// which claimed it in the account.
fn is_counted_before(finding: &Finding) -> bool {
    let claimed = finding.location.as_ref().map(|place| place.claimed_ns);
    verdict::includes_setup(finding)
        && claimed.is_some_and(|claimed| claimed < finding.cost_ns / 10 * 9)
}

/// Returns lines on the layers that were not cleared or not measured. A layer is left out if a
/// finding is the reason, because the finding has its own line.
fn layers(report: &Report) -> Vec<Line> {
    let of = |state| {
        let layers = report.layers.iter();
        layers.filter(move |layer| layer.state == state)
    };
    let is_found = |layer: &&Layer| {
        let mut findings = report.findings.iter();
        findings.any(|finding| finding.title == layer.line || locates(finding, layer))
    };
    let suspected = of(LayerState::Suspected).filter(|layer| !is_found(layer));
    let suspected = suspected.map(|layer| {
        let head = words::capitalized(&format!("{} not ruled out:", layer.layer));
        (Tone::Caution, head, words::sentence(&layer.line))
    });
    let open = of(LayerState::NotMeasured).filter(|layer| !is_said(layer, report));
    let open: Vec<String> = open
        .map(|layer| format!("{} ({})", layer.layer, layer.line))
        .collect();
    let open = (!open.is_empty()).then(|| {
        let text = format!("{}.", words::list(&open));
        (Tone::Caution, "Not judged:".to_owned(), text)
    });
    suspected.chain(open).collect()
}

/// Returns true if a finding locates unexplained time in the layer.
fn locates(finding: &Finding, layer: &Layer) -> bool {
    finding.locates && finding.cause.cause().layer.as_str() == layer.layer
}

/// Returns true if the reader knows already that a layer was not measured: a remark says how to
/// allow it, or a finding shows that no request got that far.
fn is_said(layer: &Layer, report: &Report) -> bool {
    let note = format!("{NOT_MEASURED}{}", layer.layer);
    let mut layers = report.layers.iter();
    let is_closed = layers.any(|other| other.state == LayerState::Accused);
    let result = report.overall.as_ref().map(|overall| overall.result);
    let is_nothing = matches!(
        result,
        Some(OverallResult::NoRequest | OverallResult::Interrupted)
    );
    report.notes.iter().any(|remark| remark.id == note)
        || (report.exchanges.count == 0 && (is_closed || is_nothing))
}
