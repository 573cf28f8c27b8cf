//! Helpers for the tests of several modules.

pub(crate) mod orders;
