//! A connection in full: its bytes in order, and its round trips, bytes in flight and windows over
//! time.
//!
//! The input is the segments of one connection in the order in which they were seen. The analysis
//! does not use this module. It serves for viewing a single connection.

mod bytes;
mod samples;

pub use bytes::{Bytes, Turn};
pub use samples::{Samples, WaySamples};
