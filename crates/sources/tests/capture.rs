//! Captures, of files and live, against the tools and kernels of the field.

#[path = "capture/file.rs"]
mod file;
#[path = "capture/requirement.rs"]
mod requirement;
