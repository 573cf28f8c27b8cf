//! One direction of the path as a pure function of time: what happens to a packet.
//!
//! In: when a packet arrives and its size. Out: when it is to be delivered, or why it is not.
//! No clock, no device, no packet's content.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::LaneSpec;
use super::stage::{Bottleneck, Loss, Stage, TokenBucket};
use crate::scenario::quantity::Size;

/// How many bytes wait before a bottleneck unless the scenario says otherwise.
const DEFAULT_QUEUE: Size = Size::from_bytes(64_000);

/// One direction of the path.
#[derive(Debug, Clone)]
pub struct Lane {
    stages: Vec<Stage>,
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is delivered at this time after the path's start.
    Deliver(Duration),
    /// It is never delivered.
    Drop(DropReason),
}

/// Why a packet is not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// It exceeded the policer.
    Policer,
    /// It was lost by chance.
    Loss,
    /// The queue before the bottleneck was full.
    Queue,
    /// The emulator itself holds as much as it may, or the far device refused it. No property
    /// of the path that was asked for: a run where this is not 0 proves nothing.
    Overflow,
}

/// What a lane did so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneCounters {
    /// Packets that came in.
    pub offered: u64,
    /// Packets handed to the far host.
    pub delivered: u64,
    /// Bytes handed to the far host, IP headers included.
    pub delivered_bytes: u64,
    /// Packets that exceeded the policer.
    pub dropped_policer: u64,
    /// Packets lost by chance.
    pub dropped_loss: u64,
    /// Packets that found the queue full.
    pub dropped_queue: u64,
    /// Packets that the emulator could not hold or hand over ([`DropReason::Overflow`]).
    pub dropped_overflow: u64,
}

impl LaneCounters {
    /// Packets that were dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.dropped_policer + self.dropped_loss + self.dropped_queue + self.dropped_overflow
    }

    pub(super) fn count_drop(&mut self, reason: DropReason) {
        match reason {
            DropReason::Policer => self.dropped_policer += 1,
            DropReason::Loss => self.dropped_loss += 1,
            DropReason::Queue => self.dropped_queue += 1,
            DropReason::Overflow => self.dropped_overflow += 1,
        }
    }
}

impl Lane {
    /// A lane as specified, with its delay and the seed of its chances.
    pub fn new(spec: &LaneSpec, delay: Duration, seed: u64) -> Self {
        let policer = spec
            .policer
            .map(|policer| Stage::Policer(TokenBucket::new(policer)));
        let loss = (spec.loss > 0.0).then(|| Stage::Loss(Loss::new(spec.loss, seed)));
        let queue = spec.queue.unwrap_or(DEFAULT_QUEUE);
        let bottleneck = spec
            .rate
            .map(|rate| Stage::Bottleneck(Bottleneck::new(rate, queue)));
        let delay = Some(Stage::Delay(delay));
        Self {
            stages: [policer, loss, bottleneck, delay]
                .into_iter()
                .flatten()
                .collect(),
        }
    }

    /// What becomes of a packet of `size` bytes (IP header included) that arrives at `now`,
    /// counted from the path's start. Times must not go back from call to call.
    pub fn admit(&mut self, now: Duration, size: u64) -> Fate {
        let leaves = self
            .stages
            .iter_mut()
            .try_fold(now, |arrival, stage| stage.pass(arrival, size));
        leaves.map_or_else(Fate::Drop, Fate::Deliver)
    }
}

#[cfg(test)]
mod tests {
    use super::super::PolicerSpec;
    use super::*;
    use crate::scenario::quantity::Rate;

    const MS: Duration = Duration::from_millis(1);

    fn mbit(n: u64) -> Rate {
        Rate::from_bits_per_second(n * 1_000_000).expect("not zero")
    }

    /// Offers packets of one size at the given milliseconds; delivery times in microseconds.
    fn offer(lane: &mut Lane, size: u64, at_ms: &[u32]) -> Vec<Result<u128, DropReason>> {
        let fates = at_ms.iter().map(|at| lane.admit(MS * *at, size));
        fates
            .map(|fate| match fate {
                Fate::Deliver(at) => Ok(at.as_micros()),
                Fate::Drop(reason) => Err(reason),
            })
            .collect()
    }

    #[test]
    fn a_plain_lane_delays_and_nothing_else() {
        let mut lane = Lane::new(&LaneSpec::default(), 4 * MS, 1);
        assert_eq!(
            offer(&mut lane, 1500, &[0, 0, 7]),
            [Ok(4_000), Ok(4_000), Ok(11_000)]
        );
    }

