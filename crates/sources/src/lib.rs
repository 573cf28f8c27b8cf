//! placeholder

pub mod capture;
