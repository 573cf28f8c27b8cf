//! The rule of the cause `slow-start`.
//!
//! The data in flight at each stop distinguishes it from limits by the receive window or a send
//! buffer. There are ten or more full segments, twice as many after each round trip, and the
//! receive window is open.

use core::time::Duration;

use super::evidence::ruled_out;
use super::limited::{Congestion, LimitRule, Limited, Together, bytes, congestion, first_segments};
use super::wording::Wording;
use super::{Case, Id};
use crate::claim::Claim;
use crate::exchange::delivery::Delivery;
use crate::observed::tcp::TCP_INIT_CWND;

/// The evidence in the packets.
const SEEN: &str = "{stops} times the {from} had sent as many full segments as its congestion \
    window allows (from {first} up to {most}) and resumed when their ACKs arrived";

const WORDING: Wording = Wording {
    summary: "A new connection may send ten segments at first and twice as many each round trip \
        ({trip}): a {message} of {whole} waits {stops_of_worst} times for ACKs. This costs \
        {cost}.",
    ruled_out: &[(
        Id::ReceiveWindow,
        "the window had room for more at each stop",
    )],
    overturned_by: "`ss -ti` at the {from} showing a congestion window that was not used up",
    fix: &[
        (
            "client",
            "keep connections open and reuse them: their window is already large",
        ),
        ("{from}", "send less: compress the {message}, or split it"),
        (
            "{from}",
            "ip route change … initcwnd 30, if the path can carry it",
        ),
        (
            "path",
            "serve from a nearer place: each round of slow start is a round trip",
        ),
    ],
};

/// The wording for systems with a smaller initial window (RFC 3390, RFC 6928).
const OLDER: Wording = Wording {
    summary: "The connection was sent {first_segments} segments at first and twice as many each \
        round trip ({trip}): a {message} of {whole} waits {stops_of_worst} times for ACKs. This \
        costs {cost}.",
    ..WORDING
};

/// Watches messages that are larger than the congestion window in slow start.
pub(crate) type Rule = Limited<Starting>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Starting;

impl LimitRule for Starting {
    const ID: Id = Id::SlowStart;

    fn cost(delivery: &Delivery) -> Option<Duration> {
        (congestion(delivery) == Some(Congestion::SlowStart)).then_some(delivery.stalled.stopped)
    }

    /// Returns true if slow start affects at least half of the exchanges. On a reused connection,
    /// it affects only the first message. That is how the window grows, and not a fault.
    fn is_fault(limited: &Limited<Self>, case: &Case<'_>) -> bool {
        limited.is_common(case)
    }

    fn words(worst: &Delivery) -> (&'static str, &'static Wording) {
        let is_older = first_segments(worst) < TCP_INIT_CWND;
        (SEEN, if is_older { &OLDER } else { &WORDING })
    }

    fn complete(claim: &mut Claim, _: &Case<'_>, worst: &Delivery, _: &Together) {
        let (first, most) = (worst.in_flight.first, worst.in_flight.most);
        if most > first {
            let (first, most) = (bytes(first), bytes(most));
            let because = format!("the window began with {first} and grew to {most}");
            let grew = ruled_out(Id::LowCongestionWindow, because);
            claim.ruled_out.push(grew);
        }
    }
}
