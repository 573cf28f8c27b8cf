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

impl Tiling {
    /// Attributes the stretches in which one side's data was held back by the peer's flow-control
    /// windows to those windows, in time order. Time with another explanation in the packets
    /// (losses, unseen data) keeps its attribution.
    pub(crate) fn hold_back(&mut self, held: &[Held]) {
        for &held in held {
            self.give(held);
        }
        // The segments that were then sent were not held by Nagle's algorithm either.
        self.sending.holds.retain(|hold| {
            let second = hold.packets.second.map(PacketNumber::get);
            held.iter().all(|held| Some(held.released) != second)
        });
    }

    fn give(&mut self, held: Held) {
        let owner = match held.by {
            Side::Client => Owner::Client,
            Side::Server => Owner::Server,
        };
        let mut cut = Vec::with_capacity(self.waits.len() + 2);
        for wait in self.waits.drain(..) {
            let (start, end) = (held.from.max(wait.start), held.until.min(wait.end));
            if start >= end || !may_be_held(wait.kind) {
                push(&mut cut, wait);
                continue;
            }
            let part = |start, end| Wait { start, end, ..wait };
            let mine = Wait {
                kind: WaitKind::FlowControl,
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
