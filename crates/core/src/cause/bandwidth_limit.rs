//! `bandwidth-limit`.
//!
//! Told from `pacing` and from limits by configuration by its queue: what is
//! sent faster than the rate waits on the way, and arrives evenly spaced, or
//! its ACKs do.

use core::time::Duration;

use super::evidence::{fix, ruled_out};
use super::limited::{
    Kind, Limited, Messages, beyond_slow_start, bits, bytes, found, message, share,
};
use super::{Case, Id};
use crate::delivery::{Delivery, Limit};
use crate::exchange::Side;
use crate::report::Finding;
use crate::wait::Owner;

/// Watches messages that a queue lets through at a constant rate.
pub(crate) type Rule = Limited<Bottleneck>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Bottleneck;

impl Kind for Bottleneck {
    fn cost(delivery: &Delivery) -> Option<Duration> {
        (delivery.limit == Limit::Bottleneck).then(|| beyond_slow_start(delivery))
    }

    fn finding(case: &Case<'_>, sender: Side, messages: &Messages, worst: &Delivery) -> Finding {
        let rate = bits(worst.rate.unwrap_or_default());
        let seen = format!(
            "{} bytes went through at a constant {rate}, evenly spaced, and waited in a queue before",
            worst.bytes
        );
        let mut finding = found(Id::BandwidthLimit, sender, case, messages, worst, seen);
        finding.culprit = Owner::Path;
        finding.summary = format!(
            "The path carries {rate}: a {} of {} takes its bytes by that rate, whatever the ends do. \
             Beyond slow start that is {}.",
            message(sender),
            bytes(worst.bytes),
            share(messages, &finding)
        );
        finding.ruled_out.push(ruled_out(
            Id::Pacing,
            "segments left faster than they came through: they queued",
        ));
        finding
            .ruled_out
            .push(ruled_out(Id::ReceiveWindow, "the window had room for more"));
        finding.overturned_by =
            "a faster transfer over the same path at the same time of day, or a shaper on the sender's own device"
                .to_owned();
        finding.fix = vec![
            fix(
                "path",
                "more bandwidth at the slowest link, or less other traffic there",
            ),
            fix(
                "server",
                format!(
                    "smaller {}s: compress, send fewer fields, cache",
                    message(sender)
                ),
            ),
            fix(
                "path",
                "fq_codel or CAKE before the link keeps short exchanges quick meanwhile",
            ),
        ];
        finding
    }
}
