//! `low-congestion-window`.
//!
//! Told from `slow-start` by its size: fewer segments than a connection begins
//! with, round after round; from `send-buffer` by full segments at each stop;
//! from what losses bring about by there being none.

use core::time::Duration;

use super::evidence::{fix, ruled_out};
use super::limited::{
    Congestion, INITIAL_WINDOW, Kind, Limited, Messages, beyond_slow_start, congestion, found,
    message, name, share, trip,
};
use super::{Case, Id};
use crate::delivery::Delivery;
use crate::exchange::Side;
use crate::report::Finding;

/// Watches messages whose congestion window stays below where it should begin.
pub(crate) type Rule = Limited<LowWindow>;

#[derive(Clone, Debug, Default)]
pub(crate) struct LowWindow;

impl Kind for LowWindow {
    fn cost(delivery: &Delivery) -> Option<Duration> {
        (congestion(delivery) == Some(Congestion::Low)).then(|| beyond_slow_start(delivery))
    }

    fn finding(case: &Case<'_>, sender: Side, messages: &Messages, worst: &Delivery) -> Finding {
        let from = name(sender);
        let seen = format!(
            "{} times the {from} stopped with no more than {} full segments in flight, and went on \
             with the ACKs for them; connections begin with {INITIAL_WINDOW}",
            messages.stops, worst.most_segments
        );
        let mut finding = found(Id::LowCongestionWindow, sender, case, messages, worst, seen);
        finding.summary = format!(
            "Something keeps the {from}'s congestion window at {} segments, so each such part of a {} \
             takes a round trip ({}): {}.",
            worst.most_segments,
            message(sender),
            trip(worst),
            share(messages, &finding)
        );
        finding.ruled_out.push(ruled_out(
            Id::ReceiveWindow,
            "the window had room for more at each stop",
        ));
        finding.ruled_out.push(ruled_out(
            Id::PacketLoss,
            "none of its segments was sent again",
        ));
        finding.ruled_out.push(ruled_out(
            Id::SendBuffer,
            "it stopped behind full segments: more was there to send",
        ));
        finding.overturned_by = format!(
            "`ss -ti` at the {from} showing a larger cwnd during a {}",
            message(sender)
        );
        finding.fix = vec![
            fix(
                from,
                "ip route show: remove `cwnd` and `window` locks and small `initcwnd`",
            ),
            fix(
                from,
                "ip tcp_metrics show; ip tcp_metrics flush; net.ipv4.tcp_no_metrics_save=1",
            ),
        ];
        finding
    }
}
