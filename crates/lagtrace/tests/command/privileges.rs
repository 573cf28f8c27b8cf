//! Runs without any privilege. Steps that need none run, and each of the others leaves a note.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use super::confined::{has_thread, keeper_of};
use super::lab::until;
use super::program::{findings, has_root, has_tool, lagtrace, notes, program, run};
use super::server::{OK, Server};

#[test]
fn without_rights_the_diagnosis_goes_on() {
    const TEST: &str = "without_rights_the_diagnosis_goes_on";
    if !has_root(TEST) || !has_tool(TEST, "setpriv") {
        return;
    }
    let folder = copy_for_all();
    let copy = folder.path().join("lagtrace");
    let server = Server::start(OK);
    let mut command = Command::new("setpriv");
    command.args(NOBODY);
    command
        .arg(&copy)
        .args(["diagnose", &server.url(), "--format", "json"]);
    command.args(["-c", "2", "-d", "1s", "--rate", "100"]);
    let run = run(&mut command).expect(0);
    let report = run.json();
    assert_eq!(findings(&report), Vec::<&str>::new());
    assert!(report["exchanges"]["count"].as_u64().unwrap() > 0);
    let notes = notes(&report);
    for id in [
        "not-measured-capture",
        "not-measured-probe",
        "not-measured-watch",
    ] {
        assert!(notes.contains(&id), "{id}: {notes:?}");
    }
    assert!(run.stdout.contains("setcap"), "{run:#?}");
}

/// The rights of the command for containers in `README.md`. The process that reads packets is then
/// nobody, and the other one may not look into it.
#[test]
fn as_root_in_a_container_the_options_of_own_sockets_are_read() {
    const TEST: &str = "as_root_in_a_container_the_options_of_own_sockets_are_read";
    if !has_root(TEST) || !has_tool(TEST, "setpriv") {
        return;
    }
    let server = Server::start(OK);
    let mut command = Command::new("setpriv");
    command.args([
        "--inh-caps=-all",
        "--bounding-set=-all,+net_raw,+setuid,+setgid",
    ]);
    command.arg(program());
    command.args(["diagnose", &server.url(), "--format", "json"]);
    command.args(["-c", "2", "-d", "1s", "--rate", "100"]);
    let report = run(&mut command).expect(0).json();
    assert!(
        report["capture"]["packets"].as_u64() > Some(0),
        "{report:#}"
    );
    let notes = notes(&report);
    // The descriptors of other processes cannot be read.
    assert!(notes.contains(&"not-measured-server-process"), "{notes:?}");
    assert!(!notes.contains(&"not-measured-own-options"), "{notes:?}");
}

#[test]
fn without_rights_a_host_is_asked_otherwise() {
    const TEST: &str = "without_rights_a_host_is_asked_otherwise";
    if !has_root(TEST) || !has_tool(TEST, "setpriv") {
        return;
    }
    let folder = copy_for_all();
    let copy = folder.path().join("lagtrace");
    // In a new network namespace, no user may open ICMP echo sockets.
    let script = "ip link set lo up && exec setpriv \"$@\"";
    for (target, method) in [("127.0.0.1", "udp"), ("127.0.0.1:9", "tcp-connect")] {
        let mut command = Command::new("unshare");
        command
            .args(["--net", "sh", "-c", script, "sh"])
            .args(NOBODY);
        command
            .arg(&copy)
            .args(["probe", target, "--format", "json"]);
        command.args(["-c", "3", "-i", "20ms"]);
        let run = run(&mut command).expect(if method == "udp" { 0 } else { 1 });
        let report = run.json();
        assert_eq!(report["probes"][0]["method"], method, "{run:#?}");
        assert_eq!(report["probes"][0]["received"], 3, "{run:#?}");
        assert!(notes(&report).contains(&"probe-without-privilege"));
    }
}

#[test]
fn without_rights_no_other_way_is_taken_for_what_only_segments_of_ones_own_show() {
    const TEST: &str =
        "without_rights_no_other_way_is_taken_for_what_only_segments_of_ones_own_show";
    if !has_root(TEST) || !has_tool(TEST, "setpriv") {
        return;
    }
    let folder = copy_for_all();
    let copy = folder.path().join("lagtrace");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    for told in [
        &["--matrix"][..],
        &["--flags", "S"],
        &["--size", "100-200/50"],
    ] {
        let mut command = Command::new("setpriv");
        command.args(NOBODY).arg(&copy).args(["probe", &target]);
        let run = run(command.args(told)).expect(2);
        assert!(run.stderr.contains("CAP_NET_RAW"), "{run:#?}");
        assert!(!run.stderr.contains("--method connect"), "{run:#?}");
    }
}

