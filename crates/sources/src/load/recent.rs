//! Figures of the last second, which are shown while the run continues.

use std::collections::VecDeque;

use core::time::Duration;

use lagtrace_core::observed::time::Timestamp;
use lagtrace_core::stats::histogram::Distribution;

use super::record::Record;

/// Length of the period that the figures cover.
const SPAN: Duration = Duration::from_secs(1);

/// Figures of the last second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recent {
    /// Complete responses per second.
    pub rate: f64,
    /// Median latency; `None` if there was no response.
    pub p50: Option<Duration>,
    /// 99th percentile of the latency; `None` if there was no response.
    pub p99: Option<Duration>,
    /// Number of requests that failed.
    pub failures: u64,
}

/// The requests of the last second, by end time.
#[derive(Debug)]
pub(super) struct RecentRequests {
    slices: VecDeque<Slice>,
    begun: Timestamp,
    current: Slice,
}

#[derive(Debug, Default)]
struct Slice {
    length: Duration,
    responses: u64,
    failures: u64,
    latency: Distribution,
}

impl RecentRequests {
    /// Creates an empty window that begins at `now`.
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            slices: VecDeque::new(),
            begun: now,
            current: Slice::default(),
        }
    }

    /// Records a request that ended.
    pub(super) fn take(&mut self, record: &Record) {
        match record.outcome {
            Ok(_) => {
                self.current.responses += record.count;
                let took = record.ended.since(record.due);
                self.current.latency.record_many(took, record.count);
            }
            Err(_) => self.current.failures += record.count,
        }
    }

    /// Returns the figures of the last second and begins a new slice.
    pub(super) fn figures(&mut self, now: Timestamp) -> Recent {
        let mut slice = core::mem::take(&mut self.current);
        slice.length = now.since(self.begun);
        self.begun = now;
        self.slices.push_back(slice);
        let length = |slices: &VecDeque<Slice>| slices.iter().map(|s| s.length).sum::<Duration>();
        while self.slices.len() > 1 && length(&self.slices) > SPAN {
            self.slices.pop_front();
        }
        let seconds = length(&self.slices).as_secs_f64().max(1e-3);
        let mut latency = Distribution::default();
        let (mut responses, mut failures) = (0, 0);
        for slice in &self.slices {
            latency.merge(&slice.latency);
            responses += slice.responses;
            failures += slice.failures;
        }
        Recent {
            rate: responses as f64 / seconds,
            p50: latency.quantile(0.5),
            p99: latency.quantile(0.99),
            failures,
        }
    }
}

#[cfg(test)]
mod tests {
    use lagtrace_core::observed::event::RequestFailure;

    use super::*;
    use crate::load::tests::{at, ms};

    fn record(took: u64, outcome: Result<u16, RequestFailure>) -> Record {
        Record {
            lane: 0,
            group: 0,
            count: 1,
            flow: None,
            ordinal: 0,
            part: 0,
            due: at(0),
            sent: Some(at(0)),
            first_byte: None,
            ended: at(took),
            longest_gap: Duration::ZERO,
            setup: None,
            outcome,
            received_bytes: 0,
        }
    }

    #[test]
    fn what_is_older_than_a_second_is_forgotten() {
        let mut recent = RecentRequests::new(at(0));
        for _ in 0..50 {
            recent.take(&record(500, Ok(200)));
        }
        let figures = recent.figures(at(500));
        assert_eq!(figures.rate, 100.0);
        assert!(figures.p50 >= Some(ms(500)));
        for step in 0..10 {
            for _ in 0..10 {
                recent.take(&record(5, Ok(200)));
            }
            recent.take(&record(0, Err(RequestFailure::Reset)));
            recent.figures(at(600 + step * 100));
        }
        let figures = recent.figures(at(1501));
        assert!(figures.p99 < Some(ms(6)), "{figures:?}");
        assert!((figures.rate - 100.0).abs() < 12.0, "{figures:?}");
        assert!((9..=10).contains(&figures.failures));
    }
}