    #[test]
    fn a_bottleneck_sends_one_after_the_other_and_drops_what_its_queue_cannot_hold() {
        // 1,000 bytes take 1 ms at 8 Mbit/s; three fit.
        let spec = LaneSpec {
            rate: Some(mbit(8)),
            queue: Some(Size::from_bytes(3_000)),
            ..LaneSpec::default()
        };
        let mut lane = Lane::new(&spec, Duration::ZERO, 1);
        assert_eq!(
            offer(&mut lane, 1000, &[0, 0, 0, 0]),
            [Ok(1_000), Ok(2_000), Ok(3_000), Err(DropReason::Queue)]
        );
        // After 1 ms there is room for one more, and after a pause nothing waits.
        assert_eq!(
            offer(&mut lane, 1000, &[1, 1, 10]),
            [Ok(4_000), Err(DropReason::Queue), Ok(11_000)]
        );
    }

    #[test]
    fn a_policer_lets_its_burst_pass_undelayed_and_drops_beyond_its_rate() {
        let policer = PolicerSpec {
            rate: mbit(8),
            burst: Size::from_bytes(2_000),
        };
        let spec = LaneSpec {
            policer: Some(policer),
            ..LaneSpec::default()
        };
        let mut lane = Lane::new(&spec, 4 * MS, 1);
        let dropped = Err(DropReason::Policer);
        assert_eq!(
            offer(&mut lane, 1000, &[0, 0, 0]),
            [Ok(4_000), Ok(4_000), dropped]
        );
        // 1 ms fills 1,000 bytes in; a drop costs no tokens; the burst is never exceeded.
        assert_eq!(offer(&mut lane, 1000, &[1, 1]), [Ok(5_000), dropped]);
        assert_eq!(
            offer(&mut lane, 1000, &[100, 100, 100]),
            [Ok(104_000), Ok(104_000), dropped]
        );
    }

    #[test]
    fn a_policer_fills_however_closely_packets_follow() {
        let policer = PolicerSpec {
            rate: mbit(5),
            burst: Size::from_bytes(1_500),
        };
        let spec = LaneSpec {
            policer: Some(policer),
            ..LaneSpec::default()
        };
        let mut lane = Lane::new(&spec, Duration::ZERO, 1);
        let passed = (0..1_000_000u32)
            .filter(|n| {
                matches!(
                    lane.admit(Duration::from_nanos(1_001) * *n, 100),
                    Fate::Deliver(_)
                )
            })
            .count();
        // 1.001 s at 5 Mbit/s is 625,625 bytes, and the burst.
        assert!((6_255..=6_272).contains(&passed), "{passed}");
    }

    #[test]
    fn loss_is_of_the_asked_share_and_the_same_in_every_run() {
        let spec = LaneSpec {
            loss: 0.05,
            ..LaneSpec::default()
        };
        let fates = |seed| {
            let mut lane = Lane::new(&spec, MS, seed);
            (0..100_000)
                .map(|n| lane.admit(MS * n, 100))
                .collect::<Vec<_>>()
        };
        let first = fates(1);
        let lost = first
            .iter()
            .filter(|fate| **fate == Fate::Drop(DropReason::Loss))
            .count();
        assert!((4_700..5_300).contains(&lost), "{lost}");
        assert!(first == fates(1));
        assert!(first != fates(2));
    }

    #[test]
    fn loss_of_one_is_certain_and_of_zero_never_comes() {
        let mut all = Lane::new(
            &LaneSpec {
                loss: 1.0,
                ..LaneSpec::default()
            },
            MS,
            1,
        );
        assert!((0..10_000).all(|n| all.admit(MS * n, 100) == Fate::Drop(DropReason::Loss)));
        let mut none = Lane::new(&LaneSpec::default(), MS, 1);
        assert!((0..10_000).all(|n| matches!(none.admit(MS * n, 100), Fate::Deliver(_))));
    }

    #[test]
    fn the_farthest_times_do_not_overflow() {
        let spec = LaneSpec {
            rate: Rate::from_bits_per_second(1),
            ..LaneSpec::default()
        };
        let mut lane = Lane::new(&spec, Duration::MAX, 1);
        assert_eq!(
            lane.admit(Duration::MAX, 1500),
            Fate::Deliver(Duration::MAX)
        );
        assert_eq!(
            lane.admit(Duration::ZERO, u64::MAX),
            Fate::Drop(DropReason::Queue)
        );
    }
}
