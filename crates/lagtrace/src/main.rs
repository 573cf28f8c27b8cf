//! The lagtrace command.

#[allow(dead_code, unused_imports, reason = "the commands call it")]
mod render;

fn main() {}
