//! The records of the eBPF programs.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| lagtrace_sources::fuzzing::kernel_records(bytes));
