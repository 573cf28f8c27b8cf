//! `path-jitter`: some round trips take far longer than the minimum by the sender's own clock, and
//! most do not. There is no pattern: no queue that the load fills, no lasting step, and no pause
//! before the late ones.

use super::evidence::{self, human, median, percent};
use super::path_queueing::grown_handshakes;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Statement};
use crate::exchange::wait::Owner;
use crate::report::{EvidenceKind, counted};
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The path delays some packets and not others: with a minimum round trip of {least}, \
        {late_part} of the requests took {saved} (median) longer.",
    ruled_out: &[(
        Id::PathQueueing,
        "one packet's delay does not predict the next one's, and most packets are as fast as the \
         fastest",
    )],
    overturned_by: "a capture at the server that shows these answers leaving late",
    fix: &[
        (
            "path",
            "find the hop that adds it (mtr, probes without load): a wireless link, a busy virtual \
             switch, a router's slow path",
        ),
        (
            "client",
            "choose timeouts and hedged requests that tolerate the jitter",
        ),
    ],
};

/// The wording if the sender's clock also shows the delays.
const BY_CLOCK: Wording = Wording {
    ruled_out: &[
        WORDING.ruled_out[0],
        (
            Id::ServerThink,
            "the server's timestamps advanced less than lagtrace's clock: the answers were on the \
             path",
        ),
    ],
    ..WORDING
};

/// The wording if many requests are delayed before a capture at the server, and only a few of them
/// by as much as the minimum round trip.
const VARYING: Wording = Wording {
    summary: "The path delays some packets and not others: {late_part} of the requests were under \
              way for {saved} (median) longer than the minimum round trip of {least} explains.",
    ruled_out: &[(
        Id::PathQueueing,
        "a queue that stands delays all packets; {rest} of the requests came without any delay",
    )],
    ..WORDING
};

/// Watches round trips that are late now and then.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let trips = &case.gathered.trips;
        // Delays on the way to the server are also counted. But only a reply that is late by the
        // server's clock shows that the path was the reason. If a client stalls, all packets that
        // were in flight seem late, so delays must recur.
        let is_seen = trips.tally.affected >= evidence::REPEATS
            && trips.is_material(case, &trips.tally)
            && evidence::recurs(case, &trips.tally);
        // A capture at the server shows the requests' delays by the client's clock, however short.
        let late = if is_seen {
            &trips.tally
        } else {
            match trips.late_outside() {
                Some(late) if trips.vary_outside(case) => late,
                _ => return Conclusion::Nothing,
            }
        };
        let is_other = trips.is_queue(case.ledger.counts.count)
            || trips.step().is_some()
            || trips.are_beside(case.uploads)
            || grown_handshakes(case).is_some();
        if is_other {
            return Conclusion::Nothing;
        }
        let tally = &trips.jittered();
        let mut claim = evidence::claim(Id::PathJitter, Owner::Path, case, tally);
        let least = human(trips.least_of_late(case));
        trips.share(case, tally, &mut claim);
        let (count, by) = (late.affected, median(&late.saved));
        let is_by_clock = trips.is_by_clock();
        let text = match (trips.is_outside(), is_by_clock) {
            (true, true) => format!(
                "{}, or the ACKs of responses, arrived {by} (median) later than the minimum round \
                 trip of {least} explains; the client's timestamps show that this time passed on \
                 the path; the others were not late",
                counted(count, "request", "requests"),
            ),
            (false, true) => format!(
                "{} came {by} (median) later than the minimum round trip of {least} explains; the \
                 sender's timestamps show that this time passed on the path; the other answers \
                 were not delayed on their way back",
                counted(count, "answer", "answers"),
            ),
            (true, false) => format!(
                "{}, or the ACKs of responses, arrived {by} (median) later than the minimum round \
                 trip of {least} explains; the others were not late",
                counted(count, "request", "requests"),
            ),
            (false, false) => format!(
                "{} acknowledged by the server's kernel {by} (median) later than the minimum round \
                 trip of {least} allows; the others were not",
                counted(count, "request was", "requests were"),
            ),
        };
        claim.evidence.push(
            Statement::shows(EvidenceKind::Wire, text)
                .count(late.affected)
                .median(&late.saved),
        );
        claim.basis = Basis::new(
            late.affected,
            case.ledger.is_unowed() || !is_by_clock || evidence::is_stall(late),
        );
        let wording = match (is_seen, is_by_clock) {
            (false, _) => &VARYING,
            (true, true) => &BY_CLOCK,
            (true, false) => &WORDING,
        };
        let delayed = tally.affected as f64 / case.ledger.counts.count.max(1) as f64;
        wording.tell(
            &mut claim,
            &[
                ("least", &least),
                ("late_part", &percent(delayed)),
                ("rest", &percent(1.0 - delayed)),
                ("saved", &median(&tally.saved)),
            ],
        );
        Conclusion::Claim(Box::new(claim))
    }
}
