//! The assessment of a load generator: whether the generator itself determined the measured
//! figures.

use core::time::Duration;

use crate::observed::event::GeneratorSample;

/// Minimum share of one processor at which a generator thread counts as saturated.
const BUSY_SHARE: f64 = 0.9;
/// The processor share is evaluated only for runs of at least this length. A shorter run is mostly
/// setup and teardown.
const SHORTEST: Duration = Duration::from_millis(50);
/// Minimum lateness of the generator (99th percentile) that distorts its results.
const LATE: Duration = Duration::from_millis(2);

impl GeneratorSample {
    /// Returns true if the generator may have determined the measured figures instead of the
    /// service.
    pub(crate) fn is_limit(&self) -> bool {
        let is_late = self.start_lag_p99 >= LATE || self.turn_p99 >= LATE;
        self.has_responses && (self.is_busy() || is_late)
    }

    /// Returns true if a thread of the generator used a whole processor.
    pub(crate) fn is_busy(&self) -> bool {
        let is_judged = self.wall.is_none_or(|wall| wall >= SHORTEST);
        self.busiest_share >= BUSY_SHARE && is_judged
    }

    /// Returns true if the generator sent each request when it was due.
    pub(crate) fn is_on_time(&self) -> bool {
        self.busiest_share < BUSY_SHARE && self.start_lag_p99 < LATE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_no_limit_where_it_set_no_figure() {
        let busy = |wall, has_responses| {
            let sample = GeneratorSample {
                busiest_share: 1.0,
                cpu: wall,
                start_lag_p99: Duration::ZERO,
                turn_p99: Duration::ZERO,
                wall: Some(wall),
                has_responses,
                standstill: None,
            };
            sample.is_limit()
        };
        assert!(busy(Duration::from_secs(1), true));
        assert!(!busy(Duration::from_secs(1), false), "all was refused");
        assert!(!busy(Duration::from_micros(300), true), "hardly begun");
    }

    #[test]
    fn a_recording_of_an_older_version_is_judged() {
        let late = r#"{"busiest_share": 0.2, "cpu": {"secs": 1, "nanos": 0},
            "start_lag_p99": {"secs": 0, "nanos": 3000000},
            "turn_p99": {"secs": 0, "nanos": 0}, "is_limit": true}"#;
        let sample: GeneratorSample = serde_json::from_str(late).expect("a sample");
        assert!(sample.is_limit());
        assert!(!sample.is_on_time());
    }
}
