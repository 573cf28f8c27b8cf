//! Sources that observe hosts, compared with the kernel's own tools and with the other end of a
//! connection.

mod counters;
mod filters;
mod foreign;
mod hops;
mod impostor;
mod labels;
mod probes;
mod routes;
mod server;
mod sockets;
mod world;
