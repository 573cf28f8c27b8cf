//! The findings in full: evidence, alternatives, remedy.

use lagtrace_core::report::{
    Candidate, Evidence, Finding, Fix, PredictedLatency, Prediction, Report, Says, Verdict, Witness,
};

use super::page::{Page, Tone};
use super::{groups, quantity, words};

/// Maximum number of packet numbers shown for one piece of evidence.
const PACKETS: usize = 8;

/// Writes the findings in full.
pub(super) fn write(page: &mut Page, report: &Report) {
    let groups = groups::groups(report);
    let several = groups.len() > 1;
    let firsts = groups.iter().filter_map(|group| group.first());
    for (at, finding) in firsts.enumerate() {
        if several {
            page.heading(&format!("{}. {}", at + 1, finding.title));
        }
        particulars(page, finding, report);
    }
    for place in report.places() {
        page.heading(&place.title);
        unexplained(page, place);
    }
}

/// Writes what is known about time that no cause explains, and the next measurement to make.
fn unexplained(page: &mut Page, place: &Finding) {
    for piece in &place.evidence {
        page.item(
            2,
            "•",
            Tone::Dim,
            &[(
                Tone::Plain,
                &words::capitalized(&words::sentence(&piece.text)),
            )],
        );
    }
    if let Some(text) = whereabouts(place) {
        page.item(2, "•", Tone::Dim, &[(Tone::Plain, &text)]);
    }
    candidates(page, &place.candidates);
    next(page, &place.next);
}

/// Returns a sentence on how certain the location of the time is, and why.
pub(super) fn whereabouts(place: &Finding) -> Option<String> {
    let location = place.location.as_ref()?;
    let sure = match location.certainty {
        Verdict::Proven => "Where the time passed is proven",
        Verdict::Strong => "Where the time passed is well established",
        Verdict::Possible => "Where the time passed is not certain",
    };
    Some(format!("{sure}: {}.", location.because))
}

/// Writes the measurements to make next.
pub(super) fn next(page: &mut Page, next: &[Fix]) {
    if !next.is_empty() {
        page.heading("What to measure next");
    }
    for next in next {
        fix(page, "→", next);
    }
}

fn candidates(page: &mut Page, candidates: &[Candidate]) {
    if candidates.is_empty() {
        return;
    }
    page.heading("Possible causes, and how to check them");
    for candidate in candidates {
        let cause = format!("{}:", candidate.cause);
        let text = to_check(candidate);
        page.item(
            2,
            "•",
            Tone::Dim,
            &[(Tone::Strong, &cause), (Tone::Plain, &text)],
        );
    }
}

/// Returns the evidence for a candidate, and how to check it.
pub(super) fn to_check(candidate: &Candidate) -> String {
    format!(
        "{}. To check: {}",
        candidate.because,
        words::sentence(&candidate.decided_by)
    )
}

fn particulars(page: &mut Page, finding: &Finding, report: &Report) {
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
        page.heading("What would refute this");
        page.paragraph(2, Tone::Plain, &words::sentence(&finding.overturned_by));
    }
    remedy(page, finding, report);
}

