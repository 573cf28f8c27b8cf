//! `receive-window`.
//!
//! Told from a congestion window and a send buffer by the window that the
//! receiver advertises: what is in flight reaches its edge, and the next
//! segment leaves with the ACK that moves the edge. Told from `zero-window` by
//! its never closing, and from a window that is still growing by its size.

use core::time::Duration;

use super::evidence::{fix, human, ruled_out};
use super::limited::{
    Kind, Limited, Messages, beyond_slow_start, bytes, found, message, name, read_late, share,
    standing, trip,
};
use super::{Case, Id};
use crate::delivery::{Delivery, Limit};
use crate::exchange::Side;
use crate::report::Finding;

/// One full window in a message may be one that is just growing.
const LEAST_STOPS: u32 = 2;
/// A window that grows by more than this factor while a message is sent is
/// being tuned (`tcp_rcv_space_adjust()` in `net/ipv4/tcp_input.c`).
const GROWING: f64 = 1.5;

/// Watches messages that fill the receiver's window.
pub(crate) type Rule = Limited<SmallWindow>;

#[derive(Clone, Debug, Default)]
pub(crate) struct SmallWindow;

impl Kind for SmallWindow {
    fn cost(delivery: &Delivery) -> Option<Duration> {
        is_window(delivery).then(|| beyond_slow_start(delivery))
    }

    /// A window that later exchanges do not fill is being tuned: that is how it gets its size.
    fn is_fault(limited: &Limited<Self>, case: &Case<'_>) -> bool {
        !limited.is_of_openings(case)
    }

    fn finding(case: &Case<'_>, sender: Side, messages: &Messages, worst: &Delivery) -> Finding {
        let (from, to) = (name(sender), name(sender.peer()));
        let [window, _] = worst.windows;
        let seen = format!(
            "{} times the {from} had filled the {to}'s window (of {}) and went on as soon as an ACK \
             moved it",
            messages.stops,
            bytes(window)
        );
        let mut finding = found(
            Id::ReceiveWindow,
            sender.peer(),
            case,
            messages,
            worst,
            seen,
        );
        finding.summary = match read_late(worst) {
            Some(late) => format!(
                "The {to} reads what arrives at its own pace: it takes {} at most ahead of that and \
                 makes room for as much again only {} later, on a path of {}: {}.",
                bytes(window),
                human(late),
                trip(worst),
                share(messages, &finding)
            ),
            None => format!(
                "The {to} allows no more than {} in flight, so a {} takes a round trip ({}) for each \
                 such window: {}.",
                bytes(window),
                message(case, sender),
                trip(worst),
                share(messages, &finding)
            ),
        };
        finding.ruled_out.push(ruled_out(
            Id::SlowStart,
            "the window, not the number of segments, was full at each stop, and did not grow",
        ));
        finding.ruled_out.push(ruled_out(
            Id::SendBuffer,
            "what was in flight reached the edge that the receiver had advertised",
        ));
        finding.overturned_by =
            format!("a segment of the {from} beyond the window that the {to} advertised");
        finding.fix = vec![
            fix(
                to,
                "do not set SO_RCVBUF: it ends the kernel's own tuning of the window",
            ),
            fix(
                to,
                "raise net.ipv4.tcp_rmem's third value to rate times round trip",
            ),
            fix(
                "path",
                "look for a middlebox that takes the window scale option out of SYNs",
            ),
        ];
        finding
    }
}

fn is_window(delivery: &Delivery) -> bool {
    let [first, last] = delivery.windows;
    delivery.limit == Limit::ReceiveWindow
        && delivery.zero_windows == 0
        && delivery.stops >= LEAST_STOPS
        && last as f64 <= first as f64 * GROWING
        && standing(delivery).is_none()
}
