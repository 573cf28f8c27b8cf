//! The whole analysis of arbitrary bytes. `./check` makes the same assertions.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/core/tests/hostile/analyzer.rs"]
mod analyzer;

fuzz_target!(|bytes: &[u8]| analyzer::check(bytes));
