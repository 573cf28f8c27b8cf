//! Traffic that no rule was written for: programs, faults, a path and a capture, all drawn from a
//! seed.
//!
//! The scenarios of the lab each have one cause, and rules may have been tuned to them. Here a
//! seed draws how a client and a server talk ([`Traffic`]), and none, one or two faults. Both
//! programs write down when each request began and ended, and every wait that they added on
//! purpose. From these diaries follows what each fault costs ([`StrangerTruth`]), without any packet.

mod asking;
mod diary;
mod draw;
mod fault;
mod record;
mod serving;
mod traffic;
mod truth;
mod wire;

pub(crate) use asking::run as ask;
pub use diary::{AskedEntry, Served};
pub use fault::{Fault, Place};
pub use record::{StrangerRecording, again, record};
pub(crate) use serving::run as serve;
pub use traffic::{Habits, Points, Spread, Talk, Traffic, View, WireFormat};
pub use truth::{Part, Span, StrangerTruth, TrueRequest};

/// Returns the seed of a run. The first run has the seed of them all, so that any run can be
/// repeated alone by its own seed.
pub fn own_seed(seed: u64, run: u64) -> u64 {
    if run == 0 {
        return seed;
    }
    // Short enough to be typed.
    crate::path::chance::mix(crate::path::chance::mix(seed).wrapping_add(run)) >> 32
}
