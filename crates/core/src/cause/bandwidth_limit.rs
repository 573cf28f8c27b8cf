//! `bandwidth-limit`.
//!
//! Told from `pacing` and from limits by configuration by its queue: what is
//! sent faster than the rate waits on the way, and arrives evenly spaced, or
//! its ACKs do.

use core::time::Duration;

use super::evidence::{fix, human, ruled_out};
use super::limited::{
    Kind, Limited, Messages, beyond_slow_start, bits, bytes, found, message, share, standing,
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
        let is_limit = delivery.limit == Limit::Bottleneck || standing(delivery).is_some();
        is_limit.then(|| beyond_slow_start(delivery))
    }

    fn finding(case: &Case<'_>, sender: Side, messages: &Messages, worst: &Delivery) -> Finding {
        let queued = standing(worst);
        let even = worst.bytes as f64 / worst.stopped.as_secs_f64().max(1e-9);
        let rate = bits(worst.rate.unwrap_or(even));
        let seen = match queued {
            Some(queued) => format!(
                "{} bytes went through at {rate}, with a full receiver's window ({}) in flight: \
                 each byte was acknowledged {} after it was sent, on a path with a round trip of \
                 {}, so it waited in a queue",
                worst.bytes,
                bytes(worst.windows[0]),
                human(queued),
                human(worst.round_trip)
            ),
            None => format!(
                "{} bytes went through at a constant {rate}, evenly spaced, and waited in a \
                 queue before",
                worst.bytes
            ),
        };
        let mut finding = found(Id::BandwidthLimit, sender, case, messages, worst, seen);
        finding.culprit = Owner::Path;
        finding.summary = format!(
            "The path carries {rate}: a {} of {} takes its bytes by that rate, whatever the ends \
             do. \
             Beyond slow start that is {}.",
            message(case, sender),
            bytes(worst.bytes),
            share(messages, &finding)
        );
        finding.ruled_out.push(ruled_out(
            Id::Pacing,
            "segments left faster than they came through: they queued",
        ));
        let because = match queued {
            Some(_) => "a larger window would only have made the queue longer",
            None => "the window had room for more",
        };
        finding
            .ruled_out
            .push(ruled_out(Id::ReceiveWindow, because));
        finding.overturned_by =
            "a faster transfer over the same path at the same time of day, or a shaper on the \
             sender's own device"
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
                    message(case, sender)
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
