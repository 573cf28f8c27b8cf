//! Captures, from files and live, against the tools and kernels of the field.

#[path = "capture/file.rs"]
mod file;
#[path = "capture/fragments.rs"]
mod fragments;
#[path = "capture/live.rs"]
mod live;
#[path = "capture/requirement.rs"]
mod requirement;
#[path = "capture/traffic.rs"]
mod traffic;
