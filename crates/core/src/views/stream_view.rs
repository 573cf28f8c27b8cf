//! A connection in full: its bytes in order, and its round trips, bytes in flight and windows over
//! time.
//!
//! The input is the segments of one connection in the order they were seen. The analysis does not
//! need this; it is for looking closely.

mod bytes;
mod samples;

pub use bytes::{Bytes, Turn};
pub use samples::{Samples, WaySamples};

use crate::observed::flow::Direction;

/// Returns the place of a direction in a list of both.
const fn way(direction: Direction) -> usize {
    match direction {
        Direction::Forward => 0,
        Direction::Backward => 1,
    }
}
