//! The whole analysis of arbitrary bytes. `./check` makes the same assertions.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| lagtrace_fuzz::analyze(bytes));
