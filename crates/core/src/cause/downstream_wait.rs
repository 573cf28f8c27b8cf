//! `downstream-wait`.

use super::evidence::{self, fix, human, median, percent, ruled_out};
use super::served::{self, Place};
use super::tally::Tally;
use super::upstream::{Role, Upstream, claimed};
use super::{Case, Conclusion, Id};
use crate::report::{Evidence, EvidenceKind, Finding, Fix};
use crate::wait::Owner;

/// A server whose think time is the time of a request that it makes itself,
/// which the same capture holds.
///
/// The discriminator is that request: it begins right after the one in front
/// came, it takes most of its time, and its own server thinks. Without that leg
/// in the capture it is `server-think`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn merge(&mut self, _: Self) {}

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        match claimed(case, &[Role::Thinks]) {
            Some((upstream, _, tally)) => {
                Conclusion::Finding(Box::new(finding(case, upstream, tally)))
            }
            None => served::finding(Id::DownstreamWait, case, |place| {
                matches!(place, Place::Asked(_))
            })
            .map(|(finding, place)| watched(finding, place))
            .into(),
        }
    }
}

/// One whose own kernel showed whom its threads asked.
fn watched(mut finding: Finding, place: Place) -> Finding {
    let behind = match place {
        Place::Asked(Some(whom)) => whom.to_string(),
        _ => "another socket of the host".to_owned(),
    };
    finding.summary += &format!(
        " between a request of its own to {behind} and the answer: it is late because that one is."
    );
    finding.overturned_by =
        format!("the server's log showing that what it asks of {behind} is not for these requests");
    finding.fix = changes(&behind);
    finding
}

fn finding(case: &Case<'_>, upstream: &Upstream, tally: &Tally) -> Finding {
    let mut finding = evidence::finding(Id::DownstreamWait, Owner::Server, case, tally);
    finding.exemplars = case.ledger.slowest.exemplars();
    let behind = upstream.endpoint;
    let text = format!(
        "{} of its requests were followed to {behind}, which took {} (median) of the {} that its \
         own clients waited",
        upstream.pairs.len(),
        human(upstream.median(|pair| pair.back.think())),
        human(upstream.median(|pair| pair.front.think())),
    );
    finding.evidence.push(
        Evidence::mechanism(EvidenceKind::Wire, text)
            .count(tally.affected)
            .median(&tally.saved)
            .packets(&evidence::answers(&finding.exemplars)),
    );
    finding.verdict = evidence::judge(&finding.evidence, tally.affected, false);
    finding.summary = format!(
        "The server answers late because {behind} does, which it asks for each request: {} \
         (median), {} of all request time. Its own part is small.",
        median(&tally.saved),
        percent(finding.share),
    );
    finding.ruled_out.push(ruled_out(
        Id::ServerThink,
        format!("the time passes between its request to {behind} and the answer"),
    ));
    finding.overturned_by =
        format!("the server's log showing that what it asks of {behind} is not for these requests");
    finding.fix = changes(&behind.to_string());
    finding
}

fn changes(behind: &str) -> Vec<Fix> {
    vec![
        fix(
            behind,
            "find what it does in that time: the diagnosis of its own requests",
        ),
        fix(
            "server",
            "ask it less often (a cache), or side by side instead of one after the other",
        ),
    ]
}
