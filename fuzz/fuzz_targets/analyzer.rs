//! The whole analysis of any bytes; what is asked of it stands where `./check` asks it too.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/core/tests/hostile/analyzer.rs"]
mod analyzer;

fuzz_target!(|bytes: &[u8]| analyzer::check(bytes));
