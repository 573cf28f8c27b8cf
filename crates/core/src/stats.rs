//! Bounded statistics: distributions, samples, and maps with a maximum size.

pub(crate) mod bounded;
pub mod histogram;
pub(crate) mod sample;
pub(crate) mod slots;
