//! The command against real sockets, servers, files and signals.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod command {
    // These tests only read files. They need no privilege and disturb no other test, so `./check`
    // runs them in parallel, before the live tests.
    mod files {
        mod annotations;
        mod captures;
        mod connections;
        pub(super) mod corpus;
        mod cost;
        mod ends;
        mod escapes;
        mod exchanges;
        mod expensive;
        mod expensive_http2;
        mod exported;
        mod formats;
        mod frames;
        mod jumps;
        mod linear;
        mod manual;
        mod outputs;
        pub(super) mod page;
        mod printed;
        mod score;
        mod served;
        mod streams;
        mod two_captures;
    }

    mod attempts;
    mod capacity;
    mod captured_part;
    mod captures;
    mod case;
    mod cgroups;
    mod chain;
    mod confined;
    mod diagnosed;
    #[path = "../metamorphic/draw.rs"]
    #[allow(dead_code, reason = "each test draws in some of the ways")]
    mod draw;
    mod drawn;
    mod ended;
    mod failing_files;
    mod fresh;
    mod host_view;
    mod interrupts;
    mod lab;
    mod limits;
    mod loads;
    mod nginx;
    mod observations;
    mod open_files;
    mod paged;
    mod privileges;
    mod probes;
    mod program;
    mod renamed;
    mod renumbered;
    #[path = "../runs/replay.rs"]
    mod replay;
    mod requests;
    mod route;
    mod secured;
    mod server;
    mod silent;
    mod socket_calls;
    mod socket_kinds;
    mod sockets;
    mod started;
    mod stopped;
    mod strangers;
    mod streamed;
    mod surroundings;
    mod targets;
    mod translated;
    mod unix_sockets;
    mod upstreams;
    mod watch;
    mod watch_host;
    mod watch_http2;
    mod watch_page;
    mod watch_tls;
}
