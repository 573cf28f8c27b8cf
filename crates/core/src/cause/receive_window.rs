//! The rule of the cause `receive-window`.
//!
//! The window that the receiver advertises distinguishes it from a congestion window and a send
//! buffer. The data in flight fills the advertised window, and the next segment leaves with the ACK
//! that moves the window's edge. Unlike in `zero-window`, the window never closes. Its constant
//! size distinguishes it from a window that is still growing.

use core::time::Duration;

use super::limited::{
    LimitRule, Limited, Together, beyond_slow_start, is_closed, owner, read_late, standing,
    takes_a_trip,
};
use super::wording::Wording;
use super::{Case, Id};
use crate::claim::Claim;
use crate::exchange::Side;
use crate::exchange::delivery::{Delivery, Limit, ReceiverWindows};
use crate::exchange::wait::Owner;

/// The evidence in the packets.
const SEEN: &str = "{stops} times the {from} had filled the {to}'s window (of {window}) and \
    resumed as soon as an ACK moved it";

const WORDING: Wording = Wording {
    summary: "The {to} allows no more than {window} in flight, so every {window} of a {message} \
        take a round trip ({trip}): {cost}.",
    ruled_out: &[
        (
            Id::SlowStart,
            "the receive window was full at each stop, not the congestion window, and it did not \
             grow",
        ),
        (
            Id::SendBuffer,
            "the data in flight reached the edge of the advertised window",
        ),
    ],
    overturned_by: "a segment of the {from} beyond the window that the {to} advertised",
    fix: &[
        (
            "{to}",
            "do not set {SO_RCVBUF}: setting it disables the kernel's autotuning of the window",
        ),
        (
            "{to}",
            "raise the third value of net.ipv4.tcp_rmem to the bandwidth-delay product (rate times \
             round trip)",
        ),
        (
            "path",
            "if SYN and SYN/ACK carry no window scale, look for a middlebox that removes it",
        ),
    ],
};

/// The wording for a receiver that is slow to reopen its window.
const UNREAD: Wording = Wording {
    summary: "The {to} reads slowly: it buffers at most {window} and has room for as much again \
              only {queued} later, on a path with a round trip of {trip}: {cost}.",
    fix: &[(
        "{to}",
        "read sooner: find out what the program or the device does between two reads; with a larger \
         buffer, the {to} is done no sooner",
    )],
    ..WORDING
};

/// The title of a claim on such a receiver.
const UNREAD_TITLE: &str = "The receiver reads its data slowly";

/// Minimum number of times that a message filled the window. A window that is filled once may still
/// be growing.
const LEAST_STOPS: u32 = 2;
/// Minimum growth factor of a window that is being tuned during a message (`tcp_rcv_space_adjust()`
/// in `net/ipv4/tcp_input.c`).
const GROWING: f64 = 1.5;

/// Watches messages that fill the receiver's window.
pub(crate) type Rule = Limited<SmallWindow>;

#[derive(Clone, Debug, Default)]
pub(crate) struct SmallWindow;

impl LimitRule for SmallWindow {
    const ID: Id = Id::ReceiveWindow;

    /// Returns the time of the stops; if the window is too small, at most a round trip for each. When
    /// the receiver takes longer to open it, a larger one saves no more.
    fn cost(delivery: &Delivery) -> Option<Duration> {
        let most = match read_late(delivery) {
            Some(_) => Duration::MAX,
            None => delivery.round_trip.saturating_mul(delivery.stops),
        };
        is_window(delivery).then(|| beyond_slow_start(delivery).min(most))
    }

    /// Returns false if only the first exchanges of connections fill the window. The receiver tunes
    /// such a window, and it grows because it is filled.
    fn is_fault(limited: &Limited<Self>, case: &Case<'_>) -> bool {
        !limited.is_of_openings(case)
    }

    fn culprit(sender: Side) -> Owner {
        owner(sender.peer())
    }

    fn words(worst: &Delivery) -> (&'static str, &'static Wording) {
        let is_read = read_late(worst).is_none();
        (SEEN, if is_read { &WORDING } else { &UNREAD })
    }

    fn complete(claim: &mut Claim, _: &Case<'_>, worst: &Delivery, _: &Together) {
        if read_late(worst).is_some() {
            UNREAD_TITLE.clone_into(&mut claim.text.title);
        }
    }
}

fn is_window(delivery: &Delivery) -> bool {
    let ReceiverWindows { first, last, .. } = delivery.windows;
    delivery.limit == Limit::ReceiveWindow
        && !is_closed(delivery)
        && delivery.stops >= LEAST_STOPS
        && last as f64 <= first as f64 * GROWING
        && standing(delivery).is_none()
        && (read_late(delivery).is_some() || takes_a_trip(delivery))
}