/// Other users of the host see the page's URL among the arguments of the browser.
#[test]
fn a_served_page_is_for_the_user_who_started_it_and_for_root() {
    const TEST: &str = "a_served_page_is_for_the_user_who_started_it_and_for_root";
    let tools = ["setpriv", "curl"];
    if !has_root(TEST) || tools.iter().any(|tool| !has_tool(TEST, tool)) {
        return;
    }
    let folder = copy_for_all();
    let page = folder.path().join("report.json");
    let report = lagtrace(
        [
            "diagnose",
            &Server::start(OK).url(),
            "-c",
            "1",
            "-d",
            "1s",
            "-q",
        ]
        .into_iter()
        .chain(["--format", "json"]),
    );
    std::fs::write(&page, report.stdout).unwrap();
    open_file_to_all(&page);
    let mut served = Command::new("setpriv")
        .args(NOBODY)
        .arg(folder.path().join("lagtrace"))
        .args(["view", "--serve", "--no-open", "-q"])
        .arg(&page)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    let mut lines = BufReader::new(served.stdout.take().unwrap());
    lines.read_line(&mut url).unwrap();
    let asked = ["65534", "0", "5"].map(|user| {
        let asked = Command::new("setpriv")
            .args(["--reuid", user, "--clear-groups"])
            .args(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}"])
            .arg(url.trim_end())
            .output();
        String::from_utf8(asked.unwrap().stdout).unwrap()
    });
    served.kill().unwrap();
    served.wait().unwrap();
    assert_eq!(asked, ["200", "200", "403"]);
}

/// A group may use a program with capabilities (`lagtrace-setcap`). The worker drops them, and keeps
/// the sockets that it got by them.
#[test]
fn others_of_the_user_take_nothing_from_a_program_that_is_given_capabilities() {
    const TEST: &str = "others_of_the_user_take_nothing_from_a_program_that_is_given_capabilities";
    let tools = ["setpriv", "setcap"];
    if !has_root(TEST) || tools.iter().any(|tool| !has_tool(TEST, tool)) {
        return;
    }
    let folder = copy_for_all();
    let copy = folder.path().join("lagtrace");
    let given = Command::new("setcap")
        .arg("cap_net_raw+ep")
        .arg(&copy)
        .status();
    assert!(given.unwrap().success());
    let mut child = Command::new("setpriv")
        .args(USER)
        .arg(&copy)
        .args(["capture", "-i", "lo", "--brief"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("the worker captures", || has_thread(child.id(), "capture"));
    let keeper = keeper_of(child.id()).unwrap();
    let looks = |pid: u32| {
        let mut look = Command::new("setpriv");
        look.args(USER).arg("ls").arg(format!("/proc/{pid}/fd"));
        look.output().unwrap().status.success()
    };
    let seen = [child.id(), keeper].map(looks);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(seen, [false, false]);
}

/// The arguments of `setpriv` for a user.
pub(super) const USER: [&str; 5] = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];

/// The arguments of `setpriv` that remove all privileges.
pub(super) const NOBODY: [&str; 8] = [
    "--reuid",
    "65534",
    "--regid",
    "65534",
    "--clear-groups",
    "--inh-caps=-all",
    "--bounding-set=-all",
    "--no-new-privs",
];

/// Copies the program, because other users may not be able to read the build's folder.
pub(super) fn copy_for_all() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().tempdir_in("/tmp").unwrap();
    let copy = folder.path().join("lagtrace");
    // `cp` makes the copy: if this process wrote the file, a child process of a parallel test could
    // inherit the open descriptor. A file that is open for writing cannot be executed.
    let copied = Command::new("cp").arg(program()).arg(&copy).status();
    assert!(copied.unwrap().success());
    open_to_all(folder.path());
    folder
}

fn open_file_to_all(file: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).unwrap();
}

fn open_to_all(folder: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}
