//! `slow-start`.
//!
//! Told from the receiver's window and a send buffer by the flight at each
//! stop: ten segments or more, all full, twice as many each round trip, the
//! window open.

use core::time::Duration;

use super::evidence::{fix, ruled_out};
use super::limited::{
    Congestion, INITIAL_WINDOW, Kind, Limited, Messages, bytes, congestion, found, message, name,
    share, trip,
};
use super::{Case, Id};
use crate::delivery::Delivery;
use crate::exchange::Side;
use crate::report::Finding;

/// Watches messages that outgrow a congestion window on its way up.
pub(crate) type Rule = Limited<Starting>;

/// The start of a sentence on the window that the sender begins with: older systems begin with
/// fewer segments than new ones (RFC 3390, RFC 6928).
fn begin(worst: &Delivery) -> String {
    match worst.first_in_flight.div_ceil(u64::from(worst.mss.max(1))) {
        first @ 0..INITIAL_WINDOW => format!("The connection was sent {first} segments"),
        _ => "A new connection may send ten segments".to_owned(),
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Starting;

impl Kind for Starting {
    fn cost(delivery: &Delivery) -> Option<Duration> {
        (congestion(delivery) == Some(Congestion::SlowStart)).then_some(delivery.stopped)
    }

    /// Of a connection that is used again only the first message pays: that is
    /// how it gets its window, and no fault.
    fn is_fault(limited: &Limited<Self>, case: &Case<'_>) -> bool {
        limited.is_common(case)
    }

    fn finding(case: &Case<'_>, sender: Side, messages: &Messages, worst: &Delivery) -> Finding {
        let from = name(sender);
        let seen = format!(
            "{} times the {from} had sent as many full segments as its congestion window allows (from \
             {} up to {}) and went on with the ACKs for them",
            messages.stops,
            bytes(worst.first_in_flight),
            bytes(worst.most_in_flight)
        );
        let mut finding = found(Id::SlowStart, sender, case, messages, worst, seen);
        finding.summary = format!(
            "{} at first and twice as many each round trip ({}): a {} of {} waits {} times for ACKs. \
             It costs {}.",
            begin(worst),
            trip(worst),
            message(case, sender),
            bytes(worst.bytes),
            worst.stops,
            share(messages, &finding)
        );
        finding.ruled_out.push(ruled_out(
            Id::ReceiveWindow,
            "the window had room for more at each stop",
        ));
        if worst.most_in_flight > worst.first_in_flight {
            finding.ruled_out.push(ruled_out(
                Id::LowCongestionWindow,
                format!(
                    "the window began with {} and grew to {}",
                    bytes(worst.first_in_flight),
                    bytes(worst.most_in_flight)
                ),
            ));
        }
        finding.overturned_by =
            format!("`ss -ti` at the {from} showing a congestion window that was not used up");
        finding.fix = vec![
            fix(
                "client",
                "keep connections and use them again: their window is open already",
            ),
            fix(
                from,
                format!(
                    "send less: compress the {}, or split it",
                    message(case, sender)
                ),
            ),
            fix(
                from,
                "ip route change … initcwnd 30, where the path is known to carry it",
            ),
            fix(
                "path",
                "serve from nearer: each round of slow start is a round trip",
            ),
        ];
        finding
    }
}
