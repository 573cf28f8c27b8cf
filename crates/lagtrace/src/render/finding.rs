//! The findings in full: evidence, alternatives, remedy.

use lagtrace_core::report::{
    Candidate, Evidence, Exchanges, Finding, Prediction, Report, Says, Verdict, Witness,
};

use super::page::{Page, Tone};
use super::{groups, quantity, words};

/// Maximum number of findings written in full, unless verbose.
const IN_FULL: usize = 3;
/// Maximum number of packet numbers shown for one piece of evidence.
const PACKETS: usize = 8;

/// Writes the findings in full.
pub(super) fn write(page: &mut Page, report: &Report) {
    let groups = groups::groups(report);
    let shown = if page.is_verbose() {
        groups.len()
    } else {
        IN_FULL
    };
    let several = groups.len() > 1;
    let firsts = groups.iter().filter_map(|group| group.first());
    for (at, finding) in firsts.take(shown).enumerate() {
        if several {
            page.heading(&format!("{}. {}", at + 1, finding.title));
        }
        particulars(page, finding, &report.exchanges);
    }
    let hidden = groups.len().saturating_sub(shown);
    if hidden > 0 {
        page.blank();
        let text = format!("{hidden} more in brief above; --verbose tells them in full.");
        page.paragraph(0, Tone::Dim, &text);
    }
    let shown = if page.is_verbose() {
        usize::MAX
    } else {
        IN_FULL
    };
    for place in report.places().take(shown) {
        page.heading(&place.title);
        unexplained(page, place);
    }
}

