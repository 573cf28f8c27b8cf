//! The time of each send when several sends are submitted together.

use core::time::Duration;

/// Assumed time of a send before any send was measured.
pub(super) const FIRST_PACE: Duration = Duration::from_micros(2);

/// The usual time per send when several are submitted together.
#[derive(Debug)]
pub(super) struct SendPace {
    pub(super) usual: Duration,
}

impl SendPace {
    /// Returns the time per send, given that `count` sends took `took`. If this thread lost its
    /// processor during the submission, the point at which it did is unknown. The usual time is
    /// assumed in that case, so that the timestamp of a send is early rather than late.
    pub(super) fn of(&mut self, took: Duration, count: usize) -> Duration {
        let each = took / u32::try_from(count.max(1)).unwrap_or(u32::MAX);
        // A sample counts as at most 1.5 times the usual time, with a weight of 1/16.
        let seen = each.min(self.usual * 3 / 2);
        self.usual = (self.usual * 15 + seen) / 16;
        each.min(self.usual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_processor_does_not_move_the_stamps_of_sends() {
        let mut pace = SendPace { usual: FIRST_PACE };
        let micros = Duration::from_micros;
        for _ in 0..200 {
            pace.of(micros(10 * 5), 10);
        }
        let each = pace.of(micros(10 * 5), 10);
        assert!(each > micros(4) && each <= micros(5), "{each:?}");
        assert!(pace.of(Duration::from_millis(20), 10) < micros(6));
        assert_eq!(pace.of(micros(10), 10), micros(1));
    }
}
