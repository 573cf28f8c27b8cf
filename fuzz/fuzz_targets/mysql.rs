//! Conversations in MySQL. `./check` makes the same assertions.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| lagtrace_fuzz::conversation("mysql", bytes));
