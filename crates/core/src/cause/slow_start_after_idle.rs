//! The rule of the cause `slow-start-after-idle`.
//!
//! The connection's past distinguishes it from `slow-start`: it had more data in flight before it
//! was idle for longer than a retransmission timeout. The only other reason for a smaller window
//! would be losses.

use core::time::Duration;

use super::Id;
use super::evidence::{self};
use super::limited::{Congestion, LimitRule, Limited, congestion};
use super::wording::Wording;
use crate::exchange::delivery::Delivery;

/// The evidence in the packets.
const SEEN: &str = "after an idle time of {rested} the {from} stopped with {first} in flight to \
    wait for ACKs, although the same connection had had {earlier} in flight before";

const WORDING: Wording = Wording {
    summary: "A connection that was idle begins slow start again, a round trip ({trip}) for each \
        doubling, although its window had been large: {cost}.",
    ruled_out: &[
        (
            Id::SlowStart,
            "the connection was used before, with a larger window",
        ),
        (
            Id::PacketLoss,
            "there was no retransmission that could have reduced the window",
        ),
    ],
    overturned_by: "net.ipv4.tcp_slow_start_after_idle being 0 at the {from}",
    fix: &[
        ("{from}", "sysctl -w net.ipv4.tcp_slow_start_after_idle=0"),
        (
            "client",
            "use fewer connections, so that each is idle for less time",
        ),
    ],
};

/// Watches messages on a reused connection with which slow start begins again.
pub(crate) type Rule = Limited<StartingAnew>;

#[derive(Clone, Debug, Default)]
pub(crate) struct StartingAnew;

impl LimitRule for StartingAnew {
    const ID: Id = Id::SlowStartAfterIdle;

    /// Minimum number of affected messages for a claim. It is lower than for other causes,
    /// because few messages follow an idle period. Each of them shows that its connection had a
    /// larger window before.
    const REPEATS: u64 = evidence::OCCASIONS;

    fn cost(delivery: &Delivery) -> Option<Duration> {
        (congestion(delivery) == Some(Congestion::AfterIdle)).then(|| {
            delivery
                .stalled
                .stopped
                .saturating_sub(delivery.stalled.kept_spared)
        })
    }

    fn words(_: &Delivery) -> (&'static str, &'static Wording) {
        (SEEN, &WORDING)
    }
}
