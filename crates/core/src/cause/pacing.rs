//! `pacing`.
//!
//! Told from `bandwidth-limit` by the absence of a queue: the time on the way
//! stays the least (the sender's own stamps, or the ACKs at the sender, show
//! it). Told from a program that writes at a rate by full segments.

use core::time::Duration;

use super::evidence::{fix, ruled_out};
use super::limited::{
    Kind, Limited, Messages, beyond_slow_start, bits, found, message, name, share,
};
use super::{Case, Id};
use crate::delivery::{Delivery, Limit};
use crate::exchange::Side;
use crate::report::Finding;

/// Watches messages that leave at a constant rate.
pub(crate) type Rule = Limited<Paced>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Paced;

impl Kind for Paced {
    fn cost(delivery: &Delivery) -> Option<Duration> {
        (delivery.limit == Limit::Pacing).then(|| beyond_slow_start(delivery))
    }

    fn finding(case: &Case<'_>, sender: Side, messages: &Messages, worst: &Delivery) -> Finding {
        let from = name(sender);
        let rate = bits(worst.rate.unwrap_or_default());
        let seen = format!(
            "full segments of the {from} left at a constant {rate}, {} times with nothing to wait for: \
             the window open, and no queue on the way",
            messages.stops
        );
        let mut finding = found(Id::Pacing, sender, case, messages, worst, seen);
        finding.summary = format!(
            "The {from}'s kernel spaces the segments of its {} to {rate}, although neither the path nor \
             a window asks for it: {}.",
            message(sender),
            share(messages, &finding)
        );
        finding.ruled_out.push(ruled_out(
            Id::BandwidthLimit,
            "nothing queued: the time on the way did not grow",
        ));
        finding.ruled_out.push(ruled_out(
            Id::RateLimit,
            "it stopped behind full segments, not at the ends of writes",
        ));
        finding.overturned_by =
            format!("`ss -ti` at the {from} showing a pacing_rate far above {rate}");
        finding.fix = vec![
            fix(
                from,
                "look for SO_MAX_PACING_RATE (systemd, HAProxy, nginx modules, video servers) and raise it",
            ),
            fix(
                from,
                "tc qdisc show: fq's maxrate; BBR: see what made its bandwidth estimate low",
            ),
        ];
        finding
    }
}
