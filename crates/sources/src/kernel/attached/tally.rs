//! The report's totals, from the counts of the programs.

use std::time::Duration;

use lagtrace_core::observed::kernel_span::WatchTally;
use lagtrace_core::stats::histogram::Distribution;

use crate::kernel::request::{LATENCY_SLOTS, WatchCounts};

/// Returns the totals, without those that the programs do not know: the sampled share, what payload
/// would show, throttling, stolen time and whether handshakes are seen.
pub(super) fn tally(counts: &WatchCounts) -> WatchTally {
    WatchTally {
        latency: latency(counts),
        connections: counts.connections,
        sampled_share: 0.0,
        stream_share: stream_share(counts.frames),
        unread_tls_handshakes: 0,
        lost_records: counts.lost_records,
        lost_connections: counts.lost_connections,
        cost: counts.cost.map(Duration::from_nanos),
        throttling: None,
        stolen: None,
        drops: counts.drops.clone(),
        sees_handshakes: false,
    }
}

fn stream_share([all, sampled]: [u64; 2]) -> Option<f64> {
    (all > 0).then(|| (sampled as f64 / all as f64).min(1.0))
}

/// Returns the share of all exchanges that were examined. If no sample was ever drawn (`is_whole`) and
/// no record was lost, it is all of them: an exchange that was under way when the watch began or
/// ended is counted and not reported, which is no choice among many.
pub(super) fn sampled_share(counts: &WatchCounts, reported: u64, is_whole: bool) -> f64 {
    let all = counts.latencies.iter().sum::<u64>();
    if is_whole && all > 0 && counts.lost_records == 0 {
        return 1.0;
    }
    (reported as f64 / all.max(1) as f64).min(1.0)
}

/// Returns the distribution of the exchanges' durations. Inverts `slot_of()` in
/// `bpf/watch/turns.h`.
pub(super) fn latency(counts: &WatchCounts) -> Distribution {
    let slots = (0..LATENCY_SLOTS).map(slot_end);
    Distribution::from_buckets(slots.zip(counts.latencies.iter().copied()))
}

/// Returns the longest duration, in ns, that is counted in a slot.
fn slot_end(slot: u32) -> u64 {
    let (exponent, step) = (slot / 8, u64::from(slot % 8));
    let end = match exponent {
        0 => step + 1,
        _ => (9 + step) << (exponent - 1),
    };
    (end << 8) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the slot of a duration, as `slot_of()` in `bpf/watch/turns.h` does.
    fn slot_of(latency: u64) -> u32 {
        let value = latency >> 8;
        match value {
            0..8 => u32::try_from(value).unwrap_or_default(),
            _ => {
                let exponent = value.ilog2();
                let step = u32::try_from(value >> (exponent - 3) & 7).unwrap_or_default();
                ((exponent - 2) * 8 + step).min(LATENCY_SLOTS - 1)
            }
        }
    }

    #[test]
    fn exchanges_at_the_ends_of_a_watch_are_no_sample() {
        let of = |lost_records, is_whole| {
            let counts = WatchCounts {
                latencies: vec![20, 0, 4],
                lost_records,
                ..WatchCounts::default()
            };
            sampled_share(&counts, 18, is_whole)
        };
        assert_eq!(of(0, true), 1.0);
        assert_eq!(of(0, false), 0.75, "a sample was drawn");
        assert_eq!(of(6, true), 0.75, "records were lost");
        assert_eq!(sampled_share(&WatchCounts::default(), 0, true), 0.0);
    }

    #[test]
    fn a_slots_end_is_its_longest() {
        for slot in 0..LATENCY_SLOTS - 1 {
            assert_eq!(slot_of(slot_end(slot)), slot, "{slot}");
            assert_eq!(slot_of(slot_end(slot) + 1), slot + 1, "{slot}");
        }
    }
}
