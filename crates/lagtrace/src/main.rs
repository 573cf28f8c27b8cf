//! The lagtrace command.
fn main() {}
