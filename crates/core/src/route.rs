//! The observations of route probes, hop by hop, and their assessment.
//!
//! In: one [`HopSample`](crate::observed::route::HopSample) for each probe. Out: the report's
//! hops. A loss or a delay counts against a hop only if it persists to the target: routers answer
//! probes when they have nothing better to do, and many limit how often (Linux:
//! `net.ipv4.icmp_ratelimit`, one a second after a burst of six).

mod tally;
mod weigh;

pub use tally::RouteTally;
pub(crate) use weigh::alike;
