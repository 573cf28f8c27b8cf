//! The rule of the cause `nagle-delayed-ack-request`.

use super::evidence::{self, median};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::Basis;
use crate::exchange::wait::Owner;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The client writes its request in small parts. Nagle's algorithm holds each until the \
              server acknowledges the previous one, and the server's kernel delays that ACK, \
              typically by {delay}. This costs {share} of all request time, and the server's own \
              log does not show it.",
    ruled_out: &[(
        Id::SlowRequestUpload,
        "a client that pauses would not wait for the ACK, but {released} parts left as soon as it \
         arrived, {late} later and {eager} before it",
    )],
    overturned_by: "a small segment of this client leaving while an earlier small one is unacknowledged",
    fix: &[
        ("client", "set {TCP_NODELAY} on the connection"),
        ("client", "or write the request's head and body in one call"),
    ],
};

/// Watches small segments of requests that follow other small segments.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let held = &case.gathered.held_requests;
        let is_seen = held.is_by_acknowledgement() && held.is_delayed();
        if !is_seen || !evidence::is_material(case, &held.tally) {
            return Conclusion::Nothing;
        }
        let mut claim =
            evidence::claim(Id::NagleDelayedAckRequest, Owner::Client, case, &held.tally);
        claim.time.cost.low = case.weigh(held.cost_low_ns());
        claim.evidence.push(held.wire("client", "server"));
        claim.basis = Basis::new(held.delayed, false);
        WORDING.tell(
            &mut claim,
            &[
                ("delay", &median(&held.ack_delay)),
                ("released", &held.released()),
                ("late", &held.late),
                ("eager", &held.eager),
            ],
        );
        Conclusion::Claim(Box::new(claim))
    }
}
