//! Bytes and observations in, one [`Report`](report::Report) out.
//!
//! Sources hand in [`Segment`](observed::segment::Segment)s and [`Event`](observed::event::Event)s;
//! the analyzer folds them into connections, pairs requests with responses,
//! cuts each exchange into waits that tile it, weighs causes and concludes.
//! Nothing here reads a clock, a file, a socket or the environment, and bad
//! traffic is a fact in the report, never an `Err`.
#![forbid(unsafe_code)]

pub mod analyzer;
mod attribution;
pub mod cause;
mod conclude;
mod connection;
pub mod decode;
pub mod exchange;
mod facts;
pub mod observed;
mod preconnect;
mod protocol;
pub mod registry;
pub mod report;
pub mod route;
mod service;
pub mod stats;
pub mod views;
