//! `route-change`: at one time, the round-trip times of all connections change to another level and
//! stay there. The delay of a queue would vary.

use super::evidence::{self, human};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Statement};
use crate::exchange::wait::Owner;
use crate::report::EvidenceKind;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The route changed {into} after the first request: the minimum round trip was \
        {before} before that and {after} after it{hops}.",
    ruled_out: &[
        (
            Id::PathQueueing,
            "a queue varies with the load; these round trips keep to two levels",
        ),
        (
            Id::ServerThink,
            "the server's timestamps show that the answers were still on the path",
        ),
    ],
    overturned_by: "traceroutes from before and after that show the same hops and delays",
    fix: &[
        (
            "path",
            "compare traceroutes (mtr -T) of both times and ask whose link or peering went down",
        ),
        (
            "client",
            "if the longer route stays: fewer round trips, or a nearer server",
        ),
    ],
};

/// Watches for a lasting step in the round-trip times.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let tally = &case.gathered.trips.beyond;
        let Some(step) = case.gathered.trips.step() else {
            return Conclusion::Nothing;
        };
        if !case.gathered.trips.is_material(case, tally) {
            return Conclusion::Nothing;
        }
        let mut claim = evidence::claim(Id::RouteChange, Owner::Path, case, tally);
        case.gathered.trips.share(case, tally, &mut claim);
        let hops = match step.ttl {
            Some((was, is)) => format!(", and answers arrive with a TTL of {is} instead of {was}"),
            None => String::new(),
        };
        let (before, after) = (human(step.before), human(step.after));
        let begun = case.ledger.span.map_or(step.at, |(begin, _)| begin);
        let into = human(step.at.since(begun));
        let text = format!(
            "{into} after the first request the round trips go from {before} to {after} (medians) \
             on all connections, and stay there{hops}"
        );
        claim.evidence.push(
            Statement::shows(EvidenceKind::Wire, text)
                .count(tally.affected)
                .median(&tally.saved),
        );
        claim.basis = Basis::new(tally.affected, step.ttl.is_none());
        WORDING.tell(
            &mut claim,
            &[
                ("into", &into),
                ("before", &before),
                ("after", &after),
                ("hops", &hops),
            ],
        );
        Conclusion::Claim(Box::new(claim))
    }
}
