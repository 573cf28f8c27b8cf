//! The command against real sockets, servers, files and signals.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod command {
    // These only read files: they need no privilege and disturb nobody, so that
    // `./check` runs them side by side before the others.
    mod files {
        mod annotations;
        mod captures;
        mod connections;
        mod corpus;
        mod exchanges;
        mod formats;
        mod frames;
        mod linear;
        mod score;
        mod streams;
        mod two_captures;
    }

    mod captures;
    mod case;
    mod cgroups;
    mod chain;
    mod diagnosed;
    mod fresh;
    mod host_view;
    mod interrupts;
    mod lab;
    mod limits;
    mod loads;
    mod observations;
    mod privileges;
    mod probes;
    mod program;
    mod renamed;
    #[path = "../runs/replay.rs"]
    mod replay;
    mod route;
    mod secured;
    mod server;
    mod socket_calls;
    mod socket_kinds;
    mod sockets;
    mod started;
    mod streamed;
    mod targets;
    mod watch;
    mod watch_host;
}
