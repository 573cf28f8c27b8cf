//! The first finding on the screen: reason, remedy, prediction.

use lagtrace_core::report::{Evidence, Finding, Report, Says};

use crate::render::page::{Page, Tone};
use crate::render::{finding, verdict, words};

use super::room::Room;
use super::time;

/// Writes the reason for the finding and the remedy.
pub(super) fn write(page: &mut Page, cause: &Finding, report: &Report, room: &Room) {
    page.heading("Why");
    page.paragraph(2, Tone::Plain, &cause.summary);
    for piece in strongest(&cause.evidence).take(room.evidence) {
        evidence(page, piece);
    }
    if room.has_doubt {
        page.paragraph(2, Tone::Plain, &doubt(cause));
    }
    finding::fixes(page, cause, room.fixes);
    expectation(page, cause, report, room);
}

/// Writes the owners of the time, the best evidence, the best change and the prediction, each as
/// one paragraph.
pub(super) fn brief(page: &mut Page, cause: &Finding, report: &Report, room: &Room) {
    if room.has_context {
        time(page, report);
    }
    for piece in strongest(&cause.evidence).take(room.evidence) {
        evidence(page, piece);
    }
    if let Some(best) = cause.fix.first() {
        finding::fix(page, "→", best);
    }
    expectation(page, cause, report, room);
}

/// Writes a finding that only locates unexplained time, and the measurements to make next.
pub(super) fn place(page: &mut Page, place: &Finding, room: &Room) {
    page.heading(&place.title);
    page.paragraph(2, Tone::Plain, &place.summary);
    let pieces = place.evidence.iter().take(room.evidence);
    let texts = pieces.map(|piece| words::capitalized(&words::sentence(&piece.text)));
    let doubt = finding::whereabouts(place).into_iter().chain(may_be(place));
    let texts = texts.chain(doubt.filter(|_| room.has_doubt));
    for text in texts {
        page.item(2, "•", Tone::Dim, &[(Tone::Plain, &text)]);
    }
    finding::next(page, &place.next);
}

/// Writes the title and the summary of a finding that only locates unexplained time, and the
/// measurement to make next.
pub(super) fn brief_place(page: &mut Page, place: &Finding) {
    let title = format!("{}:", place.title);
    let spans = [
        (Tone::Strong, title.as_str()),
        (Tone::Plain, &place.summary),
    ];
    page.spans(2, &spans);
    if let Some(next) = place.next.first() {
        finding::fix(page, "→", next);
    }
}

fn evidence(page: &mut Page, piece: &Evidence) {
    let (label, text) = (finding::label(piece), words::sentence(&piece.text));
    let spans = [(Tone::Strong, label.as_str()), (Tone::Plain, &text)];
    page.item(2, "•", Tone::Dim, &spans);
}

fn expectation(page: &mut Page, cause: &Finding, report: &Report, room: &Room) {
    if let Some(prediction) = cause.predicted.as_ref().filter(|_| room.has_expectation) {
        let text = if room.has_throughput {
            finding::expectation(prediction, cause, report)
        } else {
            finding::expected_latency(prediction, cause, report)
        };
        page.item(2, "Expect:", Tone::Good, &[(Tone::Plain, &text)]);
    }
}

/// Returns the evidence in the order of its weight for the verdict. Pieces that show the mechanism
/// come before pieces that only fit. A proof needs two kinds of evidence, so the first piece of
/// each kind comes before a second piece of any kind. Otherwise pieces keep the report's order.
fn strongest(evidence: &[Evidence]) -> impl Iterator<Item = &Evidence> {
    let rank = |(at, piece): (usize, &Evidence)| {
        let earlier = evidence.iter().take(at);
        let of_kind = earlier.filter(|other| other.kind == piece.kind).count();
        (!piece.shows_mechanism, of_kind, at)
    };
    let mut ranks: Vec<_> = evidence.iter().enumerate().map(rank).collect();
    ranks.sort_unstable();
    ranks.into_iter().filter_map(|(_, _, at)| evidence.get(at))
}

/// Returns sentences on the strength of the proof, contrary evidence and other candidates.
fn doubt(cause: &Finding) -> String {
    let proof = Some(verdict::proof(cause)).filter(|proof| !proof.is_empty());
    let all = proof.into_iter().chain(verdict::whereabouts(cause));
    let all = all.chain(against(cause)).chain(may_be(cause));
    all.collect::<Vec<_>>().join(" ")
}

fn against(cause: &Finding) -> Option<String> {
    let against = cause.witnesses.iter();
    let against = against.filter(|witness| witness.says == Says::Contradicts);
    let kinds: Vec<_> = against
        .map(|witness| words::evidence(witness.kind))
        .collect();
    (!kinds.is_empty()).then(|| format!("Against it: {}.", words::list(&kinds)))
}

fn may_be(cause: &Finding) -> Option<String> {
    let candidates = cause.candidates.iter();
    let ids: Vec<_> = candidates.map(|one| one.cause.to_string()).collect();
    (!ids.is_empty()).then(|| format!("Possible causes: {}.", words::list(&ids)))
}
