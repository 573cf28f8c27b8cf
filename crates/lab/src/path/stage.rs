//! The stages of one direction of the path. A stage is called when a packet arrives, may inspect
//! the packet, and returns the time at which the packet leaves, or the reason why it does not.
//! There is no I/O; the time is passed in and counted from the path's first packet.

use std::time::Duration;

use super::bottleneck::{Bottleneck, TokenBucket};
use super::counters::DropReason;
use super::disorder::Disorder;
use super::drops::Drops;
use super::jitter::Jitter;
use super::lane_spec::StepSpec;
use super::loss::{BurstLoss, Loss};
use super::packet::Packet;

/// A stage of a lane. A more complex path has more kinds of stages, or more stages in a row.
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
    /// Returns the time at which a packet that arrives at `arrival` leaves this stage.
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

/// Returns the change of the route that is in force at a time, if there is one.
pub(super) fn taken(steps: &[StepSpec], now: Duration) -> Option<&StepSpec> {
    steps.iter().rev().find(|step| step.at <= now)
}