fn evidence(page: &mut Page, evidence: &[Evidence]) {
    if evidence.is_empty() {
        return;
    }
    page.heading("Evidence");
    for piece in evidence {
        let text = words::sentence(&piece.text);
        page.item(
            2,
            "•",
            Tone::Dim,
            &[(Tone::Strong, &label(piece)), (Tone::Plain, &text)],
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

/// Returns the label of a piece of evidence: its kind, with "(fits)" if it does not show the
/// mechanism.
pub(super) fn label(piece: &Evidence) -> String {
    let kind = words::evidence_label(piece.kind);
    if piece.shows_mechanism {
        format!("{kind}:")
    } else {
        format!("{kind} (consistent):")
    }
}

/// Writes the kinds of evidence that contradict the finding, do not show it, or are not available.
fn witnesses(page: &mut Page, witnesses: &[Witness]) {
    for (tone, text) in not_for(witnesses) {
        page.paragraph(2, tone, &text);
    }
}

/// Returns sentences on the kinds of evidence that are not for the finding.
pub(super) fn not_for(witnesses: &[Witness]) -> Vec<(Tone, String)> {
    let of = |says| -> Vec<&str> {
        let of = witnesses.iter().filter(|witness| witness.says == says);
        of.map(|witness| words::evidence(witness.kind)).collect()
    };
    let groups = [
        (Says::Contradicts, Tone::Caution, "Against it"),
        (Says::Silent, Tone::Dim, "Checked, without a sign of it"),
        (Says::NotAvailable, Tone::Dim, "Evidence not available"),
    ];
    let groups = groups.into_iter().filter_map(|(says, tone, title)| {
        let kinds = of(says);
        (!kinds.is_empty()).then(|| (tone, format!("{title}: {}.", words::list(&kinds))))
    });
    groups.collect()
}

/// Returns the references of a piece of evidence: count, median, packet numbers, location.
pub(super) fn reference(piece: &Evidence) -> String {
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

fn remedy(page: &mut Page, finding: &Finding, report: &Report) {
    fixes(page, finding, usize::MAX);
    if let Some(prediction) = &finding.predicted {
        page.heading("What to expect afterwards");
        let text = expectation(prediction, finding, report);
        page.paragraph(2, Tone::Plain, &text);
    }
    page.blank();
    let text = format!("More on this cause: lagtrace explain {}", finding.cause);
    page.paragraph(0, Tone::Dim, &text);
}

/// Writes at most `most` changes to make, the best first.
pub(super) fn fixes(page: &mut Page, finding: &Finding, most: usize) {
    let Some((best, others)) = finding.fix.split_first() else {
        return;
    };
    page.heading("What to change");
    let marker = match others {
        [] => "→",
        _ => "1.",
    };
    fix(page, marker, best);
    for (at, other) in others.iter().enumerate().take(most.saturating_sub(1)) {
        fix(page, &format!("{}.", at + 2), other);
    }
}

/// Writes a change or measurement after a marker.
pub(super) fn fix(page: &mut Page, marker: &str, fix: &Fix) {
    let place = format!("{}:", fix.r#where);
    let spans = [(Tone::Strong, place.as_str()), (Tone::Plain, &fix.change)];
    page.item(2, marker, Tone::Good, &spans);
}

/// Returns sentences on the latency and the throughput to expect after the change of a finding.
pub(super) fn expectation(prediction: &Prediction, finding: &Finding, report: &Report) -> String {
    expected_latency(prediction, finding, report) + &throughput(prediction)
}

/// Returns a sentence on the latency to expect after the change of a finding.
pub(super) fn expected_latency(
    prediction: &Prediction,
    finding: &Finding,
    report: &Report,
) -> String {
    let figure = |name: &str, of: fn(&PredictedLatency) -> u64| {
        let then = quantity::duration(of(&prediction.latency_ns));
        let now = prediction.measured_ns.as_ref().map(of);
        match now.map(quantity::duration) {
            Some(now) if now == then => format!("{name} stays {now}"),
            Some(now) => format!("{name} {then} instead of {now}"),
            None => format!("{name} {then}"),
        }
    };
    format!(
        "{}, {}, {}",
        figure("p50", |latency| latency.p50),
        figure("p99", |latency| latency.p99),
        given(prediction, finding, report)
    )
}

/// Returns the sentences on the conditions of a prediction.
pub(super) fn conditions(prediction: &Prediction, finding: &Finding, report: &Report) -> String {
    words::capitalized(&given(prediction, finding, report)) + &throughput(prediction)
}

fn given(prediction: &Prediction, finding: &Finding, report: &Report) -> String {
    format!(
        "at the same load ({}){}.",
        quantity::rate(prediction.at_rate),
        population(finding, report)
    )
}

/// Returns a sentence on the throughput of clients that wait for each response; empty if it stays
/// the same.
fn throughput(prediction: &Prediction) -> String {
    let Some((low, high)) = prediction.closed_loop_rate else {
        return String::new();
    };
    let (low, high) = (quantity::rate(low), quantity::rough_rate(high));
    if low == high {
        return String::new();
    }
    let trip = match prediction.outside_ns {
        outside if outside > prediction.latency_ns.p50 => {
            let outside = quantity::duration(outside);
            format!(" (each request also takes {outside} outside the capture)")
        }
        _ => String::new(),
    };
    format!(
        " If clients wait for each response before their next request, the throughput may rise \
         from {low} to at most {high}{trip}."
    )
}

/// Describes the requests that the figures of a prediction apply to; empty if these are all
/// requests of the report.
fn population(finding: &Finding, report: &Report) -> String {
    let [one, many] = finding.unit.words();
    let requests = quantity::counted(finding.affected.of, one, many);
    if report.exchanges.measured_by != "packets" && report.capture.is_some() {
        format!(", for the {requests} whose packets were seen")
    } else if report.account.len() > 1 {
        format!(", for the {requests} to {}", finding.service)
    } else {
        String::new()
    }
}
