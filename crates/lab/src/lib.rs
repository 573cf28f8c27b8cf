//! Reproducible causes of latency: two real hosts, a path between them, and servers that are real
//! or have faults.
//!
//! A [`Scenario`] describes hosts, path and servers, and the truth about them. [`Lab::bring_up`]
//! creates them:
//!
//! * each host is a named network namespace (`ip netns`), with IPv4 and IPv6;
//! * with nothing to emulate, the hosts are joined by a veth pair, otherwise by a process that
//!   carries packets between two TUN devices and delays, polices, queues or loses them ([`path`]);
//! * the server runs real nginx, haproxy, Redis and PostgreSQL, and small built-in servers for
//!   behaviour that no real server has ([`server`]).
//!
//! ```no_run
//! use lagtrace_lab::{Family, Helper, Lab, Scenario};
//!
//! # fn main() -> Result<(), lagtrace_lab::Error> {
//! let scenario = Scenario::by_name("nagle-delayed-ack")?;
//! let lab = Lab::bring_up(&scenario, &Helper::this_program("lab-helper"))?;
//! let url = lab.url(scenario.target(), Family::V4);
//! let status = lab.client().command("curl")?.arg(url).status();
//! # let _ = status;
//! lab.take_down()?;
//! # Ok(())
//! # }
//! ```
//!
//! A lab runs in its own processes: a keeper, the path's emulator, and servers. The lab's own
//! processes are the calling program, started again ([`Helper`]), which passes their arguments to
//! [`helper_main()`]. The keeper takes the lab down when its owner ends for any reason. If the keeper
//! is killed too, the next run removes what is listed in the record in `/run/lagtrace-lab`.
//!
//! The machine's own network is never changed: no device, address, route, rule or setting is
//! created or modified there, not even temporarily.
//!
//! The lab creates faults and knows the truth about them; it performs no analysis.

pub mod client;
mod error;
mod helper_main;
mod host;
mod lab;
pub mod load;
mod machine;
pub mod path;
pub mod quantity;
pub mod record;
mod recording;
pub mod scenario;
pub mod server;
mod side;
pub mod stranger;

pub use client::OwnClient;
pub use error::Error;
pub use helper_main::helper_main;
pub use host::Host;
pub use host::firewall::{Firewall, FirewallRules, FirewallWord};
pub use lab::Lab;
pub use lab::run::{Member, Run, runs, take_down};
pub use load::requests::Requests;
pub use machine::helper::Helper;
pub use machine::process::Process;
pub use path::PathCounters;
pub use record::label::{Compared, Label, Shown};
pub use recording::{Recorded, Recording, RecordingOptions};
pub use scenario::requirement::Requirement;
pub use scenario::{Culprit, Expectation, Hidden, Scenario, Service, Truth};
pub use server::{CpuQuota, Stop};
pub use side::{Family, Side};
