//! Surroundings that programs rarely meet: a file system that is full, and namespaces of containers.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lagtrace_trial::free_port;
use serde_json::Value;

use super::files::corpus;
use super::program::{Run, has_root, has_tool, program, run};
use super::server::{Manner, Server};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
/// A load that leaves most of the processors' time free.
const LOAD: [&str; 8] = ["-c", "4", "-d", "2s", "--rate", "50", "-q", "--format"];

/// Runs the program in a folder of its own with room for this many kilobytes, in which `out` is an
/// old file. Afterwards, prints the exit code, the old file and the names in the folder.
fn in_little_room(kilobytes: u32, arguments: &[&str]) -> Run {
    const SCRIPT: &str = r#"
        mount -t tmpfs -o "size=$1k" tmpfs "$2" && cd "$2" && echo old >out || exit
        shift 2
        "$@"
        echo "code $?, $(head -c 100 out), $(ls -A | tr '\n' ' ')"
    "#;
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", SCRIPT, "sh"]);
    command.arg(kilobytes.to_string()).arg(folder.path());
    run(command.arg(program()).args(arguments))
}

#[test]
fn a_result_without_room_leaves_the_old_one() {
    const TEST: &str = "a_result_without_room_leaves_the_old_one";
    if !has_root(TEST) || !has_tool(TEST, "unshare") {
        return;
    }
    let capture = corpus::recording("nagle-delayed-ack-50ms", "client");
    let capture: &Path = capture.as_ref();
    let capture = capture.to_str().unwrap();
    let analyze = ["analyze", capture, "--format", "json", "-o", "out"];
    let run = in_little_room(16, &analyze);
    assert_eq!(run.stdout, "code 2, old, out \n", "{run:#?}");
    assert!(run.stderr.contains("No space left"), "{run:#?}");
    assert!(run.stderr.contains("out"), "{run:#?}");
    // The same with enough room: the test tells apart what it means to.
    let run = in_little_room(16 << 10, &analyze);
    assert!(run.stdout.starts_with("code 1, {"), "{run:#?}");
}

/// Returns the only service of a report that was watched in the kernel.
#[track_caller]
fn watched(report: &Value) -> &Value {
    let services = report["watch"]["services"].as_array();
    let [service] = services.map_or(&[][..], Vec::as_slice) else {
        panic!("{report:#}");
    };
    service
}

/// The kernel's own clock is another one than the process's then.
#[test]
fn in_a_time_namespace_the_kernels_times_fit_the_requests() {
    const TEST: &str = "in_a_time_namespace_the_kernels_times_fit_the_requests";
    if !has_root(TEST) || !has_tool(TEST, "unshare") {
        return;
    }
    let server = Server::start(Manner::AnswersAfter(Duration::from_millis(20), ANSWER));
    let mut command = Command::new("unshare");
    command.args([
        "--time",
        "--monotonic",
        "3600",
        "--boottime",
        "86400",
        "--fork",
    ]);
    command.arg(program()).args(["diagnose", &server.url()]);
    let report = run(command.args(LOAD).arg("json")).json();
    let joined = &watched(&report)["joined"]["exchanges"];
    assert!(joined["count"].as_u64() > Some(10), "{report:#}");
    assert_eq!(joined["count"], joined["of"]);
}

/// The kernel's own numbers of processes are other ones than those in the namespace then.
#[test]
fn in_a_pid_namespace_processes_have_its_numbers() {
    const TEST: &str = "in_a_pid_namespace_processes_have_its_numbers";
    const SCRIPT: &str = r#"
        python3 -m http.server "$1" --bind 127.0.0.1 >/dev/null 2>&1 &
        until wget -q -O /dev/null "http://127.0.0.1:$1/"; do sleep 0.1; done
        shift
        "$@"
    "#;
    let tools = ["unshare", "python3", "wget"];
    if !has_root(TEST) || tools.iter().any(|tool| !has_tool(TEST, tool)) {
        return;
    }
    let port = free_port().to_string();
    let mut command = Command::new("timeout");
    command.args([
        "60",
        "unshare",
        "--pid",
        "--fork",
        "--mount-proc",
        "sh",
        "-c",
        SCRIPT,
    ]);
    command.args(["sh", &port]).arg(program());
    command.args(["diagnose", &format!("http://127.0.0.1:{port}/")]);
    let report = run(command.args(LOAD).arg("json")).json();
    // The shell is the first process there.
    assert_eq!(watched(&report)["programs"][0], "python3[2]", "{report:#}");
}

#[test]
fn from_a_pid_namespace_processes_outside_have_the_hosts_numbers() {
    const TEST: &str = "from_a_pid_namespace_processes_outside_have_the_hosts_numbers";
    if !has_root(TEST) || !has_tool(TEST, "unshare") {
        return;
    }
    let server = Server::start(Manner::AnswersAfter(Duration::from_millis(20), ANSWER));
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc"]);
    command.arg(program()).args(["diagnose", &server.url()]);
    let report = run(command.args(LOAD).arg("json")).json();
    let program = watched(&report)["programs"][0].as_str().unwrap();
    let number = format!("[{}]", std::process::id());
    assert!(program.ends_with(&number) && program != number, "{program}");
}
