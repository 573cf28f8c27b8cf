//! Captures from files and live captures, compared with other tools and tested on a real kernel.

#[path = "capture/file.rs"]
mod file;
#[path = "capture/fragments.rs"]
mod fragments;
#[path = "capture/landmarks.rs"]
mod landmarks;
#[path = "capture/live.rs"]
mod live;
#[path = "capture/requirement.rs"]
mod requirement;
#[path = "capture/traffic.rs"]
mod traffic;
