//! `path-jitter`: some round trips take far longer than the minimum, by the sender's own clock,
//! while most do not, and without a pattern: there is no queue that load fills, no step, and no
//! pause before the late ones.

use super::evidence::{self, human, median, percent};
use super::path_queueing::grown_handshakes;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::exchange::wait::Owner;
use crate::report::{Evidence, EvidenceKind};

const WORDING: Wording = Wording {
    summary: "The path delays some packets and not others: beside a least round trip of {least}, \
        {late_part} of the requests took {saved} (median) longer.",
    ruled_out: &[(
        Id::PathQueueing,
        "one delay does not tell the next, and most packets are as quick as the least",
    )],
    overturned_by: "a capture at the server that shows these answers leaving late",
    fix: &[
        (
            "path",
            "find the hop that adds it (mtr, probes at rest): a wireless link, a busy virtual switch, a router's slow path",
        ),
        ("client", "time-outs and hedged requests that bear it"),
    ],
};

/// The wording for delays that are also visible by the sender's clock.
const BY_CLOCK: Wording = Wording {
    ruled_out: &[
        WORDING.ruled_out[0],
        (
            Id::ServerThink,
            "the server's clock had gone on less than ours: its answers were on the way",
        ),
    ],
    ..WORDING
};

/// Watches round trips that exceed the minimum now and then.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn merge(&mut self, _: Self) {}

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let trips = &case.gathered.trips;
        // Delays on the path to the server are counted as well, but only replies that came back
        // late, by the server's clock, show that the path was the reason. A client that stalls for
        // a moment receives all packets in flight late.
        let is_seen = trips.tally.affected >= evidence::REPEATS
            && trips.is_material(case, &trips.tally)
            && evidence::recurs(case, &trips.tally);
        let is_other = trips.is_queue(case.ledger.count)
            || trips.step().is_some()
            || trips.are_beside(case.uploads)
            || grown_handshakes(case).is_some();
        if !is_seen || is_other {
            return Conclusion::Nothing;
        }
        let tally = &trips.jittered();
        let mut finding = evidence::finding(Id::PathJitter, Owner::Path, case, tally);
        let least = human(trips.least_of_late(case));
        trips.share(case, tally, &mut finding);
        let (count, by) = (trips.tally.affected, median(&trips.tally.saved));
        let is_by_clock = trips.is_by_clock();
        let text = match (trips.is_outside(), is_by_clock) {
            (true, true) => format!(
                "{count} requests came or responses were acknowledged {by} (median) later than the \
                 least round trip of {least}, after the client's clock says that they were on the \
                 way; the others did not"
            ),
            (false, true) => format!(
                "{count} answers came {by} (median) later than the least round trip of {least}, \
                 after their sender's clock says it had sent them; the others did not"
            ),
            (true, false) => format!(
                "{count} responses were acknowledged {by} (median) later than the least round trip \
                 of {least}; the others were not"
            ),
            (false, false) => format!(
                "{count} requests were acknowledged by the server's kernel {by} (median) later than \
                 the least round trip of {least}; the others were not"
            ),
        };
        finding.evidence.push(
            Evidence::mechanism(EvidenceKind::Wire, text)
                .count(trips.tally.affected)
                .median(&trips.tally.saved),
        );
        finding.verdict = evidence::judge(
            &finding.evidence,
            trips.tally.affected,
            case.ledger.is_unowed() || !is_by_clock,
        );
        let wording = if is_by_clock { &BY_CLOCK } else { &WORDING };
        wording.tell(
            &mut finding,
            &[
                ("least", &least),
                (
                    "late_part",
                    &percent(tally.affected as f64 / case.ledger.count.max(1) as f64),
                ),
                ("saved", &median(&tally.saved)),
            ],
        );
        Conclusion::Finding(Box::new(finding))
    }
}
