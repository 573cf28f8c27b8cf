//! URLs and the expressions of `--where`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    lagtrace_sources::fuzzing::url(text);
    lagtrace::fuzzing::condition(text);
});
