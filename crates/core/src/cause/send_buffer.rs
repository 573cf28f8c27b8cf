//! `send-buffer`.
//!
//! Told from the windows by where the sender stops: at the end of a write, with
//! a segment that is not full, while the receiver's window is open. A full
//! congestion window stops behind a full segment, as the next is there already.

use core::time::Duration;

use super::evidence::{fix, ruled_out};
use super::limited::{
    Kind, Limited, Messages, beyond_slow_start, bytes, found, message, name, share, trip,
};
use super::{Case, Id};
use crate::delivery::{Delivery, Limit};
use crate::exchange::Side;
use crate::report::Finding;

/// One stop behind a partial segment may be chance.
const LEAST_STOPS: u32 = 2;

/// Watches messages whose sender's buffer is full.
pub(crate) type Rule = Limited<FullBuffer>;

#[derive(Clone, Debug, Default)]
pub(crate) struct FullBuffer;

impl Kind for FullBuffer {
    fn cost(delivery: &Delivery) -> Option<Duration> {
        is_buffer(delivery).then(|| beyond_slow_start(delivery))
    }

    fn finding(case: &Case<'_>, sender: Side, messages: &Messages, worst: &Delivery) -> Finding {
        let (from, to) = (name(sender), name(sender.peer()));
        let seen = format!(
            "{} times the {from} stopped behind a segment that was not full, with at most {} in \
             flight and the {to}'s window open, and went on as soon as that was acknowledged",
            messages.stops,
            bytes(worst.most_in_flight)
        );
        let mut finding = found(Id::SendBuffer, sender, case, messages, worst, seen);
        finding.summary = format!(
            "The {from}'s socket holds no more than about {} until they are acknowledged, so each \
             such part of a {} takes a round trip ({}): {}.",
            bytes(worst.most_in_flight),
            message(sender),
            trip(worst),
            share(messages, &finding)
        );
        finding.ruled_out.push(ruled_out(
            Id::ReceiveWindow,
            "the window had room for more at each stop",
        ));
        finding.ruled_out.push(ruled_out(
            Id::SlowStart,
            "what was in flight did not double, and the stops came at the ends of writes",
        ));
        finding.overturned_by = format!(
            "`ss -tmi` at the {from} showing a send buffer (tb) far above what is in flight"
        );
        finding.fix = vec![
            fix(
                from,
                "do not set SO_SNDBUF (nginx: `listen … sndbuf=`): it ends the kernel's own tuning",
            ),
            fix(
                from,
                "raise net.ipv4.tcp_wmem's third value to twice rate times round trip",
            ),
            fix(
                from,
                "write larger pieces, or do not wait for one to be sent before the next",
            ),
        ];
        finding
    }
}

fn is_buffer(delivery: &Delivery) -> bool {
    delivery.limit == Limit::SendBuffer && delivery.stops >= LEAST_STOPS
}
