//! The rule of the cause `bandwidth-limit`.
//!
//! A queue distinguishes it from `pacing` and from configured limits. Data that is sent faster than
//! the link's rate queues on the path. The data then arrives evenly spaced, or its ACKs do.

use core::time::Duration;

use super::limited::{LimitRule, Limited, Together, beyond_slow_start, standing};
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::Claim;
use crate::exchange::Exchange;
use crate::exchange::Side;
use crate::exchange::delivery::{Delivery, Limit};
use crate::exchange::wait::Owner;
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

/// The evidence in the packets.
const SEEN: &str = "{bytes} bytes passed evenly spaced, at a constant {rate}, after they had \
    waited in a queue";

/// The evidence of a queue that contains the receiver's whole window.
const QUEUED: &str = "{bytes} bytes went through at {rate}, with a full receiver's window ({window}) \
    in flight: each byte was acknowledged {queued} after it was sent, on a path with a round trip \
    of {trip}, so it waited in a queue";

const WORDING: Wording = Wording {
    summary: "The path carries {rate}, so a {message} of {whole} takes at least its size divided \
              by that rate. Compared with the time that slow start alone would take, this costs \
              {cost}. If the capture is at the sender, the cost includes the time in which the \
              last data was queued, which a client does not see.",
    ruled_out: &[
        QUEUEING,
        (Id::ReceiveWindow, "the window had room for more"),
    ],
    overturned_by: "a faster transfer over the same path at the same time of day, or a shaper on \
        the sender's own device",
    fix: &[
        (
            "path",
            "more bandwidth at the slowest link, or less other traffic there",
        ),
        (
            "server",
            "smaller {message}s: compress, send fewer fields, cache",
        ),
        (
            "path",
            "fq_codel or CAKE before the link keeps short exchanges fast during large ones",
        ),
    ],
};

/// The wording for a queue that contains the receiver's whole window.
const FULL_WINDOW: Wording = Wording {
    ruled_out: &[
        QUEUEING,
        (
            Id::ReceiveWindow,
            "a larger window would only have made the queue longer",
        ),
    ],
    ..WORDING
};

/// The evidence of a queue that messages pass at an uneven rate, or several at a time.
const SEEN_TOGETHER: &str = "{messages}, {at_a_time} at a time (mean), came through a \
    queue, {all_bytes} in all, together at {whole_rate}: full segments waited there {stops} times \
    although the window was open";

/// The wording for messages at an uneven rate, or for several at a time.
const TOGETHER: Wording = Wording {
    summary: "The path carries at least {whole_rate}, with {at_a_time} {message}s at a time (mean). \
              Compared with the time that slow start alone would take, this costs {cost}. If \
              the capture is at the sender, the cost includes the time in which the last data was \
              queued, which a client does not see.",
    ..WORDING
};

/// The mean number of messages at a time from which they count as sharing the path.
const SHARING: f64 = 1.5;

/// Minimum ratio of the messages' rate together to the rate at which the queue lets segments of one
/// message follow each other. A lower ratio means that nothing was sent for much of the time, that
/// other data passed the link, or that the path delayed packets without a limited rate.
const BUSY: f64 = 0.5;

/// The evidence against `pacing`.
const QUEUEING: (Id, &str) = (
    Id::Pacing,
    "segments left faster than they came through: they queued",
);

/// Watches messages that pass a queue on the path.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    /// The messages at a constant rate of their own.
    even: Limited<Bottleneck<true>>,
    /// All messages.
    all: Limited<Bottleneck<false>>,
    /// The rates at which queued segments of the other messages followed each other. One nanosecond
    /// means one byte per second.
    bursts: Distribution,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::DELIVERIES;

    fn observe(&mut self, exchange: &Exchange) {
        self.even.observe(exchange);
        self.all.observe(exchange);
        let rates = exchange.sending.deliveries.iter();
        for rate in rates.filter_map(|delivery| delivery.burst_rate) {
            self.bursts.record(Duration::from_nanos(rate as u64));
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        if self.is_busy() {
            self.all.conclude(case)
        } else {
            self.even.conclude(case)
        }
    }
}

impl Rule {
    /// Returns true if the messages use the link's rate together, as its queue shows it: the link is
    /// hardly ever idle while they are under way.
    fn is_busy(&self) -> bool {
        let burst = self.bursts.quantile(0.5).map(|rate| rate.as_nanos() as f64);
        burst.is_some_and(|rate| self.all.together().rate >= rate * BUSY)
    }
}

/// Messages that a link limits; only those at a constant rate of their own if `IS_EVEN`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bottleneck<const IS_EVEN: bool>;

impl<const IS_EVEN: bool> LimitRule for Bottleneck<IS_EVEN> {
    const ID: Id = Id::BandwidthLimit;

    fn cost(delivery: &Delivery) -> Option<Duration> {
        let is_limit = delivery.limit == Limit::Bottleneck || standing(delivery).is_some();
        let is_meant = !IS_EVEN || delivery.burst_rate.is_none();
        (is_limit && is_meant).then(|| beyond_slow_start(delivery))
    }

    fn culprit(_: Side) -> Owner {
        Owner::Path
    }

    fn words(worst: &Delivery) -> (&'static str, &'static Wording) {
        match standing(worst) {
            Some(_) => (QUEUED, &FULL_WINDOW),
            None => (SEEN, &WORDING),
        }
    }

    fn words_together(
        worst: &Delivery,
        together: &Together,
    ) -> Option<(&'static str, &'static Wording)> {
        let is_uneven = worst.burst_rate.is_some();
        let is_shared = together.side_by_side >= SHARING;
        (is_uneven || is_shared).then_some((SEEN_TOGETHER, &TOGETHER))
    }

    fn complete(claim: &mut Claim, _: &Case<'_>, _: &Delivery, _: &Together) {
        // How much faster messages become depends on the rate of the link that replaces this one.
        claim.time.predicted = None;
    }
}
