//! The decoder with arbitrary bytes. `./check` makes the same assertions.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/core/tests/hostile/decode.rs"]
mod decode;

fuzz_target!(|bytes: &[u8]| decode::check(bytes));
