//! Additional remarks of a report, one line each: first the other findings, then the limits of
//! all findings, then other observations.

use lagtrace_core::exchange::wait::Owner;
use lagtrace_core::report::{Finding, LayerState, Remark, Report};

use crate::render::page::{Page, Tone, Weight};
use crate::render::{
    Length, capture, experiments, groups, healthy, joined, quantity, verdict, watch, words,
};

/// A line: a tone, the opening words in this tone, and the remaining text.
pub(super) type Line = (Tone, String, String);

/// Returns all lines, the most important first. A brief page has only the other findings and the
/// defects of the capture; on other pages, these defects are among the notes.
pub(super) fn lines(report: &Report, length: Length) -> Vec<Line> {
    let mut lines = found(report, length);
    if length == Length::Brief {
        lines.extend(plain(Tone::Caution, capture::lacks(report)));
        return lines;
    }
    lines.extend(layers(report));
    lines.extend(plain(Tone::Plain, experiments::in_lines(report)));
    lines.extend(plain(Tone::Plain, watch::in_lines(report)));
    lines.extend(plain(Tone::Plain, joined::in_lines(report)));
    lines.extend(plain(Tone::Plain, healthy::margin(report)));
    lines.extend(remarks(&report.notes));
    lines
}

/// Returns the first sentence of each remark.
pub(super) fn remarks(remarks: &[Remark]) -> Vec<Line> {
    let first = |remark: &Remark| match remark.text.split_once(". ") {
        Some((first, _)) => words::sentence(first),
        None => words::sentence(&remark.text),
    };
    plain(Tone::Plain, remarks.iter().map(first))
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
        page.weighing(Weight::Minor, |page| {
            page.item(2, "•", Tone::Dim, &[(*tone, head), (Tone::Plain, text)]);
        });
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
                best.change
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
    // The title of a finding that only locates time already names the owner.
    let first = match (finding.locates, finding.waits.first()) {
        (false, _) => Some(owner),
        (true, longest) => longest.map(|&kind| format!("mostly {}", words::wait(kind))),
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
    format!("{} ({}).", finding.title, parts.join(", "))
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
        report
            .layers
            .iter()
            .filter(move |layer| layer.state == state)
    };
    let is_found = |line: &str| report.findings.iter().any(|finding| finding.title == line);
    let suspected = of(LayerState::Suspected).filter(|layer| !is_found(&layer.line));
    let suspected = suspected.map(|layer| {
        let head = words::capitalized(&format!("{} not ruled out:", layer.layer));
        (Tone::Caution, head, words::sentence(&layer.line))
    });
    let open: Vec<_> = of(LayerState::NotMeasured)
        .map(|layer| layer.layer.as_str())
        .collect();
    let open = (!open.is_empty()).then(|| {
        let text = format!("{}.", words::list(&open));
        (Tone::Caution, "Not measured:".to_owned(), text)
    });
    suspected.chain(open).collect()
}
