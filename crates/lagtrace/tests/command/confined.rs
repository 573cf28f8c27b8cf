//! The two processes of a run: the one that reads packets and answers has no privileges, neither
//! outlives the other, and nothing remains of a run that is killed.

use std::fs;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use lagtrace_trial::live;
use rustix::process::{
    Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open,
};

use super::files::corpus;
use super::lab::until;
use super::program::{has_root, has_tool, lagtrace, program};
use super::server::{OK, Server};
use super::streamed::Streamed;

/// Number of moments at which a diagnosis is killed by each signal, without `LAGTRACE_KILLS`.
const KILLS: u32 = 2;

/// Returns a field of `/proc/PID/status`; empty if the process has ended.
fn status(pid: u32, field: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.unwrap_or_default().trim().to_owned()
}

/// Returns the keeper of a run.
pub(super) fn keeper_of(worker: u32) -> Option<u32> {
    let children = fs::read_to_string(format!("/proc/{worker}/task/{worker}/children")).ok()?;
    let mut children = children
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok());
    children.find(|&pid| status(pid, "Name:") == "lagtrace-keeper")
}

/// Returns true once a process has ended, even if nobody has waited for it.
fn has_ended(pid: u32) -> bool {
    let state = status(pid, "State:");
    state.is_empty() || state.starts_with('Z')
}

/// Returns true if a process has a thread with this name.
pub(super) fn has_thread(pid: u32, name: &str) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let mut threads = threads.into_iter().flatten().flatten();
    threads.any(|thread| {
        let own = fs::read_to_string(thread.path().join("comm"));
        own.is_ok_and(|own| own.trim_end() == name)
    })
}

fn kill(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Asserts that a process has no privileges.
#[track_caller]
pub(super) fn assert_confined(pid: u32) {
    assert_eq!(status(pid, "CapEff:"), "0000000000000000");
    assert_eq!(status(pid, "CapPrm:"), "0000000000000000");
    assert_eq!(status(pid, "NoNewPrivs:"), "1");
    assert_eq!(status(pid, "Seccomp:"), "2");
    let users = status(pid, "Uid:");
    assert!(users.split_whitespace().all(|user| user != "0"), "{users}");
    assert_eq!(status(pid, "Groups:"), "");
}

pub(super) fn spawn(arguments: &[&str]) -> Child {
    let mut command = Command::new(program());
    command.args(arguments).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Makes a named pipe.
fn pipe_in(folder: &Path) -> PathBuf {
    let pipe = folder.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    pipe
}

#[test]
fn what_decodes_a_capture_has_no_privileges() {
    const TEST: &str = "what_decodes_a_capture_has_no_privileges";
    if !has_root(TEST) || !has_tool(TEST, "mkfifo") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let fifo = pipe_in(folder.path());
    let capture = fs::read(corpus::recording("nagle-delayed-ack-50ms", "client")).unwrap();
    let child = spawn(&["analyze", fifo.to_str().unwrap(), "--format", "json"]);
    let mut pipe = fs::OpenOptions::new().write(true).open(&fifo).unwrap();
    let (first, rest) = capture.split_at(capture.len() / 2);
    pipe.write_all(first).unwrap();
    // The shards of the analysis are threads, which begin with the first packets.
    until("it decodes", || status(child.id(), "Threads:") != "1");
    assert_confined(child.id());
    for thread in fs::read_dir(format!("/proc/{}/task", child.id())).unwrap() {
        let thread = thread.unwrap().file_name().into_string().unwrap();
        assert_confined(thread.parse().unwrap());
    }
    let keeper = keeper_of(child.id()).unwrap();
    assert_eq!(status(keeper, "NoNewPrivs:"), "1");
    pipe.write_all(rest).unwrap();
    drop(pipe);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(has_ended(keeper));
}

#[test]
fn the_worker_breaks_out_only_if_it_is_not_confined() {
    const TEST: &str = "the_worker_breaks_out_only_if_it_is_not_confined";
    if !has_root(TEST) {
        return;
    }
    let confined = lagtrace(["self-test", "--sandbox", "strict"]).expect(0);
    assert!(!confined.stdout.contains("POSSIBLE"), "{confined:#?}");
    let free = lagtrace(["self-test", "--sandbox", "off"]).expect(1);
    let possible = free.stdout.matches("POSSIBLE").count();
    // Nobody can be asked for anything then, and the system may forbid one or the other to root.
    assert!(possible >= 16, "{free:#?}");
}

/// Returns copies of the sockets of a process, as a program gets them that it has passed them to. A
/// connection with such an end does not end with the process.
fn copies_of_sockets(pid: u32) -> Vec<OwnedFd> {
    let number = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let process = pidfd_open(number, PidfdFlags::empty()).unwrap();
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let sockets = open.filter(|entry| {
        fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"))
    });
    let copy = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok()
    };
    sockets.filter_map(copy).collect()
}

#[test]
fn neither_process_outlives_the_other() {
    const TEST: &str = "neither_process_outlives_the_other";
    if !has_root(TEST) {
        return;
    }
    for is_keeper_killed in [true, false] {
        let child = spawn(&["capture", "-i", "lo", "--brief"]);
        let mut keeper = None;
        until("the keeper exists", || {
            keeper = keeper_of(child.id());
            keeper.is_some()
        });
        let keeper = keeper.unwrap();
        // Before it captures, the worker fails in another way without its keeper.
        until("the worker captures", || has_thread(child.id(), "capture"));
        let held = copies_of_sockets(child.id());
        assert!(!held.is_empty());
        kill(
            if is_keeper_killed { keeper } else { child.id() },
            Signal::KILL,
        );
        until("the keeper ends", || has_ended(keeper));
        until("the worker ends", || has_ended(child.id()));
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.contains("has ended"), is_keeper_killed, "{said}");
    }
}

