//! The resolved configuration, compared with real programs.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod cases;
mod process;
mod random;
mod server;
