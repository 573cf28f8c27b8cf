//! Makes observations: captures, probes, load, sockets, counters, configuration.

pub mod capture;
pub mod counter;
pub mod firewall;
pub mod netlink;
pub mod privilege;
pub mod route;
pub mod socket;
pub mod timer;
