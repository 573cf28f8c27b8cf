//! Reproducible causes of latency: two real hosts, a path between them, and servers that are real
//! or have faults.
//!
//! A [`Scenario`] describes hosts, path and servers, and the truth about them. [`Lab::bring_up`]
//! creates them:
//!
//! * each host is a named network namespace (`ip netns`), with IPv4 and IPv6;
//! * with nothing to emulate, the hosts are joined by a veth pair, otherwise by a process that
//!   carries packets between two TUN devices and delays, polices, queues or loses them ([`path`]);
//! * the server runs real nginx, haproxy, Redis and PostgreSQL, and small servers of the lab's own
//!   for behaviour that none of these has ([`server`]).
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
//! [`helper_main`]. The keeper takes the lab down when its owner ends for any reason. If the keeper
//! is killed too, the next run removes what is listed in the record in `/run/lagtrace-lab`.
//!
//! The machine's own network is never changed: no device, address, route, rule or setting is
//! created or modified there, not even temporarily.
//!
//! The lab creates faults and knows the truth about them; it performs no analysis.

mod bring_up;
pub mod client;
mod control;
mod crew;
mod error;
mod firewall;
mod helper;
mod hold;
mod host;
mod host_files;
mod keeper;
mod lab;
mod label;
mod link;
pub mod load;
mod namespace;
pub mod path;
mod privilege;
mod process;
pub mod record;
mod recording;
mod requirement;
mod run;
pub mod scenario;
pub mod server;
mod tool;

pub use client::OwnClient;
pub use control::{CpuQuota, Stop};
pub use error::Error;
pub use firewall::{Firewall, FirewallRules, FirewallWord};
pub use helper::{Helper, helper_main};
pub use host::{Host, Side};
pub use lab::{Family, Lab};
pub use label::{Compared, Label, Shown};
pub use load::requests::Requests;
pub use path::PathCounters;
pub use process::Process;
pub use recording::{Recorded, Recording, RecordingOptions};
pub use requirement::Requirement;
pub use run::{Member, Run, runs, take_down};
pub use scenario::{Culprit, Expectation, Hidden, Scenario, Service, Truth};
