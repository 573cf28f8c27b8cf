//! The counts that the programs keep in their maps.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::time::Duration;

use lagtrace_core::observed::kernel_span::WatchTally;
use lagtrace_core::stats::histogram::Distribution;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Enum;
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{MapCore as _, MapFlags, Object, Program};

/// Returns all counts so far. The sampled share is not one of them, because the programs do not
/// know it.
pub(super) fn tally(object: &Object) -> WatchTally {
    let tallies = per_processor(object, "tallies", 0);
    // The fields of `struct watch_tally` in `bpf/watch.h`.
    let sum = |field: usize| -> u64 {
        let value = |bytes: &Vec<u8>| word(bytes, field * 8);
        tallies.iter().map(value).sum()
    };
    WatchTally {
        latency: latency(object),
        connections: sum(1),
        sampled_share: 0.0,
        lost_records: sum(0),
        lost_connections: sum(2),
        cost: cost(object),
        throttling: None,
        stolen: None,
        drops: drops(object),
    }
}

/// Returns the distribution of the exchanges' durations. Inverts `slot_of()` in
/// `bpf/watch/turns.h`.
fn latency(object: &Object) -> Distribution {
    let slots = (0..LATENCY_SLOTS).map(|slot| {
        let counts = per_processor(object, "latencies", slot);
        let count = counts.iter().map(|bytes| word(bytes, 0)).sum();
        (slot_end(slot), count)
    });
    Distribution::from_buckets(slots)
}

fn per_processor(object: &Object, name: &str, key: u32) -> Vec<Vec<u8>> {
    let map = object.maps().find(|map| map.name() == name);
    let key = key.to_ne_bytes();
    let values = map.and_then(|map| map.lookup_percpu(&key, MapFlags::ANY).ok().flatten());
    values.unwrap_or_default()
}

/// Returns the number of packets that the host dropped, by the kernel's drop reason.
fn drops(object: &Object) -> Vec<(String, u64)> {
    let Some(map) = object.maps().find(|map| map.name() == "drops") else {
        return Vec::new();
    };
    let counts = map.keys().filter_map(|key| {
        let counts = map.lookup_percpu(&key, MapFlags::ANY).ok().flatten()?;
        let reason = u32::from_ne_bytes(key.try_into().ok()?);
        Some((reason, counts.iter().map(|bytes| word(bytes, 0)).sum()))
    });
    let counts: BTreeMap<u32, u64> = counts.collect();
    if counts.is_empty() {
        return Vec::new();
    }
    let names = reasons();
    let name = |reason| match names.get(&reason) {
        Some(name) => name.clone(),
        None => format!("reason {reason}"),
    };
    let named = counts
        .into_iter()
        .map(|(reason, count)| (name(reason), count));
    named.collect()
}

/// Returns the names of this kernel's `enum skb_drop_reason`, without their common prefix.
fn reasons() -> BTreeMap<u32, String> {
    let types = Btf::from_vmlinux().ok();
    let all = types
        .as_ref()
        .and_then(|types| types.type_by_name::<Enum<'_>>("skb_drop_reason"));
    let members = all.iter().flat_map(|all| all.iter());
    let named = members.filter_map(|member| {
        let name = member.name?.to_string_lossy();
        let short = name.strip_prefix("SKB_DROP_REASON_").unwrap_or(&name);
        Some((u32::try_from(member.value).ok()?, short.to_owned()))
    });
    named.collect()
}

/// Returns the total run time of the programs; `None` unless the kernel counts it
/// (`kernel.bpf_stats_enabled`).
fn cost(object: &Object) -> Option<Duration> {
    let id = |program: Program<'_>| Program::id_from_fd(program.as_fd()).ok();
    let ours: Vec<u32> = object.progs().filter_map(id).collect();
    let programs = ProgInfoIter::default().filter(|program| ours.contains(&program.id));
    let nanos: u64 = programs.map(|program| program.run_time_ns).sum();
    (nanos > 0).then(|| Duration::from_nanos(nanos))
}

/// `LATENCY_SLOTS` of `bpf/watch.h`.
const LATENCY_SLOTS: u32 = 320;

/// Returns the longest duration, in ns, that is counted in a slot.
fn slot_end(slot: u32) -> u64 {
    let (exponent, step) = (slot / 8, u64::from(slot % 8));
    let end = match exponent {
        0 => step + 1,
        _ => (9 + step) << (exponent - 1),
    };
    (end << 8) - 1
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
    word.map_or(0, u64::from_ne_bytes)
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
