//! The rule of the cause `path-queueing`.

use core::time::Duration;

use super::evidence::{self, human, median};
use super::trips::{FACTOR, LATE_BY};
use super::wording::Wording;
use super::{Case, Conclusion, Id, beside};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::wait::{Owner, WaitKind};
use crate::facts::Facts;
use crate::observed::event::{ProbeMethod, TargetId};
use crate::report::{EvidenceKind, counted};
use crate::service::tally::Tally;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "Packets queue on the path: queueing adds {saved} (median of the affected requests) to \
        the round trip of {least}, {share} of all request time.",
    ruled_out: &[(
        Id::ServerThink,
        "the server's kernel answers before its program does, and the kernel's answers came late",
    )],
    overturned_by: "round trips to other hosts over the same path staying short during this time",
    fix: &[
        (
            "path",
            "find the hop whose delay grows with load; fq_codel or CAKE there, shaped below its \
             rate",
        ),
        ("server", "pace what it sends (fq, BBR)"),
    ],
};

/// The wording for requests that wait behind an upload of the same client.
const BEHIND_UPLOAD: Wording = Wording {
    summary: "Requests wait in a queue on the path to the server, behind data that the client \
        uploads there: {saved} (median) each, {share} of all request time.",
    ruled_out: &[],
    overturned_by: "a capture at the server that shows these requests arriving without delay: then \
        the upload keeps the server itself busy",
    fix: &[
        (
            "path",
            "fq_codel or CAKE before the slow link, shaped below its rate",
        ),
        ("client", "pace the upload (BBR, SO_MAX_PACING_RATE)"),
    ],
};

/// The wording for delays outside the exchanges.
const OUTSIDE: Wording = Wording {
    ruled_out: &[(Id::ServerThink, "the server had answered")],
    ..WORDING
};

/// The wording if neither handshakes nor the senders' clocks show where the acknowledgements were
/// late.
const BY_ACKS_ALONE: Wording = Wording {
    summary: "Acknowledgements come late, as they do behind a queue on the path: {saved} (median of \
        the affected requests) more than the round trip of {least}, {share} of all request time. A \
        host whose processors are all busy acknowledges late as well.",
    overturned_by: "the peer's host being short of processors during this time, or round trips to \
        other hosts over the same path staying short",
    fix: &[
        WORDING.fix[0],
        (
            "server",
            "see if its processors are all busy (`vmstat 1`, /proc/pressure/cpu): then its kernel \
             is late, and not the path",
        ),
    ],
    ..WORDING
};

/// Minimum share of exchanges that wait in the queue. If there are fewer, the delay was a short
/// event.
const SHARE: f64 = 0.05;

/// Watches round trips that are longer than the minimum.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let trips = &case.gathered.trips;
        let probed = loaded_probes(case);
        if let Some(late) = beside::late(case) {
            return Conclusion::Claim(Box::new(behind_upload(case, &late)));
        }
        let is_seen = trips.is_material(case, &trips.tally) && evidence::recurs(case, &trips.tally);
        if !is_seen && probed.is_none() {
            return Conclusion::Nothing;
        }
        // A host that stalls once looks like a queue. A queue under load delays more exchanges, and
        // handshakes too.
        let share = trips.tally.affected as f64 / case.ledger.counts.count.max(1) as f64;
        if probed.is_none() && share < SHARE {
            return Conclusion::Nothing;
        }
        // Delays that come and go, or that begin at one time and stay, are not a queue.
        let is_queue = trips.is_queue(case.ledger.counts.count) || trips.are_beside(case.uploads);
        let is_other = !is_queue || trips.step().is_some();
        if probed.is_none() && is_other {
            return Conclusion::Nothing;
        }
        if !is_seen && trips.tally.affected * 2 < case.ledger.counts.count {
            return Conclusion::Nothing;
        }
        Conclusion::Claim(Box::new(claim(case, probed)))
    }
}

