//! Tests of the attempts of `self-test` that concern another program of the host.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use lagtrace_trial::seed;

use super::privileges::{USER, copy_for_all};
use super::program::{Run, has_root, has_tool, program, run};

/// The attempts on a server's files, as the output names them.
const ON_FILES: [&str; 2] = [
    "get a server's file of a private folder",
    "get another program's configuration",
];
/// The attempts to take what the run holds.
const ON_THE_RUN: [&str; 2] = [
    "take this process's files (pidfd_getfd)",
    "take the keeper's files (pidfd_getfd)",
];
const ON_A_PAGE: &str = "get a served page as another user";

/// Asserts that these attempts ended in this way.
#[track_caller]
fn assert_ended(run: &Run, attempts: &[&str], how: &str) {
    for name in attempts {
        let ended = run
            .stdout
            .lines()
            .find_map(|line| line.trim().strip_prefix(name));
        let ended = ended.unwrap_or_default().trim();
        assert!(ended.starts_with(how), "{name}: {run:#?}");
    }
}

/// Runs the attempts with a folder for temporary files, of which nothing may remain.
fn tried(command: &mut Command, folder: &Path) -> Run {
    let run = run(command.arg("self-test").env("TMPDIR", folder));
    let names: Vec<_> = fs::read_dir(folder).unwrap().flatten().collect();
    assert!(names.is_empty(), "{names:?}");
    run
}

#[test]
fn another_programs_files_and_a_users_page_are_kept_from_a_run_of_root() {
    const TEST: &str = "another_programs_files_and_a_users_page_are_kept_from_a_run_of_root";
    if !has_root(TEST) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let user = (1000 + seed() % 60_000).to_string();
    let mut by_sudo = Command::new(program());
    by_sudo.env("SUDO_UID", &user).env("SUDO_GID", &user);
    let run = tried(&mut by_sudo, folder.path()).expect(0);
    assert_ended(
        &run,
        &[&ON_FILES[..], &ON_THE_RUN, &[ON_A_PAGE]].concat(),
        "refused",
    );
    // Such a page is for all users.
    let mut alone = Command::new(program());
    let run = tried(alone.env_remove("SUDO_UID"), folder.path()).expect(0);
    assert_ended(&run, &[ON_A_PAGE], "not tried");
    // Nothing is kept from a process with all rights.
    let mut free = Command::new(program());
    let run = tried(free.args(["--sandbox", "off"]), folder.path()).expect(1);
    assert_ended(&run, &ON_FILES, "POSSIBLE");
}

#[test]
fn what_a_program_has_by_its_capabilities_is_kept_from_others_of_the_user() {
    const TEST: &str = "what_a_program_has_by_its_capabilities_is_kept_from_others_of_the_user";
    let tools = ["setpriv", "setcap"];
    if !has_root(TEST) || tools.iter().any(|tool| !has_tool(TEST, tool)) {
        return;
    }
    let (folder, temporary) = (copy_for_all(), tempfile::tempdir().unwrap());
    chown(temporary.path(), Some(65_534), Some(65_534)).unwrap();
    let copy = folder.path().join("lagtrace");
    let by_user = || {
        let mut command = Command::new("setpriv");
        command.args(USER).arg(&copy);
        tried(&mut command, temporary.path())
    };
    let ordinary = by_user().expect(0);
    assert_ended(&ordinary, &ON_FILES, "refused");
    assert_ended(&ordinary, &ON_THE_RUN, "not tried");
    let given = Command::new("setcap")
        .arg("cap_net_raw+ep")
        .arg(&copy)
        .status();
    assert!(given.unwrap().success());
    let privileged = by_user().expect(0);
    assert_ended(&privileged, &[ON_FILES, ON_THE_RUN].concat(), "refused");
}
