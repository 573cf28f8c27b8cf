//! Gives stretches of an exchange to what an upper layer knows held it back.

use super::Tiling;
use crate::exchange::Side;
use crate::time::Timestamp;
use crate::wait::{Owner, Wait, WaitKind};

impl Tiling {
    /// One side's data was held back by the other's flow-control windows in
    /// each of these stretches, in time order. What the packets explain
    /// otherwise, losses and what was not seen, stays.
    pub(crate) fn hold_back(&mut self, held: &[(Timestamp, Timestamp, Side)]) {
        for &(from, to, by) in held {
            self.give(from, to, by);
        }
    }

    fn give(&mut self, from: Timestamp, to: Timestamp, by: Side) {
        let owner = match by {
            Side::Client => Owner::Client,
            Side::Server => Owner::Server,
        };
        let mut cut = Vec::with_capacity(self.waits.len() + 2);
        for wait in self.waits.drain(..) {
            let (start, end) = (from.max(wait.start), to.min(wait.end));
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

/// Appends a wait; empty ones vanish and equal neighbours merge.
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

/// Waits that the packets alone take for a sender's pause or travel.
fn may_be_held(kind: WaitKind) -> bool {
    matches!(
        kind,
        WaitKind::RequestTransfer
            | WaitKind::RequestPause
            | WaitKind::RequestHeld
            | WaitKind::ResponseTransfer
            | WaitKind::ServerPause
            | WaitKind::ResponseHeld
    )
}
