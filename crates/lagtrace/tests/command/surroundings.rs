//! Surroundings that programs rarely meet: a file system that is full, and namespaces of containers.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lagtrace_trial::{free_port, seed};
use serde_json::Value;

use super::draw::Draw;
use super::files::corpus;
use super::program::{Run, has_root, has_tool, may_run, program, run};
use super::server::{Manner, OK, Server};

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

/// Runs the program in a file system of its own, ext4 on a small file, with room for this many
/// kilobytes or without room for another file, in which `out` is an old file. Afterwards, prints the
/// exit code, the old file and the names in the folder.
fn in_a_full_disk(room: &str, arguments: &[&str]) -> Run {
    const SCRIPT: &str = r#"
        truncate -s 8M "$2/disk" && mkfs.ext4 -q -m 0 -O ^has_journal -N 64 "$2/disk" || exit
        mkdir "$2/full" && mount -o loop "$2/disk" "$2/full" && cd "$2/full" || exit
        echo old >out; rmdir lost+found; room=$1; shift 2
        if [ "$room" = files ]; then
            mkdir many; number=0
            while touch "many/$number" 2>/dev/null; do number=$((number + 1)); done
        else
            cat /dev/zero >many 2>/dev/null
            truncate -s "-${room}K" many
        fi
        "$@"
        echo "code $?, $(head -c 100 out), $(ls -A | tr '\n' ' ')"
    "#;
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", SCRIPT, "sh", room]);
    run(command.arg(folder.path()).arg(program()).args(arguments))
}

fn may_fill_a_disk(test: &str) -> bool {
    let tools = ["unshare", "mkfs.ext4"];
    has_root(test)
        && tools.iter().all(|tool| has_tool(test, tool))
        && may_run(
            test,
            "loop devices",
            Path::new("/dev/loop-control").exists(),
        )
}

/// New results and an old one, on a disk without room for more than their beginning, or for their
/// files.
#[test]
fn on_a_full_disk_no_result_is_half_written() {
    const TEST: &str = "on_a_full_disk_no_result_is_half_written";
    if !may_fill_a_disk(TEST) {
        return;
    }
    let mut draw = Draw::new(seed(), TEST);
    let capture = corpus::recording("nagle-delayed-ack-50ms", "client");
    let capture: &Path = capture.as_ref();
    let capture = capture.to_str().unwrap();
    let server = Server::start(OK);
    let url = server.url();
    let load = [
        "load", &url, "-c", "2", "-d", "1s", "-q", "--format", "json",
    ];
    let analyze = ["analyze", capture, "-q", "--format", "json"];
    for (base, option, file) in [
        (&analyze[..], "-o", "out"),
        (&analyze[..], "-o", "new"),
        (&analyze[..], "--html", "new"),
        (&load[..], "--html", "new"),
        (&load[..], "--hdr", "new"),
    ] {
        let kilobytes = (4 * draw.from(0, 3)).to_string();
        // The log of a short load is so small that it finds room.
        let rooms = ["files", &kilobytes];
        for room in rooms
            .into_iter()
            .take(if option == "--hdr" { 1 } else { 2 })
        {
            let run = in_a_full_disk(room, &[base, &[option, file]].concat());
            assert!(
                run.stdout.ends_with("code 2, old, many out \n"),
                "{room}: {run:#?}"
            );
            assert!(run.stderr.starts_with("error: "), "{room}: {run:#?}");
            let reason = format!("{file}: No space left on device");
            assert!(run.stderr.contains(&reason), "{room}: {run:#?}");
            assert!(
                run.stderr.contains("\nhint: make room there"),
                "{room}: {run:#?}"
            );
        }
    }
}

/// The report is printed although its observations cannot be kept.
#[test]
fn on_a_full_disk_a_diagnosis_says_that_its_observations_were_not_kept() {
    const TEST: &str = "on_a_full_disk_a_diagnosis_says_that_its_observations_were_not_kept";
    if !may_fill_a_disk(TEST) {
        return;
    }
    let server = Server::start(OK);
    let url = server.url();
    let diagnose = [
        "diagnose", &url, "-c", "2", "-d", "1s", "--rate", "100", "-q",
    ];
    let run = in_a_full_disk("0", &[&diagnose[..], &["--observations", "new"]].concat());
    assert!(run.stdout.ends_with("code 0, old, many out \n"), "{run:#?}");
    assert!(
        run.stdout.contains("observations were not kept"),
        "{run:#?}"
    );
    assert!(run.stdout.contains("No space left"), "{run:#?}");
}
