//! The pace of a replay or of the capturing device: data of both ends arrives at the same interval
//! after the previous packet.
//!
//! A kernel that paces its sending spaces only the packets of its own side. If the other side's
//! answers arrive at the same interval, neither end caused the spacing.

use core::time::Duration;

use crate::observed::flow::Direction;
use crate::observed::segment::Segment;
use crate::observed::time::Timestamp;

/// Maximum interval between two packets of one group.
const TOGETHER: Duration = Duration::from_micros(200);
/// Number of interval buckets, four per doubling. Intervals over 13 s count in the last one.
const BUCKETS: usize = 64;
/// Number of packets after which counting ends.
const ENOUGH: u32 = 65_536;
/// Minimum number of intervals per side. Fewer may be even by coincidence.
const LEAST: u32 = 4;
/// Minimum share of each side's intervals that must be about the same, in eighths.
const SAME: u32 = 7;

/// Counts the intervals between packets, separately for each side whose data ended the interval.
#[derive(Clone, Debug)]
pub(super) struct Strides {
    packets: u32,
    last: Option<Timestamp>,
    /// The interval before the group to which the last packet belongs.
    gap: Option<Duration>,
    /// For each side, true if its data in that group was already counted.
    has_counted: [bool; 2],
    counts: [[u32; BUCKETS]; 2],
}

impl Default for Strides {
    fn default() -> Self {
        Self {
            packets: 0,
            last: None,
            gap: None,
            has_counted: [false; 2],
            counts: [[0; BUCKETS]; 2],
        }
    }
}

impl Strides {
    /// Processes the next packet.
    #[inline]
    pub(super) fn observe(&mut self, segment: &Segment) {
        if self.packets >= ENOUGH {
            return;
        }
        self.packets += 1;
        let last = self.last.replace(segment.at);
        let gap = last.map(|last| segment.at.since(last));
        if gap.is_none_or(|gap| gap >= TOGETHER) {
            (self.gap, self.has_counted) = (gap, [false; 2]);
        }
        let side = usize::from(segment.direction == Direction::Forward);
        let (Some(gap), [backward, forward]) = (self.gap, &mut self.has_counted) else {
            return;
        };
        let has_counted = match side {
            0 => backward,
            _ => forward,
        };
        if segment.payload_len == 0 || core::mem::replace(has_counted, true) {
            return;
        }
        let counts = self.counts.get_mut(side);
        if let Some(count) = counts.and_then(|counts| counts.get_mut(bucket(gap))) {
            *count = count.saturating_add(1);
        }
    }

    /// Returns true if nearly all data of both sides arrived at the same interval after the
    /// previous packet.
    pub(super) fn are_even(&self) -> bool {
        let [one, other] = &self.counts;
        let is_most = |counts: &[u32; BUCKETS], at: usize| {
            let all: u32 = counts.iter().fold(0, |sum, n| sum.saturating_add(*n));
            let near = counts.iter().skip(at).take(2);
            let near = near.fold(0_u32, |sum, n| sum.saturating_add(*n));
            all >= LEAST && u64::from(near) * 8 >= u64::from(all) * u64::from(SAME)
        };
        (0..BUCKETS).any(|at| is_most(one, at) && is_most(other, at))
    }
}

/// Returns the bucket of an interval of at least [`TOGETHER`]; a bucket is a quarter of a doubling.
fn bucket(gap: Duration) -> usize {
    let quarters = (gap.as_secs_f64() / TOGETHER.as_secs_f64()).log2() * 4.0;
    (quarters as usize).min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::flow::Endpoint;

    /// Returns the verdict on packets. Each is given as: true if sent by the client, microseconds
    /// since the previous packet, payload length.
    fn are_even(packets: impl Iterator<Item = (bool, i64, u32)>) -> bool {
        let client = Endpoint::new([10, 0, 0, 1].into(), 40_000);
        let server = Endpoint::new([10, 0, 0, 2].into(), 25);
        let (mut strides, mut at) = (Strides::default(), 0);
        for (by_client, after, payload_len) in packets {
            at += after * 1_000;
            let ends = if by_client {
                [client, server]
            } else {
                [server, client]
            };
            strides.observe(&Segment {
                payload_len,
                ..Segment::sent(ends[0], ends[1], Timestamp::from_nanos(at))
            });
        }
        strides.are_even()
    }

    /// Returns data of one side every 2.5 ms, acknowledged immediately. After every tenth packet
    /// the other side answers, `after` microseconds later.
    fn served(after: i64) -> impl Iterator<Item = (bool, i64, u32)> {
        (0..100).flat_map(move |n| {
            let answer = [(false, after, 30), (true, 30, 0)].into_iter();
            let data = [(true, 2_450 + n % 5 * 20, 1460), (false, 30, 0)];
            data.into_iter().chain(answer.filter(move |_| n % 10 == 9))
        })
    }

    #[test]
    fn both_ends_keep_one_pace_where_neither_has_made_it() {
        assert!(are_even(served(2_480)));
        assert!(are_even(served(2_300)));
    }

    #[test]
    fn who_answers_at_other_times_is_another() {
        assert!(!are_even(served(400)), "sooner");
        assert!(!are_even(served(9_000)), "later");
        assert!(
            !are_even(served(2_480).filter(|(is_client, ..)| *is_client)),
            "one alone"
        );
        assert!(!are_even(served(2_480).take(70)), "few answers");
        let uneven = served(2_480).zip(0_i64..).map(|(packet, n)| match packet {
            (true, after, len) => (true, after + n * 40, len),
            other => other,
        });
        assert!(!are_even(uneven), "growing");
    }
}
