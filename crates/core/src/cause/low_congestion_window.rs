//! The rule of the cause `low-congestion-window`.
//!
//! The window's size distinguishes it from `slow-start`: it has fewer segments than the initial
//! window, round trip after round trip. Full segments at each stop distinguish it from
//! `send-buffer`. If there were losses, they would be the cause.

use core::time::Duration;

use super::Id;
use super::limited::{Congestion, LimitRule, Limited, beyond_slow_start, congestion};
use super::wording::Wording;
use crate::exchange::delivery::Delivery;

/// The evidence in the packets.
const SEEN: &str = "{stops} times the {from} stopped with no more than {most_segments} full \
    segments in flight, and resumed when their ACKs arrived; connections begin with 10";

const WORDING: Wording = Wording {
    summary: "Something keeps the {from}'s congestion window at {most_segments} segments, so every \
              {most_segments} segments of a {message} take a round trip ({trip}): {cost}.",
    ruled_out: &[
        (
            Id::ReceiveWindow,
            "the window had room for more at each stop",
        ),
        (Id::PacketLoss, "none of its segments was retransmitted"),
        (
            Id::SendBuffer,
            "it stopped after full segments: there was more to send",
        ),
    ],
    overturned_by: "`ss -ti` at the {from} showing a larger cwnd during a {message}",
    fix: &[
        (
            "{from}",
            "ip route show: remove `cwnd` and `window` locks and small `initcwnd`",
        ),
        (
            "{from}",
            "ip tcp_metrics show; ip tcp_metrics flush; net.ipv4.tcp_no_metrics_save=1",
        ),
    ],
};

/// Watches messages whose congestion window stays below the initial window.
pub(crate) type Rule = Limited<LowWindow>;

#[derive(Clone, Debug, Default)]
pub(crate) struct LowWindow;

impl LimitRule for LowWindow {
    const ID: Id = Id::LowCongestionWindow;

    fn cost(delivery: &Delivery) -> Option<Duration> {
        (congestion(delivery) == Some(Congestion::Low)).then(|| beyond_slow_start(delivery))
    }

    fn words(_: &Delivery) -> (&'static str, &'static Wording) {
        (SEEN, &WORDING)
    }
}
