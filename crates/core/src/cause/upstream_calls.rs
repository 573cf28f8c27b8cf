//! The rule of the cause `upstream-calls`.

use super::behind::{CallDelay, DelayReason, FEW_FAR, MANY, claimed};
use super::evidence::{human, median};
use super::served::KernelCalls;
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

/// The wording if only the server's own kernel saw the calls.
const WATCHED: Wording = Wording {
    summary: " between its calls to {behind} and their answers: {calls} calls for each request (mean), \
              one call after another, {each} each.{split}",
    ruled_out: &[],
    ..WORDING
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
        let delay = claimed(case, &[DelayReason::Repeats]);
        let told = delay.map(|delay| claim(case, delay));
        told.or_else(|| watched(case)).into()
    }
}

/// Returns true if a request has so many calls that their number is the reason of its time: from fewer
/// ones on if most of each is the way.
pub(super) fn are_many(calls: &KernelCalls) -> bool {
    let many = if calls.may_be_far() { FEW_FAR } else { MANY };
    calls.calls >= many as f64 && !calls.contain_setups() && !calls.are_unanswered()
}

/// Returns the claim on calls that only the server's kernel saw.
fn watched(case: &Case<'_>) -> Option<Claim> {
    let calls = KernelCalls::of(case).filter(are_many)?;
    let mut claim = calls.claim(Id::UpstreamCalls, case)?;
    let behind = calls.name();
    let own = human(calls.each.saturating_sub(calls.way));
    let split = if calls.way.is_zero() {
        String::new()
    } else if calls.may_be_far() {
        format!(" Most of that may be the way to {behind}.")
    } else {
        format!(" {behind} itself takes about {own} of each.")
    };
    WATCHED.tell(
        &mut claim,
        &[
            ("behind", &behind),
            ("calls", &format!("{:.0}", calls.calls)),
            ("each", &human(calls.each)),
            ("split", &split),
        ],
    );
    Some(claim)
}

fn claim(case: &Case<'_>, delay: &CallDelay) -> Claim {
    let text = format!(
        "{} calls to {} fill the wait in {}: the first begins soon after the server has the request, \
         and its answer leaves soon after the last",
        delay.calls,
        delay.behind,
        counted(delay.tally.affected, "request", "requests"),
    );
    let mut claim = delay.claim(Id::UpstreamCalls, case, text);
    WORDING.tell(
        &mut claim,
        &[
            ("behind", &delay.behind),
            ("calls", &delay.calls),
            ("each", &human(delay.each)),
            ("took", &median(&delay.tally.saved)),
            ("split", &split(delay)),
        ],
    );
    claim
}

/// Returns a sentence on the callee's own part of each call.
fn split(delay: &CallDelay) -> String {
    let (behind, own) = (delay.behind, human(delay.own));
    let is_mostly_way = delay.each.saturating_sub(delay.own) > delay.own;
    if delay.may_be_far {
        format!("How much of that is the way to {behind} is not known: only its answers were seen.")
    } else if delay.own.is_zero() {
        format!("All of that is the way to {behind}.")
    } else if is_mostly_way {
        format!("{behind} itself takes {own} of each; the rest is the way there.")
    } else {
        format!("{behind} itself takes {own} of each.")
    }
}
