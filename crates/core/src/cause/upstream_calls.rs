//! The rule of the cause `upstream-calls`.

use core::time::Duration;

use super::behind::{BehindRole, Told, claimed};
use super::evidence::{human, median};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::Claim;
use crate::report::counted;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "For each of these requests the server calls {behind} {calls} times (median), one call \
              after another, {each} each: {took} (median) in all, {share} of all request time. {split}",
    ruled_out: &[(
        Id::ServerThink,
        "the calls fill the time between the request and its answer",
    )],
    overturned_by: "the server's log showing that it makes these calls for other requests",
    fix: &[(
        "server",
        "ask for everything in one call or a few (one query with a join or a list of keys, a batch, \
         a pipeline), or make calls that do not depend on each other at the same time",
    )],
};

/// Watches servers whose think time is the sum of many calls to another one.
///
/// The sign is in the capture of the server's host: while the client waits, the host sends many
/// requests of its own, each after the answer to the one before, and they fill the wait. One slow call
/// is `downstream-wait`.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let told = claimed(case, &[BehindRole::Repeats]);
        told.map(|told| claim(case, told)).into()
    }
}

fn claim(case: &Case<'_>, told: &Told) -> Claim {
    let text = format!(
        "{} calls to {} fill the wait in {}: the first begins soon after the server has the request, \
         and its answer leaves soon after the last",
        told.calls,
        told.behind,
        counted(told.tally.affected, "request", "requests"),
    );
    let mut claim = told.claim(Id::UpstreamCalls, case, text);
    WORDING.tell(
        &mut claim,
        &[
            ("behind", &told.behind),
            ("calls", &told.calls),
            ("each", &human(told.each)),
            ("took", &median(&told.tally.saved)),
            ("split", &split(told)),
        ],
    );
    claim
}

/// Returns a sentence on what each call takes.
fn split(told: &Told) -> String {
    let way = told.each.saturating_sub(told.own);
    match way.cmp(&told.own) {
        _ if told.own == Duration::ZERO => format!("All of that is the way to {}.", told.behind),
        core::cmp::Ordering::Greater => format!(
            "{} itself takes {} of each; the rest is the way there.",
            told.behind,
            human(told.own)
        ),
        _ => format!("{} itself takes {} of each.", told.behind, human(told.own)),
    }
}
