//! Bounded statistics: distributions, samples, and maps that hold no more than they may.

pub(crate) mod bounded;
pub mod histogram;
pub(crate) mod sample;
pub(crate) mod slots;
