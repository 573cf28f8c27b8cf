//! The rule of the cause `zero-window`.
//!
//! The window of zero distinguishes it from `receive-window`: the receiver has no room at all,
//! because its program does not read. The silence ends with the receiver's window update, which
//! distinguishes it from `server-pause`.

use core::time::Duration;

use super::Id;
use super::limited::{LimitRule, Limited, beyond_slow_start, is_closed, owner};
use super::wording::Wording;
use crate::exchange::Side;
use crate::exchange::delivery::Delivery;
use crate::exchange::wait::Owner;

/// The evidence in the packets.
const SEEN: &str = "the {to} advertised a window of zero; the {from} stalled ({stopped} in the \
    worst {message}) until the {to} opened it again";

const WORDING: Wording = Wording {
    summary: "The {to}'s program does not read its data: its buffer is full, its window is closed, \
              and the {from} must not send. This costs {cost}.",
    ruled_out: &[(
        Id::ServerPause,
        "the {to}'s window update ended the silence: the {from} resumed as soon as it came",
    )],
    overturned_by: "the {from} staying silent for a long time after the window had opened again",
    fix: &[
        (
            "{to}",
            "read sooner: find out what the program does between two reads",
        ),
        (
            "{to}",
            "read in a separate thread or task; a larger buffer only hides the problem",
        ),
    ],
};

/// The wording when the client is the sender, so the message is a request.
const OF_A_REQUEST: Wording = Wording {
    ruled_out: &[(Id::ClientThink, WORDING.ruled_out[0].1)],
    ..WORDING
};

/// Watches messages whose receiver closed its window.
pub(crate) type Rule = Limited<ClosedWindow>;

#[derive(Clone, Debug, Default)]
pub(crate) struct ClosedWindow;

impl LimitRule for ClosedWindow {
    const ID: Id = Id::ZeroWindow;

    fn cost(delivery: &Delivery) -> Option<Duration> {
        is_closed(delivery).then(|| beyond_slow_start(delivery))
    }

    fn culprit(sender: Side) -> Owner {
        owner(sender.peer())
    }

    fn words(worst: &Delivery) -> (&'static str, &'static Wording) {
        let wording = match worst.sender {
            Side::Server => &WORDING,
            Side::Client => &OF_A_REQUEST,
        };
        (SEEN, wording)
    }
}
