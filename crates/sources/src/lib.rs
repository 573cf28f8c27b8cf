//! Makes observations: captures, probes, load, sockets, counters, configuration.

pub mod capture;
mod clock;
pub mod config;
pub mod counter;
pub mod firewall;
mod http;
pub mod load;
pub mod netlink;
pub mod privilege;
pub mod probe;
pub mod resolve;
pub mod route;
pub mod socket;
pub mod timer;
pub mod url;
