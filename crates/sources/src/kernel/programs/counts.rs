//! The counts that the programs keep in their maps.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;

use lagtrace_core::observed::syscall::CallTally;
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Enum;
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{MapCore as _, MapFlags, Object, Program};

use crate::kernel::request::{LATENCY_SLOTS, WatchCounts};

/// Returns the counts of a watch. `reasons` returns the names of the drop reasons.
pub(super) fn of_watch<'a>(
    object: &Object,
    reasons: impl FnOnce() -> &'a BTreeMap<u32, String>,
) -> WatchCounts {
    // The fields of `struct watch_tally` in `bpf/watch.h`.
    let tallies = per_processor(object, "tallies", 0);
    let latency = |slot| sum(&per_processor(object, "latencies", slot), 0);
    WatchCounts {
        latencies: (0..LATENCY_SLOTS).map(latency).collect(),
        lost_records: sum(&tallies, 0),
        connections: sum(&tallies, 1),
        lost_connections: sum(&tallies, 2),
        frames: [sum(&tallies, 3), sum(&tallies, 4)],
        tls_handshakes: sum(&tallies, 5),
        cost: cost(object),
        drops: drops(object, reasons),
    }
}

/// Returns the counts of system calls (`struct call_tally` of `bpf/options.h`).
pub(super) fn of_calls(object: &Object) -> CallTally {
    let tallies = per_processor(object, "tallies", 0);
    CallTally {
        calls: sum(&tallies, 0),
        lost: sum(&tallies, 1),
    }
}

/// Adds up a field of all processors' values.
fn sum(values: &[Vec<u8>], field: usize) -> u64 {
    let words = values.iter().map(|bytes| word(bytes, field * 8));
    words.fold(0, u64::saturating_add)
}

fn per_processor(object: &Object, name: &str, key: u32) -> Vec<Vec<u8>> {
    let map = object.maps().find(|map| map.name() == name);
    let key = key.to_ne_bytes();
    let values = map.and_then(|map| map.lookup_percpu(&key, MapFlags::ANY).ok().flatten());
    values.unwrap_or_default()
}

/// Returns the number of packets that the host dropped, by the kernel's drop reason.
fn drops<'a>(
    object: &Object,
    reasons: impl FnOnce() -> &'a BTreeMap<u32, String>,
) -> Vec<(String, u64)> {
    let Some(map) = object.maps().find(|map| map.name() == "drops") else {
        return Vec::new();
    };
    let counts = map.keys().filter_map(|key| {
        let counts = map.lookup_percpu(&key, MapFlags::ANY).ok().flatten()?;
        let reason = u32::from_ne_bytes(key.try_into().ok()?);
        Some((reason, sum(&counts, 0)))
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
pub(super) fn reasons() -> BTreeMap<u32, String> {
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

/// Returns the total run time of the programs in ns; `None` unless the kernel counts it
/// (`kernel.bpf_stats_enabled`).
fn cost(object: &Object) -> Option<u64> {
    let id = |program: Program<'_>| Program::id_from_fd(program.as_fd()).ok();
    let ours: Vec<u32> = object.progs().filter_map(id).collect();
    let programs = ProgInfoIter::default().filter(|program| ours.contains(&program.id));
    let nanos: u64 = programs.map(|program| program.run_time_ns).sum();
    (nanos > 0).then_some(nanos)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
    word.map_or(0, u64::from_ne_bytes)
}
