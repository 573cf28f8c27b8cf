//! Lanes: one direction of the path as a pure function of time.
//!
//! Input: a packet and the time of its arrival. Output: the time of its delivery, or the reason why
//! it is not delivered. No clock and no device is used.

use std::time::Duration;

use super::bottleneck::{Bottleneck, TokenBucket};
use super::counters::DropReason;
use super::disorder::Disorder;
use super::drops::Drops;
use super::jitter::Jitter;
use super::lane_spec::{DEFAULT_QUEUE, LaneSpec};
use super::loss::{BurstLoss, Loss};
use super::packet::Packet;
use super::stage::Stage;

/// A direction of the path.
#[derive(Debug, Clone)]
pub struct Lane {
    stages: Vec<Stage>,
    duplicate: Option<Disorder>,
}

/// The fate of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The packet is delivered at this time after the path's first packet.
    Deliver(Duration),
    /// The packet is delivered, and later a copy of it.
    Duplicate(Duration, Duration),
    /// The packet is never delivered.
    Drop(DropReason),
}

impl Lane {
    /// Returns a lane according to `spec`, with its delay and the seed of its random events. The
    /// lane does not include faults that depend on a packet's content (MTU, thinning) or on both
    /// directions (a sleeping radio).
    pub fn new(spec: &LaneSpec, delay: Duration, seed: u64) -> Self {
        // With the same seed, two stages could strike the same packets.
        let other = |station: u64| seed ^ station.wrapping_mul(0xA076_1D64_78BD_642F);
        let policer = spec.policer.map(|p| Stage::Policer(TokenBucket::new(p)));
        let drops = spec
            .drop
            .iter()
            .map(|drop| Stage::Drops(Drops::new(drop.clone())));
        let loss = (spec.loss > 0.0).then(|| Stage::Loss(Loss::new(spec.loss, seed)));
        let burst = spec
            .burst_loss
            .map(|loss| Stage::BurstLoss(BurstLoss::new(loss, other(1))));
        let queue = spec.queue.unwrap_or(DEFAULT_QUEUE);
        let bottleneck = spec
            .rate
            .map(|rate| Stage::Bottleneck(Bottleneck::new(rate, queue)));
        let jitter = spec.jitter.clone();
        let jitter = jitter.map(|jitter| Stage::Jitter(Jitter::new(jitter, other(2))));
        let reorder = spec
            .reorder
            .map(|reorder| Stage::Reorder(Disorder::new(reorder, other(3))));
        let route = (!spec.steps.is_empty()).then(|| Stage::Route(spec.steps.clone()));
        let delay = (!delay.is_zero()).then_some(Stage::Delay(delay));
        let behind = [loss, burst, bottleneck, jitter, reorder, route, delay];
        Self {
            stages: policer
                .into_iter()
                .chain(drops)
                .chain(behind.into_iter().flatten())
                .collect(),
            duplicate: spec.duplicate.map(|copy| Disorder::new(copy, other(4))),
        }
    }

    /// Returns the fate of a packet that arrives at `now`, counted from the path's first packet.
    /// Times must not decrease from call to call.
    pub fn admit(&mut self, now: Duration, packet: &Packet<'_>) -> Fate {
        let leaves = self
            .stages
            .iter_mut()
            .try_fold(now, |arrival, stage| stage.pass(arrival, packet));
        let leaves = match leaves {
            Ok(leaves) => leaves,
            Err(reason) => return Fate::Drop(reason),
        };
        let copy = self
            .duplicate
            .as_mut()
            .and_then(|copy| copy.strikes(leaves));
        copy.map_or(Fate::Deliver(leaves), |copy| Fate::Duplicate(leaves, copy))
    }
}

#[cfg(test)]
mod tests {
    use super::super::bottleneck::PolicerSpec;
    use super::super::disorder::DisorderSpec;
    use super::super::lane_spec::StepSpec;
    use super::*;
    use crate::quantity::{Rate, Size};

    const MS: Duration = Duration::from_millis(1);

    fn mbit(n: u64) -> Rate {
        Rate::from_bits_per_second(n * 1_000_000).expect("not zero")
    }

