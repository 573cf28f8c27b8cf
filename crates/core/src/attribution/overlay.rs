//! Attributes stretches of an exchange to flow-control windows of an upper layer that held it back.

use super::Tiling;
use crate::exchange::Side;
use crate::exchange::wait::{Owner, Wait, WaitKind};
use crate::observed::packet::PacketNumber;
use crate::observed::time::Timestamp;

/// A stretch in which one side's data was held back by the peer's windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
    /// The side whose windows held the data back.
    pub(crate) by: Side,
    /// Number of the packet with which the data continued.
    pub(crate) released: u64,
}

/// A stretch between two messages of a stream in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
    /// The sender of the messages.
    pub(crate) by: Side,
}

impl Tiling {
    /// Attributes the stretches in which one side's data was held back by the peer's flow-control
    /// windows to those windows, in time order. Time with another explanation in the packets
    /// (losses, unseen data) keeps its attribution.
    pub(crate) fn hold_back(&mut self, held: &[Held]) {
        for &held in held {
            let name = (WaitKind::FlowControl, held.by.owner());
            self.give((held.from, held.until), name, may_be_held);
        }
        // The segments that were then sent were not held by Nagle's algorithm either.
        self.sending.holds.retain(|hold| {
            let second = hold.packets.second.map(PacketNumber::get);
            held.iter().all(|held| Some(held.released) != second)
        });
    }

    /// Attributes the stretches between a stream's messages in which their sender paused to nobody's
    /// delay, in time order.
    pub(crate) fn owe_nothing(&mut self, rests: &[Rest]) {
        for rest in rests {
            let pause = match rest.by {
                Side::Client => WaitKind::RequestPause,
                Side::Server => WaitKind::ServerPause,
            };
            let name = (WaitKind::BetweenMessages, rest.by.owner());
            self.give((rest.from, rest.until), name, |kind| kind == pause);
        }
    }

    /// Gives the parts of `stretch` that are waits of the meant kinds another name.
    fn give(
        &mut self,
        (from, until): (Timestamp, Timestamp),
        (kind, owner): (WaitKind, Owner),
        is_meant: impl Fn(WaitKind) -> bool,
    ) {
        let mut cut = Vec::with_capacity(self.waits.len() + 2);
        for wait in self.waits.drain(..) {
            let (start, end) = (from.max(wait.start), until.min(wait.end));
            if start >= end || !is_meant(wait.kind) {
                push(&mut cut, wait);
                continue;
            }
            let part = |start, end| Wait { start, end, ..wait };
            let mine = Wait {
                kind,
                owner,
                ..part(start, end)
            };
            for wait in [part(wait.start, start), mine, part(end, wait.end)] {
                push(&mut cut, wait);
            }
        }
        self.waits = cut;
    }
}

/// Appends a wait; empty waits are dropped, and equal neighbours are merged.
fn push(waits: &mut Vec<Wait>, wait: Wait) {
    if wait.end <= wait.start {
        return;
    }
    match waits.last_mut() {
        Some(last)
            if last.kind == wait.kind && last.owner == wait.owner && last.bound == wait.bound =>
        {
            last.end = wait.end;
            last.released_by = wait.released_by;
        }
        _ => waits.push(wait),
    }
}

/// Returns true for waits that from the packets alone look like a sender's pause or propagation.
fn may_be_held(kind: WaitKind) -> bool {
    matches!(
        kind,
        WaitKind::RequestTransfer
            | WaitKind::RequestPause
            | WaitKind::RequestHeld
            | WaitKind::ResponseTransfer
            | WaitKind::ServerPause
            | WaitKind::ResponseHeld
            | WaitKind::CongestionWindow
            | WaitKind::SendBuffer
            | WaitKind::Paced
    )
}
