//! The stages of one direction of the path. Each is told when a packet arrives, may look at the
//! packet, and returns when it leaves, or why it never does. Pure: time is an argument, counted
//! from the path's first packet.

use std::time::Duration;

use super::bottleneck::{Bottleneck, TokenBucket};
use super::counters::DropReason;
use super::disorder::Disorder;
use super::drops::Drops;
use super::jitter::Jitter;
use super::lane_spec::StepSpec;
use super::loss::{BurstLoss, Loss};
use super::packet::Packet;

/// A stage of a lane. A richer path is more kinds of stages, or more of them in a row.
#[derive(Debug, Clone)]
pub(super) enum Stage {
    Policer(TokenBucket),
    Drops(Drops),
    Loss(Loss),
    BurstLoss(BurstLoss),
    Bottleneck(Bottleneck),
    Jitter(Jitter),
    Reorder(Disorder),
    Delay(Duration),
    Route(Vec<StepSpec>),
}

impl Stage {
    /// Returns when a packet that arrives at `arrival` leaves this stage.
    pub(super) fn pass(
        &mut self,
        arrival: Duration,
        packet: &Packet<'_>,
    ) -> Result<Duration, DropReason> {
        let survives = |strikes: bool, reason| if strikes { Err(reason) } else { Ok(arrival) };
        match self {
            Self::Policer(bucket) => {
                survives(!bucket.take(arrival, packet.size()), DropReason::Policer)
            }
            Self::Drops(drops) => survives(drops.strikes(packet, arrival), DropReason::Chosen),
            Self::Loss(loss) => survives(loss.strikes(), DropReason::Loss),
            Self::BurstLoss(loss) => survives(loss.strikes(), DropReason::Loss),
            Self::Bottleneck(bottleneck) => bottleneck
                .enqueue(arrival, packet.size())
                .ok_or(DropReason::Queue),
            Self::Jitter(jitter) => Ok(jitter.pass(arrival)),
            Self::Reorder(reorder) => Ok(reorder.strikes(arrival).unwrap_or(arrival)),
            Self::Delay(delay) => Ok(arrival.saturating_add(*delay)),
            Self::Route(steps) => {
                let longer = taken(steps, arrival).map_or(Duration::ZERO, |step| step.delay);
                Ok(arrival.saturating_add(longer))
            }
        }
    }
}

/// Returns the change of the route in force at a time, if there is one.
pub(super) fn taken(steps: &[StepSpec], now: Duration) -> Option<&StepSpec> {
    steps.iter().rev().find(|step| step.at <= now)
}
