//! The times at which the requests of one lane may start.

use core::time::Duration;

use lagtrace_core::observed::time::Timestamp;

use super::plan::{Arrangement, Pace, Plan};

/// A worker's share of a lane's schedule. The schedule depends only on the times that are passed in
/// and on the number of requests taken. It reads no clock.
#[derive(Clone, Debug)]
pub(super) struct Cadence {
    start: Timestamp,
    end: Timestamp,
    slices: Option<Slices>,
    beat: Option<Beat>,
    /// Minimum time from one request to the next in closed loop.
    least_gap: Duration,
    /// Time before which no further request may start in closed loop.
    not_before: Timestamp,
    /// Number of requests taken so far; counted only in open loop.
    taken: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slices {
    length_ns: u64,
    lanes: u64,
    lane: u64,
}

/// The schedule of an open loop, relative to the lane's active time.
#[derive(Clone, Copy, Debug)]
struct Beat {
    first_ns: f64,
    interval_ns: f64,
}

/// A worker's share of a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// The lane's number.
    pub(super) lane: usize,
    /// Number of the lane's connections that the worker has; at least 1.
    pub(super) connections: u32,
    /// Number of the lane's connections that belong to earlier workers.
    pub(super) before: u32,
}

impl Cadence {
    /// Returns the schedule of `share` in a run of `plan` from `start`.
    pub(super) fn new(plan: &Plan, share: Share, start: Timestamp) -> Self {
        let all = plan
            .lanes
            .get(share.lane)
            .map_or(1, |lane| lane.connections);
        let beat = match plan.pace {
            Pace::ClosedLoop => None,
            // Workers with equal shares get evenly spaced start times, one worker after the other.
            Pace::Rate(rate) => Some(Beat {
                first_ns: 1e9 / rate * f64::from(share.before) / f64::from(share.connections),
                interval_ns: 1e9 / rate * f64::from(all) / f64::from(share.connections),
            }),
        };
        let slices = match plan.arrangement {
            Arrangement::SideBySide => None,
            Arrangement::Interleaved { slice } => Some(Slices {
                length_ns: u64::try_from(slice.as_nanos()).unwrap_or(u64::MAX).max(1),
                lanes: plan.lanes.len() as u64,
                lane: share.lane as u64,
            }),
        };
        Self {
            start,
            end: start + plan.warm_up_in_rounds() + plan.duration,
            slices,
            beat,
            least_gap: plan.at_most.map_or(Duration::ZERO, |most| {
                let each = f64::from(all) / f64::from(share.connections) / most;
                Duration::try_from_secs_f64(each).unwrap_or(Duration::MAX)
            }),
            not_before: start,
            taken: 0,
        }
    }

    /// Returns true if requests start at scheduled times, independently of responses.
    pub(super) fn is_open_loop(&self) -> bool {
        self.beat.is_some()
    }

    /// Stops the schedule: no request becomes due at or after `at`.
    pub(super) fn end_at(&mut self, at: Timestamp) {
        self.end = self.end.min(at);
    }

    /// Takes one request that may start at `now`. Returns its scheduled start; `None` if no request
    /// may start.
    pub(super) fn take(&mut self, now: Timestamp) -> Option<Timestamp> {
        match self.beat {
            None if now >= self.not_before && self.is_active(now) => {
                if !self.least_gap.is_zero() {
                    self.not_before = now + self.least_gap;
                }
                Some(now)
            }
            None => None,
            Some(_) => {
                let due = self.next_due().filter(|&due| due <= now)?;
                self.taken += 1;
                Some(due)
            }
        }
    }

    /// Returns the scheduled start of the next request in open loop; `None` in closed loop, or if
    /// no request is left.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.due(self.taken)
    }

    /// Returns the next time after `now` at which a request may start; `None` if there is no such
    /// time, or if it depends on responses.
    pub(super) fn next_start(&self, now: Timestamp) -> Option<Timestamp> {
        if self.is_open_loop() {
            return self.next_due();
        }
        if self.not_before > now && self.is_active(self.not_before) {
            return Some(self.not_before);
        }
        let slices = self.slices?;
        let passed = nanos(now.since(self.start));
        let round = slices.length_ns.saturating_mul(slices.lanes);
        let opens = slices.length_ns * slices.lane;
        let round_start = passed - passed % round;
        let next = if passed % round < opens {
            round_start + opens
        } else {
            round_start + round + opens
        };
        Some(self.start + Duration::from_nanos(next)).filter(|&at| at < self.end)
    }

    /// Takes up to `most` overdue requests that are abandoned together. Returns their number and
    /// the scheduled start of the middle one.
    pub(super) fn take_many(&mut self, most: u64) -> Option<(u64, Timestamp)> {
        let first = self.taken;
        let last = first + most.max(1) - 1;
        let count = if self.due(last).is_some() {
            most.max(1)
        } else {
            self.remaining().min(most)
        };
        let middle = self.due(first + count / 2)?;
        self.taken += count;
        (count > 0).then_some((count, middle))
    }

    /// Returns the number of open-loop requests that have not been taken.
    pub(super) fn remaining(&self) -> u64 {
        if self.next_due().is_none() {
            return 0;
        }
        // `due` increases with the number, so a binary search finds the first request after the
        // end.
        let (mut low, mut high) = (self.taken, self.taken + 1);
        while self.due(high).is_some() {
            (low, high) = (high, high.saturating_mul(2));
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.due(middle).is_some() {
                low = middle;
            } else {
                high = middle;
            }
        }
        high - self.taken
    }

    fn due(&self, number: u64) -> Option<Timestamp> {
        let beat = self.beat?;
        let active = (beat.first_ns + number as f64 * beat.interval_ns) as u64;
        let offset = match self.slices {
            None => active,
            Some(slices) => {
                let round = active / slices.length_ns;
                let slice = round.saturating_mul(slices.lanes) + slices.lane;
                slice
                    .saturating_mul(slices.length_ns)
                    .saturating_add(active % slices.length_ns)
            }
        };
        Some(self.start + Duration::from_nanos(offset)).filter(|&due| due < self.end)
    }

    fn is_active(&self, now: Timestamp) -> bool {
        now < self.end
            && self.slices.is_none_or(|slices| {
                let passed = nanos(now.since(self.start));
                passed / slices.length_ns % slices.lanes == slices.lane
            })
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
