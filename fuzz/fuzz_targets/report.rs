//! Reports and comparisons that are given to `view` and `compare`.
#![no_main]

use lagtrace_fuzz::document;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_target!(|bytes: &[u8]| lagtrace::fuzzing::report(bytes));

// Most changes of a report's bytes make it unreadable.
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let changed = document::changed(data.get(..size).unwrap_or_default(), seed);
    match changed.filter(|changed| changed.len() <= max_size) {
        Some(changed) => {
            let (place, _) = data.split_at_mut(changed.len());
            place.copy_from_slice(&changed);
            changed.len()
        }
        None => fuzzer_mutate(data, size, max_size),
    }
});
