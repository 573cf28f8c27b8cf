//! The observations of route probes, hop by hop, and their assessment.
//!
//! The input is one [`HopSample`](crate::observed::route::HopSample) for each probe. The output is
//! the report's hops. A loss or a delay counts against a hop only if it persists to the target.
//! Routers answer probes at low priority, and many limit the rate of their answers (Linux,
//! `net.ipv4.icmp_ratelimit`: one per second after a burst of six).

mod tally;
mod weigh;
pub(crate) mod worth;

pub use tally::RouteTally;
pub(crate) use weigh::alike;
pub use worth::TargetProbes;
