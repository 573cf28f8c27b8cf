//! Operations of a run, counted as instructions. This program runs itself again in valgrind: the
//! count does not depend on what else the machine does.

use std::process::Command;

/// The first argument of a run that is counted.
pub(crate) const CHILD: &str = "orders-child";

/// Returns true if valgrind is there.
pub(crate) fn can_count() -> bool {
    let output = Command::new("valgrind").arg("--version").output();
    output.is_ok_and(|output| output.status.success())
}

/// Returns the number of instructions of a run of a driver, in which it feeds this many keys.
pub(crate) fn instructions(driver: &str, order: &str, count: u32, seed: u64) -> u64 {
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    command.arg(program).args([CHILD, driver, order]);
    command.args([count.to_string(), seed.to_string()]);
    let output = command.output().expect("valgrind starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{driver} {order} {count}: {said}");
    collected(&said).unwrap_or_else(|| panic!("valgrind said no count: {said}"))
}

/// Returns the sum in the line `==1234== Collected : 5678`.
fn collected(said: &str) -> Option<u64> {
    let sum = said
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    sum?.1.trim().parse().ok()
}
