//! The command against real sockets, servers, files and signals.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod command {
    mod annotations;
    mod captures;
    mod cgroups;
    mod chain;
    mod connections;
    mod corpus;
    mod diagnosed;
    mod exchanges;
    mod frames;
    mod fresh;
    mod host_view;
    mod interrupts;
    mod lab;
    mod limits;
    mod linear;
    mod loads;
    mod privileges;
    mod probes;
    mod program;
    mod route;
    mod score;
    mod secured;
    mod server;
    mod socket_calls;
    mod socket_kinds;
    mod sockets;
    mod streamed;
    mod streams;
    mod targets;
    mod two_captures;
    mod watch;
    mod watch_host;
}
