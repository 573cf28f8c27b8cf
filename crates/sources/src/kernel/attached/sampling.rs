//! The sample of connections whose requests are reported in full. While there are few requests, the
//! sample contains all connections. Otherwise it contains some of them, and is observed only during
//! short sampling periods (in names: looks).

use std::time::{Duration, Instant};

/// Maximum number of records per second, to limit the load on a busy machine.
const MOST_RECORDS: f64 = 20_000.0;
/// Number of records per second below which the sample may grow.
const FEW_RECORDS: f64 = MOST_RECORDS / 4.0;
/// Interval between checks of the record rate. A check comes earlier if there are very many
/// records, or when a sampling period ends.
const JUDGED_EVERY: Duration = Duration::from_millis(100);
/// Minimum and maximum length of a sampling period, and its length as a multiple of a slow
/// request's duration. With this multiple, very few slow requests are cut off by the period's end.
const SHORTEST: Duration = Duration::from_millis(40);
const LONGEST: Duration = Duration::from_secs(2);
const OF_SLOW: u32 = 20;
/// Length of the pause after a sampling period, as a multiple of the period's length, and its
/// maximum. Pauses limit the cost, because the program that reports segments runs for each packet
/// of the host.
const PAUSE: u32 = 39;
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The mask of the smallest sample: about one in 8,192 connections.
const LEAST_SAMPLE: u32 = 1 << 12;

/// The state of the sample and of the sampling periods.
#[derive(Debug)]
pub(super) struct Sampling {
    /// A connection is in the sample if its hash has none of these bits.
    pub(super) mask: u32,
    /// True during a sampling period.
    pub(super) is_on: bool,
    /// Number of sampling periods so far; never 0.
    pub(super) looks: u32,
    /// True if there are pauses between sampling periods.
    pub(super) has_pauses: bool,
    /// True if there ever were such pauses.
    pub(super) had_pauses: bool,
    /// The beginning of the current sampling period or pause, and the length of a sampling period.
    since: Instant,
    length: Duration,
    judged: Instant,
    records: u64,
}

impl Sampling {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            mask: 0,
            is_on: true,
            looks: 1,
            has_pauses: false,
            had_pauses: false,
            since: now,
            // The duration of requests is not known yet.
            length: JUDGED_EVERY,
            judged: now,
            records: 0,
        }
    }

    /// Processes the total number of records so far. Returns true if the sample changed, or if a
    /// sampling period began or ended. `slow` returns the duration of a slow request.
    pub(super) fn judge(
        &mut self,
        records: u64,
        now: Instant,
        mut slow: impl FnMut() -> Duration,
    ) -> bool {
        let passed = now - self.judged;
        let came = (records - self.records) as f64;
        let is_flood = came > MOST_RECORDS * JUDGED_EVERY.as_secs_f64();
        let may_be_over = self.is_on && self.has_pauses && now - self.since >= self.length;
        if passed < JUDGED_EVERY && !is_flood && !may_be_over {
            return false;
        }
        let rate = came / passed.as_secs_f64().max(f64::EPSILON);
        (self.judged, self.records) = (now, records);
        let has_shrunk = self.is_on && rate > MOST_RECORDS && self.look_at_fewer(rate);
        let pause = (self.length * PAUSE).min(LONGEST_PAUSE);
        if may_be_over {
            // More requests may have been measured since the sampling period began, so its length
            // is computed again.
            self.length = self.length.max(length_for(slow()));
            if now - self.since >= self.length {
                return self.end_look(rate, now);
            }
        }
        if !self.is_on && now - self.since >= pause {
            return self.begin_look(now, slow());
        }
        has_shrunk
    }

    /// Reduces the sample until the expected record rate is below the maximum. Returns true if the
    /// sample was reduced.
    fn look_at_fewer(&mut self, mut rate: f64) -> bool {
        (self.has_pauses, self.had_pauses) = (true, true);
        let before = self.mask;
        while rate > MOST_RECORDS && self.mask < LEAST_SAMPLE {
            self.mask = self.mask * 2 + 1;
            rate /= 2.0;
        }
        self.mask != before
    }

    fn end_look(&mut self, rate: f64, now: Instant) -> bool {
        self.since = now;
        if rate < FEW_RECORDS {
            self.has_pauses = self.mask > 0;
            self.mask /= 2;
        }
        self.is_on = !self.has_pauses;
        true
    }

    fn begin_look(&mut self, now: Instant, slow: Duration) -> bool {
        self.is_on = true;
        // 0 means that there is no sampling period.
        self.looks = self.looks.wrapping_add(1).max(1);
        self.since = now;
        self.length = length_for(slow);
        true
    }
}

