//! The rule of the cause `send-buffer`.
//!
//! The sender stops at the end of a write, after a partial segment, while the receiver's window is
//! open. That distinguishes it from limits by a window. If the congestion window were full, the
//! sender would stop after a full segment, because its next data would already be there.

use core::time::Duration;

use super::Id;
use super::limited::{LimitRule, Limited, beyond_slow_start};
use super::wording::Wording;
use crate::exchange::delivery::{Delivery, Limit};

/// The evidence in the packets.
const SEEN: &str = "{stops} times the {from} stopped after a segment that was not full, with at \
    most {most} in flight and the {to}'s window open, and resumed as soon as that data was \
    acknowledged";

const WORDING: Wording = Wording {
    summary: "The {from}'s socket holds at most about {most} of unacknowledged data, so every \
        {most} of a {message} take a round trip ({trip}): {cost}.",
    ruled_out: &[
        (
            Id::ReceiveWindow,
            "the window had room for more at each stop",
        ),
        (
            Id::SlowStart,
            "the data in flight did not double, and the stops came at the ends of writes",
        ),
    ],
    overturned_by: "`ss -tmi` at the {from} showing a send buffer (tb) far above the data in \
                    flight",
    fix: &[
        (
            "{from}",
            "do not set {SO_SNDBUF} (nginx: `listen … sndbuf=`): setting it disables the kernel's \
             autotuning",
        ),
        (
            "{from}",
            "raise the third value of net.ipv4.tcp_wmem to twice the bandwidth-delay product (rate \
             times round trip)",
        ),
        (
            "{from}",
            "write larger pieces, or do not wait for one to be sent before the next",
        ),
    ],
};

/// Minimum number of stops. A single stop after a partial segment may be chance.
const LEAST_STOPS: u32 = 2;

/// Watches messages that fill their sender's buffer.
pub(crate) type Rule = Limited<FullBuffer>;

#[derive(Clone, Debug, Default)]
pub(crate) struct FullBuffer;

impl LimitRule for FullBuffer {
    const ID: Id = Id::SendBuffer;

    fn cost(delivery: &Delivery) -> Option<Duration> {
        is_buffer(delivery).then(|| beyond_slow_start(delivery))
    }

    fn words(_: &Delivery) -> (&'static str, &'static Wording) {
        (SEEN, &WORDING)
    }
}

fn is_buffer(delivery: &Delivery) -> bool {
    delivery.limit == Limit::SendBuffer && delivery.stops >= LEAST_STOPS
}