#[test]
fn a_keeper_that_opens_a_silent_pipe_ends_with_its_worker() {
    const TEST: &str = "a_keeper_that_opens_a_silent_pipe_ends_with_its_worker";
    if !has_root(TEST) || !has_tool(TEST, "mkfifo") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let fifo = pipe_in(folder.path());
    let child = spawn(&["analyze", fifo.to_str().unwrap()]);
    let blocks = |pid| {
        let place = fs::read_to_string(format!("/proc/{pid}/wchan"));
        place.is_ok_and(|place| place == "wait_for_partner")
    };
    let mut keeper = None;
    until("the keeper waits for a writer", || {
        keeper = keeper_of(child.id()).filter(|&keeper| blocks(keeper));
        keeper.is_some()
    });
    kill(child.id(), Signal::KILL);
    child.wait_with_output().unwrap();
    until("the keeper ends", || has_ended(keeper.unwrap()));
}

/// Occupies the only notifications of system calls that a process can have, then runs the program
/// that its arguments name. A child keeps them until that program ends, which closes files that were
/// left to it. A kernel before 5.9 has none at all.
const OCCUPY: &str = r#"
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
class Step(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]
class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.POINTER(Step))]
allow = (Step * 1)(Step(6, 0, 0, 0x7FFF0000))
program = Program(1, allow)
number = {"x86_64": 317}.get(os.uname().machine, 277)
listener = libc.syscall(number, 1, 8, ctypes.byref(program))
parent = os.getpid()
if os.fork() == 0:
    for number in range(3):
        os.close(number)
    while os.getppid() == parent:
        time.sleep(0.05)
    os._exit(0)
os.execv(sys.argv[1], sys.argv[1:])
"#;