    /// Passes packets of one size to the lane at the given milliseconds; returns the delivery times
    /// in microseconds.
    fn offer(lane: &mut Lane, size: usize, at_ms: &[u32]) -> Vec<Result<u128, DropReason>> {
        let bytes = vec![0; size];
        let packet = Packet::new(&bytes);
        let fates = at_ms.iter().map(|at| lane.admit(MS * *at, &packet));
        fates
            .map(|fate| match fate {
                Fate::Deliver(at) => Ok(at.as_micros()),
                Fate::Duplicate(..) => unreachable!("nothing is duplicated here"),
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
        // At 8 Mbit/s, 1,000 bytes take 1 ms. The queue has room for three packets.
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
        // After 1 ms there is room for one more packet. After the pause until 10 ms the queue is
        // empty.
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
        // In 1 ms the bucket gains 1,000 bytes. A dropped packet takes nothing from it, and it
        // never contains more than its burst.
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
                    lane.admit(Duration::from_nanos(1_001) * *n, &Packet::new(&[0; 100])),
                    Fate::Deliver(_)
                )
            })
            .count();
        // In 1.001 s at 5 Mbit/s, 625,625 bytes pass, and the burst in addition.
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
                .map(|n| lane.admit(MS * n, &Packet::new(&[0; 100])))
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
        assert!((0..10_000).all(|n| all.admit(MS * n, &Packet::new(&[0; 100])) == Fate::Drop(DropReason::Loss)));
        let mut none = Lane::new(&LaneSpec::default(), MS, 1);
        assert!((0..10_000).all(|n| matches!(
            none.admit(MS * n, &Packet::new(&[0; 100])),
            Fate::Deliver(_)
        )));
    }

    #[test]
    fn the_farthest_times_do_not_overflow() {
        let spec = LaneSpec {
            rate: Rate::from_bits_per_second(1),
            ..LaneSpec::default()
        };
        let mut lane = Lane::new(&spec, Duration::MAX, 1);
        assert_eq!(
            lane.admit(Duration::MAX, &Packet::new(&[0; 1500])),
            Fate::Deliver(Duration::MAX)
        );
        assert_eq!(
            lane.admit(Duration::ZERO, &Packet::new(&[0; 65_535])),
            Fate::Drop(DropReason::Queue)
        );
    }

    #[test]
    fn reordering_delays_some_and_duplication_repeats_some() {
        let disorder = DisorderSpec {
            share: 0.1,
            gap: 3 * MS,
        };
        let spec = LaneSpec {
            reorder: Some(disorder),
            duplicate: Some(disorder),
            ..LaneSpec::default()
        };
        let mut lane = Lane::new(&spec, 10 * MS, 1);
        let (mut late, mut twice) = (0, 0);
        for n in 0..10_000 {
            let leaves = match lane.admit(MS * n, &Packet::new(&[0; 100])) {
                Fate::Deliver(leaves) => leaves,
                Fate::Duplicate(leaves, copy) => {
                    twice += 1;
                    assert_eq!(copy, leaves + 3 * MS);
                    leaves
                }
                Fate::Drop(reason) => panic!("{reason:?}"),
            };
            late += u32::from(leaves == MS * n + 13 * MS);
            assert!(leaves == MS * n + 13 * MS || leaves == MS * n + 10 * MS);
        }
        assert!((900..1100).contains(&late) && (900..1100).contains(&twice));
    }

    #[test]
    fn a_route_changes_at_its_time() {
        let step = |at, delay| StepSpec {
            at: MS * at,
            delay: MS * delay,
            ttl: 0,
        };
        let spec = LaneSpec {
            steps: vec![step(100, 30), step(200, 0)],
            ..LaneSpec::default()
        };
        let mut lane = Lane::new(&spec, MS, 1);
        assert_eq!(
            offer(&mut lane, 100, &[0, 99, 100, 199, 200]),
            [
                Ok(1_000),
                Ok(100_000),
                Ok(131_000),
                Ok(230_000),
                Ok(201_000)
            ]
        );
    }
}
