//! `route-change`: at one instant the round trips of all connections take
//! another level and keep to it. A queue wavers; a route does not.

use super::evidence::{self, fix, human, ruled_out};
use super::{Case, Conclusion, Id};
use crate::report::{Evidence, EvidenceKind};
use crate::wait::Owner;

/// Watches for a step in the round trips.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn merge(&mut self, _: Self) {}

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let tally = &case.gathered.trips.beyond;
        let Some(step) = case.gathered.trips.step() else {
            return Conclusion::Nothing;
        };
        if !case.gathered.trips.is_material(case, tally) {
            return Conclusion::Nothing;
        }
        let mut finding = evidence::finding(Id::RouteChange, Owner::Path, case, tally);
        case.gathered.trips.share(case, tally, &mut finding);
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
        finding.evidence.push(
            Evidence::mechanism(EvidenceKind::Wire, text)
                .count(tally.affected)
                .median(&tally.saved),
        );
        finding.verdict = evidence::judge(&finding.evidence, tally.affected, step.ttl.is_none());
        finding.summary = format!(
            "The route changed {into} after the first request: the least round trip was {before} \
             on one side of that and {after} on the other{hops}."
        );
        finding.ruled_out = vec![
            ruled_out(
                Id::PathQueueing,
                "a queue wavers with the load; these round trips keep to two levels",
            ),
            ruled_out(
                Id::ServerThink,
                "the server's clock says that its answers were on the way",
            ),
        ];
        finding.overturned_by =
            "traceroutes from before and after that show the same hops and delays".to_owned();
        finding.fix = vec![
            fix(
                "path",
                "compare traceroutes (mtr -T) of both times and ask whose link or peering went down",
            ),
            fix(
                "client",
                "measure with the longer route in mind: fewer round trips, a nearer server",
            ),
        ];
        Conclusion::Finding(Box::new(finding))
    }
}
