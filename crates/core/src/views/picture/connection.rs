//! The connection of an example over time.

use crate::observed::segment::{Segment, TcpFlags};
use crate::observed::time::{Timestamp, nanos};
use crate::registry::Id;
use crate::report::{PicturedConnection, WaySeries};
use crate::views::tracker::SegmentEffect;

/// Maximum number of points of a series. With six series for each direction, a connection has at
/// most 20,000.
const MAX_POINTS: usize = 1_600;

/// A connection while its packets are collected.
#[derive(Debug, Default)]
pub(super) struct ConnectionDraft {
    start: Option<Timestamp>,
    packets: u64,
    /// The client's direction, and the server's.
    ways: [Way; 2],
}

/// The series of the data of one direction.
#[derive(Debug, Default)]
struct Way {
    sent: Series,
    resent: Series,
    acknowledged: Series,
    allowed: Series,
    in_flight: Series,
    round_trips: Series,
}

impl ConnectionDraft {
    pub(super) fn add(&mut self, segment: &Segment, step: &SegmentEffect, from_client: bool) {
        let start = *self.start.get_or_insert(segment.at);
        self.packets += 1;
        let at = nanos(segment.at.since(start));
        let [client, server] = &mut self.ways;
        let [own, peer] = if from_client {
            [client, server]
        } else {
            [server, client]
        };
        if step.end > step.seq {
            let series = if step.is_again {
                &mut own.resent
            } else {
                &mut own.sent
            };
            series.push(at, step.end);
            own.in_flight.push(at, step.in_flight[0]);
        }
        let Some(ack) = step.ack else { return };
        let before = peer.acknowledged.last;
        if peer.acknowledged.raise(at, ack) && before.is_some() {
            peer.in_flight.push(at, step.in_flight[1]);
        }
        if let Some(trip) = step.round_trip {
            peer.round_trips.push(at, nanos(trip));
        }
        let window = step
            .window
            .filter(|_| !segment.flags.contains(TcpFlags::RST));
        if let Some(window) = window {
            peer.allowed.raise(at, ack.saturating_add(window));
        }
    }

    pub(super) fn finish(
        self,
        cause: Option<Id>,
        client: &str,
        server: &str,
    ) -> Option<PicturedConnection> {
        Some(PicturedConnection {
            cause,
            client: client.to_owned(),
            server: server.to_owned(),
            start_ns: self.start?.as_nanos(),
            packets: self.packets,
            ways: self.ways.map(|way| WaySeries {
                sent: way.sent.finish(),
                resent: way.resent.finish(),
                acknowledged: way.acknowledged.finish(),
                allowed: way.allowed.finish(),
                in_flight: way.in_flight.finish(),
                round_trips: way.round_trips.finish(),
            }),
        })
    }
}

/// A value over time. If there are too many points, only the least and the greatest value of each
/// interval are kept, and intervals grow.
#[derive(Debug, Default)]
struct Series {
    points: Vec<(u64, u64)>,
    last: Option<u64>,
    /// Base-2 logarithm of the intervals' length in nanoseconds; 0 as long as all points are kept.
    interval: u32,
}

impl Series {
    fn push(&mut self, at: u64, value: u64) {
        // A capture may contain packets whose times are slightly out of order.
        let at = self.points.last().map_or(at, |last| at.max(last.0));
        self.last = Some(value);
        self.points.push((at, value));
        if self.points.len() >= 2 * MAX_POINTS {
            self.thin();
        }
    }

    /// Adds the value if it is higher than all before; returns true if it is.
    fn raise(&mut self, at: u64, value: u64) -> bool {
        let is_higher = self.last.is_none_or(|last| value > last);
        if is_higher {
            self.push(at, value);
        }
        is_higher
    }

    /// Thins the points, and lengthens the intervals only as far as necessary.
    fn thin(&mut self) {
        if self.interval > 0 {
            self.points = self.joined(self.interval);
        }
        if self.points.len() <= MAX_POINTS {
            return;
        }
        // Over days, the intervals may be too short by a factor of 2^48.
        let (mut short, mut enough) = (self.interval, u64::BITS - 1);
        while short + 1 < enough {
            let middle = short.midpoint(enough);
            if self.joined(middle).len() <= MAX_POINTS {
                enough = middle;
            } else {
                short = middle;
            }
        }
        self.interval = enough;
        self.points = self.joined(enough);
    }

    /// Returns the least and the greatest value of each interval; `interval` is the base-2 logarithm of
    /// its length.
    fn joined(&self, interval: u32) -> Vec<(u64, u64)> {
        let is_same = |one: &(u64, u64), next: &(u64, u64)| one.0 >> interval == next.0 >> interval;
        let mut kept = Vec::with_capacity(self.points.len());
        for points in self.points.chunk_by(is_same) {
            let value = |&&(_, value): &&(u64, u64)| value;
            let ends = (
                points.iter().min_by_key(value),
                points.iter().max_by_key(value),
            );
            let (Some(&least), Some(&greatest)) = ends else {
                continue;
            };
            let (first, second) = (least.min(greatest), least.max(greatest));
            kept.push(first);
            kept.extend((second != first).then_some(second));
        }
        kept
    }

    fn finish(mut self) -> Vec<(u64, u64)> {
        self.thin();
        self.points
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn long_series_keep_their_extremes() {
        let mut series = Series::default();
        for n in 0..100_000_u64 {
            series.push(n * 1_000, if n == 77_777 { 9_999 } else { n % 100 });
        }
        let points = series.finish();
        assert!(
            (400..=MAX_POINTS).contains(&points.len()),
            "{}",
            points.len()
        );
        assert!(points.is_sorted_by_key(|point| point.0));
        assert!(points.contains(&(77_777_000, 9_999)));
        let has_both = |points: &[(u64, u64)]| {
            let is = |low: bool| points.iter().any(|point| (point.1 < 50) == low);
            is(true) && is(false)
        };
        assert!(points.chunks_exact(40).all(has_both));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Intervals are no longer than it takes: with half of their length, there are too many points.
        #[test]
        fn intervals_are_as_short_as_possible(
            shift in 0_u32..50,
            steps in prop::collection::vec(0_u64..9, MAX_POINTS + 1..2 * MAX_POINTS),
        ) {
            let mut at = 0;
            let mut points = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                at += step << shift;
                points.push((at, number as u64 % 7));
            }
            let mut series = Series { points, ..Series::default() };
            let before = Series { points: series.points.clone(), ..Series::default() };
            series.thin();
            prop_assert!(series.points.len() <= MAX_POINTS);
            prop_assert_eq!(&series.points, &before.joined(series.interval));
            let shorter = before.joined(series.interval - 1);
            prop_assert!(series.interval == 1 || shorter.len() > MAX_POINTS);
        }
    }
}