/// Returns the claim on requests that waited behind an upload. Their responses were late, but
/// only the ACKs of the upload show the queue.
fn behind_upload(case: &Case<'_>, late: &Tally) -> Claim {
    let mut claim = evidence::claim(Id::PathQueueing, Owner::Path, case, late);
    claim.time.waits = vec![WaitKind::ServerThink];
    let text = format!(
        "{} answered {} (median) late while an upload to the same server was running, and the \
         others were not; the acknowledgement of such an upload's last byte came {} later than the \
         round trip takes",
        counted(late.affected, "request was", "requests were"),
        median(&late.saved),
        human(case.uploads.queue()),
    );
    claim.evidence.push(
        Statement::fits(EvidenceKind::Wire, text)
            .count(late.affected)
            .median(&late.saved),
    );
    BEHIND_UPLOAD.tell(&mut claim, &[("saved", &median(&late.saved))]);
    claim
}

fn claim(case: &Case<'_>, probed: Option<Statement>) -> Claim {
    let trips = &case.gathered.trips;
    // A handshake is a round trip too, and the connection's first one.
    let least = trips
        .least()
        .into_iter()
        .chain(case.ledger.trips.handshake)
        .min()
        .unwrap_or_default();
    let queued = trips.queued();
    let mut claim = evidence::claim(Id::PathQueueing, Owner::Path, case, &queued);
    trips.share(case, &queued, &mut claim);
    let is_outside = trips.is_outside();
    if is_outside {
        // No wait within the exchanges shows the delay.
        claim.time.waits.clear();
    }
    let what = if is_outside {
        "ACK of the response, which this client does not delay,"
    } else {
        "ACK of the request"
    };
    let text = format!(
        "in {} the {what} came {} (median) later than the minimum round trip of {} explains",
        counted(trips.tally.affected, "exchange", "exchanges"),
        median(&trips.tally.saved),
        human(least),
    );
    claim.evidence.push(
        Statement::shows(EvidenceKind::Wire, text)
            .count(trips.tally.affected)
            .median(&trips.tally.saved),
    );
    // A host that stalls, or whose processors are all busy, acknowledges late as well. Handshakes
    // under load, or the senders' clocks, show that it was the path.
    let may_be_host =
        probed.is_none() && (!trips.is_by_clock() || evidence::is_stall(&trips.tally));
    claim.evidence.extend(probed);
    claim.basis = Basis::new(trips.tally.affected, case.ledger.is_unowed() || may_be_host);
    let wording = match (may_be_host, is_outside) {
        (true, false) => &BY_ACKS_ALONE,
        (_, true) => &OUTSIDE,
        (false, false) => &WORDING,
    };
    wording.tell(
        &mut claim,
        &[
            ("least", &human(least)),
            ("saved", &median(&trips.tally.saved)),
        ],
    );
    claim
}

/// Returns the median durations of handshakes without load and under load, if the load made them
/// much longer. No program delays handshakes.
pub(crate) fn grown_handshakes(case: &Case<'_>) -> Option<(Duration, Duration)> {
    grown(case.facts, case.target.unwrap_or(TargetId::Subject))
}

/// Returns the result of [`grown_handshakes`] for one target.
pub(crate) fn grown(facts: &Facts, target: TargetId) -> Option<(Duration, Duration)> {
    let median_of = |method, is_loaded| {
        facts
            .probes_of(target, method, is_loaded)?
            .rtt
            .quantile(0.5)
    };
    [ProbeMethod::TcpSyn, ProbeMethod::TcpConnect]
        .into_iter()
        .find_map(|method| Some((median_of(method, false)?, median_of(method, true)?)))
        .filter(|&(idle, loaded)| loaded.saturating_sub(idle) >= LATE_BY && loaded >= idle * FACTOR)
}

fn loaded_probes(case: &Case<'_>) -> Option<Statement> {
    let (idle, loaded) = grown_handshakes(case)?;
    let text = format!(
        "handshakes took {} (median) when idle and {} while the load ran",
        human(idle),
        human(loaded)
    );
    Some(Statement::shows(EvidenceKind::OwnSocket, text))
}
