//! Reproducible causes of latency: two real hosts, a path between them, and servers that are real
//! or have faults.

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