#[test]
fn a_restriction_that_cannot_be_set_is_named_and_the_others_hold() {
    const TEST: &str = "a_restriction_that_cannot_be_set_is_named_and_the_others_hold";
    if !has_root(TEST) || !has_tool(TEST, "python3") {
        return;
    }
    let occupied = |arguments: &[&str]| {
        let mut command = Command::new("python3");
        command.args(["-c", OCCUPY]).arg(program()).args(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let child = occupied(&["capture", "-i", "lo", "-d", "2s", "--format", "json"]);
    until("it captures", || has_thread(child.id(), "capture"));
    // CAP_NET_RAW has the number 13.
    assert_eq!(status(child.id(), "CapEff:"), "0000000000002000");
    assert_eq!(status(child.id(), "Seccomp:"), "2");
    assert!(!status(child.id(), "Uid:").starts_with('0'));
    let output = child.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let notes = report["notes"].as_array().unwrap();
    let remark = notes.iter().find(|note| note["id"] == "sandbox-incomplete");
    let text = remark.map(|note| note["text"].as_str().unwrap());
    assert!(
        text.is_some_and(|text| text.contains("CAP_NET_RAW")),
        "{notes:#?}"
    );
    let strict = occupied(&["probe", "127.0.0.1", "-c", "1", "--sandbox", "strict"]);
    assert_eq!(strict.wait_with_output().unwrap().status.code(), Some(2));
}

#[test]
fn ordinary_runs_make_no_call_that_is_refused() {
    const TEST: &str = "ordinary_runs_make_no_call_that_is_refused";
    if !has_root(TEST) || !has_tool(TEST, "strace") {
        return;
    }
    live(TEST).busy().run(trace_ordinary_runs);
}

fn trace_ordinary_runs() {
    let server = Server::start(OK);
    let (url, port) = (server.url(), server.port().to_string());
    let target = format!("127.0.0.1:{port}");
    let capture = corpus::recording("nagle-delayed-ack-50ms", "client");
    let folder = tempfile::tempdir().unwrap();
    let (page, calls) = (folder.path().join("page"), folder.path().join("calls"));
    let runs: [&[&str]; 8] = [
        &[
            "analyze",
            capture.to_str().unwrap(),
            "--html",
            page.to_str().unwrap(),
        ],
        &["capture", "-i", "lo", "-d", "1s"],
        &["probe", &target, "-c", "2"],
        &["probe", "127.0.0.1", "-c", "2"],
        &["route", &target],
        &["load", &url, "-c", "2", "-d", "1s"],
        &["sockets", "-p", &port, "-f", "-i", "100ms", "-d", "1s"],
        &["watch", "-p", &port, "-d", "2s", "--serve"],
    ];
    for arguments in runs {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", calls.to_str().unwrap()]);
        command.args(["-e", "trace=!write,read,futex", "-e", "status=failed"]);
        command.arg(program()).args(arguments).stdin(Stdio::null());
        let code = command.output().unwrap().status.code();
        assert!(matches!(code, Some(0 | 1)), "{arguments:?}: {code:?}");
        let calls = fs::read_to_string(&calls).unwrap();
        // The keeper's programs may be refused by the kernel, which is not the confinement.
        let is_refused = |line: &&str| line.contains(" EPERM ") && !line.contains("bpf(");
        let refused: Vec<&str> = calls.lines().filter(is_refused).collect();
        assert!(refused.is_empty(), "{arguments:?}: {refused:#?}");
    }
}

/// Returns the names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// The number of moments at which a run is killed.
fn kills() -> u32 {
    let asked = std::env::var("LAGTRACE_KILLS");
    asked.map_or(KILLS, |kills| kills.parse().unwrap())
}

#[test]
fn nothing_remains_of_a_diagnosis_that_is_killed() {
    const TEST: &str = "nothing_remains_of_a_diagnosis_that_is_killed";
    if !has_root(TEST) {
        return;
    }
    live(TEST).busy().run(kill_diagnoses);
}

fn kill_diagnoses() {
    let server = Server::start(OK);
    let url = server.url();
    let span = Duration::from_secs(6);
    for moment in 0..kills() {
        for signal in [Signal::INT, Signal::KILL] {
            let folder = tempfile::tempdir().unwrap();
            let report = folder.path().join("report.json");
            fs::write(&report, "the report of an earlier run").unwrap();
            let named = report.to_str().unwrap();
            let load = ["-c", "2", "-d", "2s", "--rate", "100", "--what-if"];
            let asked = ["diagnose", &url, "-o", named, "--format", "json"];
            let run = Streamed::start(asked.iter().chain(&load));
            // The moments differ from run to run.
            let share = (f64::from(moment) + f64::from(rand_share())) / f64::from(kills());
            thread::sleep(span.mul_f64(share));
            let keeper = keeper_of(run.id());
            if !has_ended(run.id()) {
                kill(run.id(), signal);
            }
            let ended = run.end();
            if let Some(keeper) = keeper {
                until("the keeper ends", || has_ended(keeper));
            }
            assert_eq!(names(folder.path()), ["report.json"], "{signal:?} {share}");
            let is_old = fs::read_to_string(&report)
                .unwrap()
                .starts_with("the report");
            // A report is written whole or not at all.
            let is_whole =
                || serde_json::from_slice::<serde_json::Value>(&fs::read(&report).unwrap());
            assert!(is_old || is_whole().is_ok(), "{signal:?} {share} {ended:?}");
        }
    }
}

/// Returns a number from 0 to 1 that differs from run to run.
fn rand_share() -> f32 {
    use std::hash::{BuildHasher as _, RandomState};
    let number = RandomState::new().hash_one(0u8);
    (number % 1000) as f32 / 1000.0
}
