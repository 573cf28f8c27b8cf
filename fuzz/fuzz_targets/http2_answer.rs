//! The answers of HTTP/2 servers to our own requests.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| lagtrace_sources::fuzzing::http2_answer(bytes));
