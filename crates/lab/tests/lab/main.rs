//! Tests of the lab on the real kernel: hosts, path and servers, and that nothing is left behind.
//!
//! Needs root, nginx and nft. Without them, a test prints that it is skipped, or fails if
//! `LAGTRACE_REQUIRE_ALL` is set.

#![allow(clippy::print_stdout)]

mod case;
mod client;
mod crash;
mod devices;
mod drawn;
mod hosts;
mod names;
mod own;
mod path;
mod servers;
mod servers_real;
mod tls;

use std::time::Duration;

use lagtrace_lab::{Error, Helper, Lab, Run, Scenario};

fn helper() -> Helper {
    Helper::program(env!("CARGO_BIN_EXE_lagtrace-lab-helper"))
}

/// Brings up a shipped scenario at this round trip in milliseconds; `None` if this machine cannot
/// run it.
fn up(name: &str, round_trip_ms: u64) -> Option<Lab> {
    let scenario = Scenario::by_name(name).expect("a shipped scenario");
    up_as(&scenario.with_round_trip(Duration::from_millis(round_trip_ms)))
}

fn up_as(scenario: &Scenario) -> Option<Lab> {
    match Lab::bring_up(scenario, &helper()) {
        Ok(lab) => Some(lab),
        Err(
            error
            @ (Error::NeedsRoot | Error::NeedsCapabilities { .. } | Error::MissingTool { .. }),
        ) => {
            skip(&error.to_string());
            None
        }
        Err(error) => panic!("{}", error.chain()),
    }
}

fn skip(reason: &str) {
    assert!(
        std::env::var_os("LAGTRACE_REQUIRE_ALL").is_none(),
        "may not be skipped here: {reason}"
    );
    println!("skipped: needs {reason}");
}

/// Returns the names of everything that is left of a run.
fn remains(run: &Run) -> Vec<String> {
    let mut found = Vec::new();
    for namespace in [run.client_namespace(), run.server_namespace()] {
        found.extend(
            std::path::Path::new("/run/netns")
                .join(&namespace)
                .exists()
                .then_some(namespace),
        );
    }
    let folder = run.folder();
    for file in [folder.with_extension("json"), folder] {
        found.extend(file.exists().then(|| file.display().to_string()));
    }
    found.extend(living(run));
    found
}

/// Returns the processes of a run that have not ended: each one's role, id, state and the kernel
/// function that it waits in, so that a failed test shows what held it.
fn living(run: &Run) -> Vec<String> {
    let members = run
        .processes
        .iter()
        .map(|member| (&*member.role, member.process));
    members
        .chain([("keeper", run.keeper)])
        .filter(|(_, process)| process.is_alive())
        .map(|(role, process)| {
            let read = |file| std::fs::read_to_string(format!("/proc/{}/{file}", process.pid));
            let status = read("status").unwrap_or_default();
            let mut lines = status.lines();
            let state = lines.find_map(|line| line.strip_prefix("State:"));
            let state = state.map_or("just ended", str::trim);
            let waits_in = read("wchan").unwrap_or_default();
            format!("{role} ({}): {state}, in {waits_in}", process.pid)
        })
        .collect()
}

/// Waits until nothing of a run is left, because the keeper cleans up asynchronously. Returns what
/// is left after 10 s.
fn wait_until_gone(run: &Run) -> Vec<String> {
    wait_until_none(|| remains(run))
}

/// Waits until `left` returns nothing; returns what it returns after 10 s.
fn wait_until_none(left: impl Fn() -> Vec<String>) -> Vec<String> {
    for _ in 0..1000 {
        if left().is_empty() {
            return Vec::new();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    left()
}
