//! The analysis: bytes and observations in, one [`Report`](report::Report) out.
//!
//! Sources pass in [`Segment`](observed::segment::Segment)s and [`Event`](observed::event::Event)s.
//! The analyzer assembles them into connections, pairs requests with responses, and divides each
//! exchange into waits without gap or overlap. It then weighs the causes and concludes. Nothing
//! here reads a clock, a file, a socket or the environment. Bad traffic becomes a fact in the
//! report, never an `Err`.
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