/// Returns the length of a sampling period that cuts off very few requests of duration `slow`.
fn length_for(slow: Duration) -> Duration {
    (slow * OF_SLOW).clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Duration = Duration::from_millis(10);
    /// Interval between calls of `judge`.
    const STEP: Duration = Duration::from_millis(20);

    /// Calls `judge` at each step for `seconds`, with `per_second` records per second from all
    /// connections. Returns the fraction of the time that was within sampling periods, and the
    /// number of records.
    fn run(
        sampling: &mut Sampling,
        begin: &mut Instant,
        per_second: f64,
        seconds: u32,
    ) -> (f64, u64) {
        let (mut looked, mut records) = (0, sampling.records);
        let before = records;
        let steps = seconds * 50;
        for _ in 0..steps {
            *begin += STEP;
            if sampling.is_on {
                looked += 1;
                records += (per_second / 50.0 / f64::from(sampling.mask + 1)) as u64;
            }
            sampling.judge(records, *begin, || SLOW);
        }
        (f64::from(looked) / f64::from(steps), records - before)
    }

    #[test]
    fn few_are_all_looked_at() {
        let mut now = Instant::now();
        let mut sampling = Sampling::new(now);
        assert_eq!(run(&mut sampling, &mut now, MOST_RECORDS * 0.9, 60).0, 1.0);
        assert_eq!(sampling.mask, 0);
    }

    #[test]
    fn of_many_some_are_looked_at_now_and_then() {
        let mut now = Instant::now();
        let mut sampling = Sampling::new(now);
        run(&mut sampling, &mut now, 1e6, 60);
        let (looked, records) = run(&mut sampling, &mut now, 1e6, 600);
        assert!((0.02..0.04).contains(&looked), "{looked}");
        assert!((records as f64) < 600.0 * MOST_RECORDS / 5.0, "{records}");
        assert!(records > 50_000, "{records}");
    }

    #[test]
    fn once_they_are_few_all_are_looked_at_again() {
        let mut now = Instant::now();
        let mut sampling = Sampling::new(now);
        run(&mut sampling, &mut now, 1e6, 60);
        run(&mut sampling, &mut now, 1000.0, 120);
        assert_eq!(run(&mut sampling, &mut now, 1000.0, 10).0, 1.0);
        assert_eq!(sampling.mask, 0);
    }

    #[test]
    fn a_look_is_long_beside_a_slow_request() {
        let begin = Instant::now();
        let mut sampling = Sampling::new(begin);
        sampling.begin_look(begin, Duration::from_millis(50));
        assert_eq!(sampling.length, Duration::from_secs(1));
        sampling.begin_look(begin, Duration::from_secs(50));
        assert_eq!(sampling.length, LONGEST);
        sampling.begin_look(begin, Duration::ZERO);
        assert_eq!(sampling.length, SHORTEST);
    }

    #[test]
    fn a_look_goes_on_where_requests_turn_out_to_be_slow() {
        let begin = Instant::now();
        let mut sampling = Sampling::new(begin);
        let flood = MOST_RECORDS as u64;
        sampling.judge(flood, begin + SHORTEST / 2, || Duration::ZERO);
        assert!(sampling.has_pauses && sampling.is_on);
        sampling.judge(flood + 1, begin + JUDGED_EVERY * 2, || SLOW * 5);
        assert!(sampling.is_on, "a second is needed");
        sampling.judge(flood + 2, begin + SLOW * 5 * OF_SLOW, || SLOW * 5);
        assert!(!sampling.is_on);
    }

    #[test]
    fn a_short_look_does_not_wait_to_be_judged() {
        let mut now = Instant::now();
        let mut sampling = Sampling::new(now);
        run(&mut sampling, &mut now, 1e6, 60);
        sampling.begin_look(now, Duration::ZERO);
        (sampling.judged, sampling.records) = (now, 0);
        assert!(!sampling.judge(1, now + SHORTEST / 2, || Duration::ZERO));
        assert!(sampling.is_on);
        assert!(sampling.judge(1, now + SHORTEST, || Duration::ZERO));
        assert!(!sampling.is_on);
    }
}
