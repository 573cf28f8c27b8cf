//! One worker's part of a lane, and how connections are shared out.

use std::collections::VecDeque;

use core::ops::Range;
use core::time::Duration;

use lagtrace_core::experiment::Experiment;

use super::cadence::Cadence;
use super::driver::Slot;

#[derive(Debug)]
pub(super) struct LaneState {
    /// When its requests may start.
    pub(super) cadence: Cadence,
    /// Connections without anything to do, shortest idle first: the next
    /// request takes the one used last, as connection pools do. What ails
    /// closely spaced requests shows below saturation only so. May hold ones
    /// that are no longer idle.
    pub(super) idle: VecDeque<Slot>,
    /// Whether no connection carries a second request.
    pub(super) opens_per_request: bool,
    /// Pause between a response and the connection's next request.
    pub(super) think: Duration,
}

impl LaneState {
    /// A part that follows `cadence`.
    pub(super) fn new(cadence: Cadence, experiment: Option<Experiment>) -> Self {
        Self {
            cadence,
            idle: VecDeque::new(),
            opens_per_request: matches!(
                experiment,
                Some(Experiment::FreshConnection | Experiment::ConnectionClose)
            ),
            think: match experiment {
                Some(Experiment::ThinkTime { pause }) => pause,
                _ => Duration::ZERO,
            },
        }
    }
}

/// Which of `all` connections belong to worker `worker` of `workers`.
pub(super) fn share(all: u32, worker: usize, workers: usize) -> Range<u32> {
    let bound = |n: usize| {
        let product = u64::from(all) * n as u64 / (workers.max(1) as u64);
        u32::try_from(product).unwrap_or(u32::MAX)
    };
    bound(worker)..bound(worker + 1)
}

/// Most groups of connections in a lane.
const MAX_GROUPS: u32 = 16;

/// The group of connection `number` of `all`.
pub(super) fn group_of(number: u32, all: u32) -> u16 {
    let groups = all.clamp(1, MAX_GROUPS);
    let group = u64::from(number) * u64::from(groups) / u64::from(all.max(1));
    u16::try_from(group).unwrap_or(u16::MAX)
}
