//! The rule of the cause `bandwidth-limit`.
//!
//! A queue distinguishes it from `pacing` and from configured limits. Data that is sent faster than
//! the link's rate queues on the path. The data then arrives evenly spaced, or its ACKs do.

use core::time::Duration;

use super::Id;
use super::limited::{Kind, Limited, beyond_slow_start, standing};
use super::wording::Wording;
use crate::exchange::Side;
use crate::exchange::delivery::{Delivery, Limit};
use crate::exchange::wait::Owner;

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
              {cost}. In a capture at the sender, this includes the queueing of the last data, \
              which is not part of the request's time.",
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

/// The evidence against `pacing`.
const QUEUEING: (Id, &str) = (
    Id::Pacing,
    "segments left faster than they came through: they queued",
);

/// Watches messages that pass a queue on the path at a constant rate.
pub(crate) type Rule = Limited<Bottleneck>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Bottleneck;

impl Kind for Bottleneck {
    const ID: Id = Id::BandwidthLimit;

    fn cost(delivery: &Delivery) -> Option<Duration> {
        let is_limit = delivery.limit == Limit::Bottleneck || standing(delivery).is_some();
        is_limit.then(|| beyond_slow_start(delivery))
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
}
