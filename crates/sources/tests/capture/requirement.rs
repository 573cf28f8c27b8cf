//! Programs and permissions that a test needs.

use std::process::{Command, Stdio};

/// Returns true and prints a message if `tool` is not installed. With `LAGTRACE_REQUIRE_ALL=1`, the
/// test fails instead.
pub(crate) fn is_missing_tool(tool: &str) -> bool {
    let mut command = Command::new(tool);
    let found = command
        .arg("-h")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    found.is_err() && skip(tool)
}

/// Returns true and prints a message if the tests do not run as root. With
/// `LAGTRACE_REQUIRE_ALL=1`, the test fails instead.
pub(crate) fn is_missing_root() -> bool {
    !rustix::process::geteuid().is_root() && skip("root")
}

#[allow(clippy::print_stdout)]
fn skip(need: &str) -> bool {
    let must_run = std::env::var_os("LAGTRACE_REQUIRE_ALL").is_some_and(|value| value == "1");
    assert!(!must_run, "needs {need}");
    println!("skipped: needs {need}");
    true
}
