//! Conversations in protocols that are recognized by their first bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| lagtrace_fuzz::conversation("answered", bytes));
