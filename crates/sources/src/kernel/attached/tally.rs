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
    fn a_slots_end_is_its_longest() {
        for slot in 0..LATENCY_SLOTS - 1 {
            assert_eq!(slot_of(slot_end(slot)), slot, "{slot}");
            assert_eq!(slot_of(slot_end(slot) + 1), slot + 1, "{slot}");
        }
    }
}
