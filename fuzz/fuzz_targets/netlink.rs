//! The answers of netlink: sockets, routes, rules of the packet filter.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| lagtrace_sources::fuzzing::netlink(bytes));
