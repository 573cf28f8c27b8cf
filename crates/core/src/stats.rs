//! Bounded statistics: distributions, samples, and maps with a maximum size.

pub(crate) mod bounded;
pub(crate) mod curve;
pub mod histogram;
pub(crate) mod merge;
pub(crate) mod sample;
pub(crate) mod slots;

pub(crate) use merge::Merge;
