//! `zero-window`.
//!
//! Told from `receive-window` by a window of zero: the receiver had no room at
//! all, as its program read nothing. Told from `server-pause` by what ends the
//! silence: the receiver's window update.

use core::time::Duration;

use super::evidence::{fix, human, ruled_out};
use super::limited::{Kind, Limited, Messages, beyond_slow_start, found, message, name, share};
use super::{Case, Id};
use crate::delivery::{Delivery, Limit};
use crate::exchange::Side;
use crate::report::Finding;

/// Watches messages whose receiver closed its window.
pub(crate) type Rule = Limited<ClosedWindow>;

#[derive(Clone, Debug, Default)]
pub(crate) struct ClosedWindow;

impl Kind for ClosedWindow {
    fn cost(delivery: &Delivery) -> Option<Duration> {
        is_closed(delivery).then(|| beyond_slow_start(delivery))
    }

    fn finding(case: &Case<'_>, sender: Side, messages: &Messages, worst: &Delivery) -> Finding {
        let (from, to) = (name(sender), name(sender.peer()));
        let seen = format!(
            "the {to} advertised a window of zero; the {from} stood still ({} in the worst {}) until \
             the {to} opened it again",
            human(worst.stopped),
            message(sender)
        );
        let mut finding = found(Id::ZeroWindow, sender.peer(), case, messages, worst, seen);
        finding.summary = format!(
            "The {to}'s program does not read what arrives: its buffer is full, its window closed, \
             and the {from} may not send. It costs {}.",
            share(messages, &finding)
        );
        finding.ruled_out.push(ruled_out(
            if sender == Side::Server {
                Id::ServerPause
            } else {
                Id::ClientThink
            },
            format!("the {to}'s window update ended the silence, and the {from} went on with it"),
        ));
        finding.overturned_by =
            format!("the {from} not sending for long after the window was open again");
        finding.fix = vec![
            fix(
                to,
                "read sooner: find what its program does between two reads",
            ),
            fix(
                to,
                "read in a thread or task of its own; a larger buffer only hides it",
            ),
        ];
        finding
    }
}

fn is_closed(delivery: &Delivery) -> bool {
    delivery.limit == Limit::ReceiveWindow && delivery.zero_windows > 0
}
