//! The scenarios that are built into the program: one file each in the repository's `lab/`.

/// The name and text of every shipped scenario, by name.
pub(super) const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/scenarios.rs"));
