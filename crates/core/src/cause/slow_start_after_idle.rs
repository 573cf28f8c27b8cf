//! `slow-start-after-idle`.
//!
//! Told from `slow-start` by the connection's past: it had more in flight
//! before it rested for longer than a retransmission timeout. A window never
//! shrinks otherwise, but for losses.

use core::time::Duration;

use super::evidence::{self, fix, human, ruled_out};
use super::limited::{
    Congestion, Kind, Limited, Messages, bytes, congestion, found, name, share, trip,
};
use super::{Case, Id};
use crate::delivery::Delivery;
use crate::exchange::Side;
use crate::report::Finding;

/// Watches messages that begin anew on a used connection.
pub(crate) type Rule = Limited<StartingAnew>;

#[derive(Clone, Debug, Default)]
pub(crate) struct StartingAnew;

impl Kind for StartingAnew {
    /// Only what follows a rest can meet it, and rests are few: each that does shows the same
    /// connection with a larger window before.
    const REPEATS: u64 = evidence::OCCASIONS;

    fn cost(delivery: &Delivery) -> Option<Duration> {
        (congestion(delivery) == Some(Congestion::AfterIdle))
            .then(|| delivery.stopped.saturating_sub(delivery.kept_spared))
    }

    fn finding(case: &Case<'_>, sender: Side, messages: &Messages, worst: &Delivery) -> Finding {
        let from = name(sender);
        let rest = human(worst.rested.unwrap_or_default());
        let seen = format!(
            "after a rest of {rest} the {from} stopped with {} in flight for ACKs, though the same \
             connection had carried {} at once before",
            bytes(worst.first_in_flight),
            bytes(worst.earlier_in_flight)
        );
        let mut finding = found(Id::SlowStartAfterIdle, sender, case, messages, worst, seen);
        finding.summary = format!(
            "A connection that rested begins slow start anew, a round trip ({}) for each doubling, \
             although its window had been large: {}.",
            trip(worst),
            share(messages, &finding)
        );
        finding.ruled_out.push(ruled_out(
            Id::SlowStart,
            "the connection was used before, with a larger window",
        ));
        finding.ruled_out.push(ruled_out(
            Id::PacketLoss,
            "nothing was sent again that could have made it smaller",
        ));
        finding.overturned_by = format!("net.ipv4.tcp_slow_start_after_idle = 0 at the {from}");
        finding.fix = vec![
            fix(from, "sysctl -w net.ipv4.tcp_slow_start_after_idle=0"),
            fix("client", "use fewer connections, so that each rests less"),
        ];
        finding
    }
}