/// Writes the known facts on time that no cause explains, and the next measurement.
fn unexplained(page: &mut Page, place: &Finding) {
    for piece in &place.evidence {
        page.item(
            2,
            "•",
            Tone::Dim,
            &[(Tone::Plain, &words::sentence(&piece.text))],
        );
    }
    if let Some(location) = place.location.as_ref() {
        let sure = match location.certainty {
            Verdict::Proven => "The place is proven",
            Verdict::Strong => "The place is well shown",
            Verdict::Possible => "The place is not certain",
        };
        let text = format!("{sure}: {}.", location.because);
        page.item(2, "•", Tone::Dim, &[(Tone::Plain, &text)]);
    }
    candidates(page, &place.candidates);
    if !place.next.is_empty() {
        page.heading("What to measure next");
    }
    for next in &place.next {
        let at = format!("{}:", next.r#where);
        page.item(
            2,
            "→",
            Tone::Good,
            &[(Tone::Strong, &at), (Tone::Plain, &next.change)],
        );
    }
}

fn candidates(page: &mut Page, candidates: &[Candidate]) {
    if candidates.is_empty() {
        return;
    }
    page.heading("What it may have been, and what decides");
    for candidate in candidates {
        let cause = format!("{}:", candidate.cause);
        let text = format!(
            "{}. {}",
            candidate.because,
            words::sentence(&candidate.decided_by)
        );
        page.item(
            2,
            "•",
            Tone::Dim,
            &[(Tone::Strong, &cause), (Tone::Plain, &text)],
        );
    }
}

fn particulars(page: &mut Page, finding: &Finding, exchanges: &Exchanges) {
    if !finding.summary.is_empty() {
        page.blank();
        page.paragraph(0, Tone::Plain, &finding.summary);
    }
    evidence(page, &finding.evidence);
    witnesses(page, &finding.witnesses);
    if let Some(filter) = &finding.display_filter {
        page.heading("To see it in Wireshark");
        page.paragraph(2, Tone::Plain, filter);
    }
    if !finding.ruled_out.is_empty() {
        page.heading("Ruled out");
        for other in &finding.ruled_out {
            let cause = format!("{}:", other.cause);
            let because = words::sentence(&other.because);
            page.item(
                2,
                "•",
                Tone::Dim,
                &[(Tone::Strong, &cause), (Tone::Plain, &because)],
            );
        }
    }
    candidates(page, &finding.candidates);
    if !finding.overturned_by.is_empty() {
        page.heading("What would overturn this");
        page.paragraph(2, Tone::Plain, &words::sentence(&finding.overturned_by));
    }
    remedy(page, finding, exchanges);
}

fn evidence(page: &mut Page, evidence: &[Evidence]) {
    if evidence.is_empty() {
        return;
    }
    page.heading("Evidence");
    for piece in evidence {
        let kind = words::evidence_label(piece.kind);
        let label = if piece.shows_mechanism {
            format!("{kind}:")
        } else {
            format!("{kind} (fits):")
        };
        let text = words::sentence(&piece.text);
        page.item(
            2,
            "•",
            Tone::Dim,
            &[(Tone::Strong, &label), (Tone::Plain, &text)],
        );
        let reference = reference(piece);
        if !reference.is_empty() {
            page.paragraph(4, Tone::Dim, &reference);
        }
        if let Some(filter) = &piece.display_filter {
            page.spans(
                4,
                &[(Tone::Dim, "Wireshark filter:"), (Tone::Plain, filter)],
            );
        }
    }
}

/// Writes the kinds of evidence that do not show the finding.
fn witnesses(page: &mut Page, witnesses: &[Witness]) {
    let of = |says| -> Vec<&str> {
        let of = witnesses.iter().filter(|witness| witness.says == says);
        of.map(|witness| words::evidence(witness.kind)).collect()
    };
    let groups = [
        (Says::Contradicts, Tone::Caution, "Against it"),
        (Says::Silent, Tone::Dim, "Looked at, and silent"),
        (Says::NotAvailable, Tone::Dim, "Not available"),
    ];
    for (says, tone, title) in groups {
        let kinds = of(says);
        // With a capture alone, all other kinds are missing every time.
        let is_told = says != Says::NotAvailable || page.is_verbose();
        if is_told && !kinds.is_empty() {
            let text = format!("{title}: {}.", words::list(&kinds));
            page.paragraph(2, tone, &text);
        }
    }
}

/// Returns the references of a piece of evidence: count, median, packet numbers, location.
fn reference(piece: &Evidence) -> String {
    let mut parts = Vec::new();
    if let Some(count) = piece.count {
        parts.push(quantity::counted(count, "time", "times"));
    }
    if let Some(median) = piece.median_ns {
        parts.push(format!("median {}", quantity::duration(median)));
    }
    if !piece.packets.is_empty() {
        let numbers: Vec<String> = piece
            .packets
            .iter()
            .take(PACKETS)
            .map(ToString::to_string)
            .collect();
        let more = if piece.packets.len() > PACKETS {
            ", …"
        } else {
            ""
        };
        let word = if numbers.len() == 1 {
            "packet"
        } else {
            "packets"
        };
        parts.push(format!("{word} {}{more}", numbers.join(", ")));
    }
    parts.extend(piece.location.clone());
    parts.join(" · ")
}

fn remedy(page: &mut Page, finding: &Finding, exchanges: &Exchanges) {
    if !finding.fix.is_empty() {
        page.heading("What to change");
    }
    for (at, fix) in finding.fix.iter().enumerate() {
        let marker = if finding.fix.len() > 1 {
            format!("{}.", at + 1)
        } else {
            "→".to_owned()
        };
        let place = format!("{}:", fix.r#where);
        page.item(
            2,
            &marker,
            Tone::Good,
            &[(Tone::Strong, &place), (Tone::Plain, &fix.change)],
        );
    }
    if let Some(prediction) = &finding.predicted {
        page.heading("What to expect then");
        page.paragraph(2, Tone::Plain, &expectation(prediction, exchanges));
    }
    page.blank();
    let text = format!("More on this cause: lagtrace explain {}", finding.cause);
    page.paragraph(0, Tone::Dim, &text);
}

fn expectation(prediction: &Prediction, exchanges: &Exchanges) -> String {
    let now = &exchanges.latency_ns;
    let figure = |name: &str, then: u64, now: u64| {
        let then = quantity::duration(then);
        if exchanges.count == 0 {
            format!("{name} {then}")
        } else {
            format!("{name} {then} instead of {}", quantity::duration(now))
        }
    };
    let mut text = format!(
        "{}, {}, at {}.",
        figure("p50", prediction.latency_ns.p50, now.p50),
        figure("p99", prediction.latency_ns.p99, now.p99),
        quantity::rate(prediction.at_rate)
    );
    if let Some((low, high)) = prediction.closed_loop_rate {
        let (low, high) = (quantity::rate(low), quantity::rate(high));
        text.push_str(&format!(
            " The same closed loop might reach {low} to {high}."
        ));
    }
    text
}
