//! The decoder on any bytes; what is asked of it stands where `./check` asks it too.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/core/tests/hostile/decode.rs"]
mod decode;

fuzz_target!(|bytes: &[u8]| decode::check(bytes));
