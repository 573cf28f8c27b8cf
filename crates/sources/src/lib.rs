//! Makes observations: captures, probes, load, sockets, counters, configuration.

pub mod capture;
mod clock;
mod http;
pub mod load;
pub mod probe;
pub mod resolve;
pub mod url;
