//! What the host sources say, against the kernel's own tools and against what
//! the other end of a connection knows of itself.

mod counters;
mod filters;
mod foreign;
mod hops;
mod labels;
mod probes;
mod routes;
mod server;
mod sockets;
mod world;
