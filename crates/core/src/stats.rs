//! Bounded statistics: distributions, samples, and maps that hold no more than they may.

pub mod histogram;
pub(crate) mod slots;
