//! The analysis: bytes and observations in, one [`Report`](report::Report) out.
//!
//! Sources pass in [`Segment`](observed::segment::Segment)s and [`Event`](observed::event::Event)s.
//! The analyzer assembles them into connections, pairs requests with responses, and divides each
//! exchange into waits without gap or overlap. It then weighs the causes and concludes. Nothing
//! here reads a clock, a file, a socket or the environment. Bad traffic becomes a fact in the
//! report, never an `Err`.
//!
//! The main types, in the order in which data passes them:
//!
//! - [`Packet`](decode::Packet): what a record of a capture contains, with its payload borrowed;
//! - [`Analyzer`](analyzer::Analyzer): takes packets, segments and events, and makes the report;
//! - [`Exchange`](exchange::Exchange): a request and its response;
//! - [`Wait`](exchange::wait::Wait): a part of an exchange's time, with its
//!   [`WaitKind`](exchange::wait::WaitKind) and its [`Owner`](exchange::wait::Owner);
//! - [`Cause`](registry::Cause): a row of the registry; its [`Id`](registry::Id) names it everywhere;
//! - [`Finding`](report::Finding): a cause that was found, with its cost, evidence and change;
//! - [`Report`](report::Report): everything that views print.
#![forbid(unsafe_code)]

pub mod analyzer;
mod attribution;
pub mod cause;
mod claim;
mod conclude;
mod connection;
pub mod decode;
pub mod exchange;
mod facts;
pub mod observed;
mod preconnect;
mod protocol;
pub mod ramp;
pub mod registry;
pub mod report;
pub mod route;
mod service;
pub mod stats;
#[cfg(test)]
mod tests;
pub mod views;
