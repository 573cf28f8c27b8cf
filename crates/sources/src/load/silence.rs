//! Silences: intervals in which every connection of a lane waited for the first byte of a response.

use core::time::Duration;

use lagtrace_core::observed::event::{RequestFailure, Silence};
use lagtrace_core::observed::time::Timestamp;

use super::plan::Plan;
use super::record::Record;

/// Minimum length of a silence that is reported.
const LEAST: Duration = Duration::from_millis(100);
/// Maximum number of long waits kept for each lane. Later ones are dropped.
const MOST: usize = 16_384;
/// Maximum number of silences reported for each lane. Later ones are left out.
const MOST_TOLD: usize = 256;

/// Waits of at least [`LEAST`] for the first byte of a response, by lane. Silences are computed
/// from them.
#[derive(Debug)]
pub(super) struct Silences {
    waits: Vec<Vec<(Timestamp, Timestamp)>>,
}

impl Silences {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            waits: vec![Vec::new(); plan.lanes.len()],
        }
    }

    pub(super) fn take(&mut self, record: &Record) {
        let (Some(sent), Some(first)) = (record.sent, record.first_byte) else {
            return;
        };
        let is_answer = record.count == 1 && record.outcome != Err(RequestFailure::Cut);
        if let Some(waits) = self.waits.get_mut(record.lane)
            && is_answer
            && first.since(sent) >= LEAST
            && waits.len() < MOST
        {
            waits.push((sent, first));
        }
    }

    /// Returns the silences, each with the number of its lane.
    pub(super) fn finish(self, plan: &Plan) -> Vec<(usize, Silence)> {
        let lanes = self.waits.into_iter().zip(&plan.lanes).enumerate();
        let told = lanes.flat_map(|(number, (waits, lane))| {
            // With several requests in flight on a connection, one connection would count several
            // times, so no silences are reported.
            let waits = if plan.protocol.at_once > 1 {
                Vec::new()
            } else {
                waits
            };
            let stretches = covered(waits, lane.connections).into_iter();
            stretches.take(MOST_TOLD).map(move |(begin, end)| {
                let silence = Silence {
                    target: lane.target.id,
                    begin,
                    end,
                    connections: lane.connections,
                };
                (number, silence)
            })
        });
        told.collect()
    }
}

/// Returns the intervals of at least [`LEAST`] in which at least `by` waits overlap.
fn covered(waits: Vec<(Timestamp, Timestamp)>, by: u32) -> Vec<(Timestamp, Timestamp)> {
    let mut turns: Vec<(Timestamp, i64)> = Vec::with_capacity(2 * waits.len());
    for (begin, end) in waits {
        turns.push((begin, 1));
        turns.push((end, -1));
    }
    turns.sort_unstable();
    let (mut open, mut since) = (0, None);
    let mut stretches = Vec::new();
    for (at, step) in turns {
        open += step;
        if open >= i64::from(by) {
            since = since.or(Some(at));
        } else if let Some(begin) = since.take()
            && at.since(begin) >= LEAST
        {
            stretches.push((begin, at));
        }
    }
    stretches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    fn waits(of: &[(i64, i64)]) -> Vec<(Timestamp, Timestamp)> {
        of.iter().map(|&(from, to)| (at(from), at(to))).collect()
    }

    #[test]
    fn only_what_all_connections_wait_through_is_a_silence() {
        let all = waits(&[(0, 500), (2, 501), (3, 502)]);
        assert_eq!(covered(all.clone(), 3), waits(&[(3, 500)]));
        // There were never four waits at the same time.
        assert!(covered(all, 4).is_empty());
        let by_turns = waits(&[(0, 150), (50, 300), (140, 450)]);
        assert!(covered(by_turns, 3).is_empty(), "10 ms");
    }
}
