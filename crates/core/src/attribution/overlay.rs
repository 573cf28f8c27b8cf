//! Attributes stretches of an exchange to flow-control windows of an upper layer that held it back.

use super::Tiling;
use crate::exchange::Side;
use crate::exchange::wait::{Wait, WaitKind};
use crate::observed::packet::PacketNumber;
use crate::observed::time::Timestamp;

/// A stretch in which one side's data was held back by the peer's windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldSpan {
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
    /// The side whose windows held the data back.
    pub(crate) by: Side,
    /// Number of the packet with which the data continued.
    pub(crate) released: u64,
}

/// A stretch of time, and the side that it concerns: the sender of the messages between which it is,
/// or the side whose windows held data back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) from: Timestamp,
    pub(crate) until: Timestamp,
    pub(crate) by: Side,
}

impl Tiling {
    /// Attributes the stretches in which one side's data was held back by the peer's flow-control
    /// windows to those windows, in time order. Time with another explanation in the packets
    /// (losses, unseen data) keeps its attribution.
    pub(crate) fn hold_back(&mut self, held: &[HeldSpan]) {
        let stretch = |held: &HeldSpan| Stretch {
            from: held.from,
            until: held.until,
            by: held.by,
        };
        let stretches: Vec<Stretch> = held.iter().map(stretch).collect();
        self.give(&stretches, WaitKind::FlowControl, |kind, _| {
            may_be_held(kind)
        });
        // The segments that were then sent were not held by Nagle's algorithm either.
        let mut released: Vec<u64> = held.iter().map(|held| held.released).collect();
        released.sort_unstable();
        self.sending.holds.retain(|hold| {
            let second = hold.packets.second.map(PacketNumber::get);
            second.is_none_or(|second| released.binary_search(&second).is_err())
        });
    }

    /// Attributes the stretches between a stream's messages in which their sender paused to nobody's
    /// delay, in time order.
    pub(crate) fn owe_nothing(&mut self, rests: &[Stretch]) {
        self.give(rests, WaitKind::BetweenMessages, |kind, by| match by {
            Side::Client => kind == WaitKind::RequestPause,
            Side::Server => kind == WaitKind::ServerPause,
        });
    }

    /// Attributes the server's time before an answer that was not due to nobody's delay.
    pub(crate) fn owe_no_answer(&mut self) {
        let thinks = self
            .waits
            .iter_mut()
            .filter(|wait| wait.kind == WaitKind::ServerThink);
        thinks.for_each(|wait| wait.kind = WaitKind::BetweenMessages);
    }

    /// Gives the parts of `stretches` that are waits of the meant kinds another name, and the side of
    /// the stretch as their owner. Of stretches that overlap, the first one counts.
    fn give(
        &mut self,
        stretches: &[Stretch],
        kind: WaitKind,
        is_meant: impl Fn(WaitKind, Side) -> bool,
    ) {
        if stretches.is_empty() {
            return;
        }
        let mut cut = Vec::with_capacity(self.waits.len() + 2 * stretches.len());
        let mut stretches = stretches;
        for wait in self.waits.drain(..) {
            let are_over = stretches
                .iter()
                .take_while(|stretch| stretch.until <= wait.start);
            stretches = &stretches[are_over.count()..];
            let mut rest = wait;
            for stretch in stretches.iter().take_while(|it| it.from < wait.end) {
                let (start, end) = (stretch.from.max(rest.start), stretch.until.min(rest.end));
                if start >= end || !is_meant(wait.kind, stretch.by) {
                    continue;
                }
                push(&mut cut, Wait { end: start, ..rest });
                let owner = stretch.by.owner();
                push(
                    &mut cut,
                    Wait {
                        kind,
                        owner,
                        start,
                        end,
                        ..wait
                    },
                );
                rest.start = end;
            }
            push(&mut cut, rest);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::exchange::wait::{Bound, Owner};

    const LAST: i64 = 60;

    fn at(ns: i64) -> Timestamp {
        Timestamp::from_nanos(ns)
    }

    /// Draws waits that tile the time until [`LAST`].
    fn waits() -> impl Strategy<Value = Vec<Wait>> {
        let kind = prop_oneof![
            Just(WaitKind::RequestPause),
            Just(WaitKind::ServerPause),
            Just(WaitKind::ServerThink)
        ];
        prop::collection::btree_map(1..LAST, kind, 0..12).prop_map(|ends| {
            let ends = ends.into_iter().chain([(LAST, WaitKind::ServerThink)]);
            let mut start = 0;
            let wait = |(end, kind)| {
                let wait = Wait {
                    start: at(start),
                    end: at(end),
                    kind,
                    owner: Owner::Server,
                    released_by: None,
                    bound: Bound::Observed,
                };
                start = end;
                wait
            };
            ends.map(wait).collect()
        })
    }

    fn stretches() -> impl Strategy<Value = Vec<Stretch>> {
        let side = prop_oneof![Just(Side::Client), Just(Side::Server)];
        let stretch = (0..LAST, 0..20_i64, side).prop_map(|(from, length, by)| Stretch {
            from: at(from),
            until: at(from + length),
            by,
        });
        prop::collection::vec(stretch, 0..12).prop_map(|mut stretches| {
            stretches.sort_by_key(|stretch| stretch.from);
            stretches
        })
    }

    proptest! {
        /// Each moment has the name of the first stretch that concerns it, or its former one.
        #[test]
        fn each_moment_has_one_name(before in waits(), rests in stretches()) {
            let mut tiling = Tiling { waits: before.clone(), ..Tiling::default() };
            tiling.owe_nothing(&rests);
            let of = |waits: &[Wait], moment: i64| {
                let mut all = waits.iter().filter(|wait| {
                    (wait.start..wait.end).contains(&at(moment))
                });
                let only = all.next().map(|wait| (wait.kind, wait.owner));
                assert!(all.next().is_none(), "{waits:?} at {moment}");
                only.expect("a wait")
            };
            for moment in 0..LAST {
                let former = of(&before, moment);
                let named = rests.iter().find(|rest| {
                    let pause = match rest.by {
                        Side::Client => WaitKind::RequestPause,
                        Side::Server => WaitKind::ServerPause,
                    };
                    former.0 == pause && (rest.from..rest.until).contains(&at(moment))
                });
                let expected = named.map_or(former, |rest| {
                    (WaitKind::BetweenMessages, rest.by.owner())
                });
                prop_assert_eq!(of(&tiling.waits, moment), expected);
            }
        }
    }
}
