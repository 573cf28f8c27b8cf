//! Tests of `lagtrace sockets --trace` on calls that the tests make.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use rustix::net::sockopt;
use serde_json::{Value, json};

use super::confined::keeper_of;
use super::lab::until;
use super::privileges::{NOBODY, copy_for_all};
use super::program::{Run, has_root, has_tool, lagtrace, run};
use super::streamed::Streamed;

/// The number of BPF programs: one for the entry and one for the exit of each of five system calls.
const PROGRAMS: usize = 10;

/// Traces during `work`, and then interrupts the trace.
fn traced(arguments: &[&str], work: impl FnOnce()) -> Run {
    let trace = ["sockets", "--trace", "-d", "60s"];
    let tracing = Streamed::start(trace.iter().chain(arguments));
    until("the programs are attached", || {
        keeper_of(tracing.id()).is_some_and(|keeper| attached(keeper) >= PROGRAMS)
    });
    work();
    tracing.interrupt();
    tracing.end().expect(0)
}

/// Counts the BPF programs that a process has attached, by its file descriptors.
fn attached(process: u32) -> usize {
    let entries = fs::read_dir(format!("/proc/{process}/fd"))
        .unwrap()
        .flatten();
    let targets = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    let is_link = |target: &PathBuf| target.as_os_str() == "anon_inode:bpf_link";
    targets.filter(is_link).count()
}

/// Returns a connection whose server end was corked once for each of `answers` responses.
fn corking(listener: &TcpListener, answers: usize) -> TcpStream {
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    accepted.set_nodelay(true).unwrap();
    for _ in 0..answers {
        sockopt::set_tcp_cork(&accepted, true).unwrap();
        sockopt::set_tcp_cork(&accepted, false).unwrap();
    }
    client
}

#[test]
fn calls_are_told_as_they_happen() {
    const TEST: &str = "calls_are_told_as_they_happen";
    if !has_root(TEST) {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let port = address.port().to_string();
    let run = traced(&["-p", &port, "--format", "ndjson"], || {
        for _ in 0..2 {
            drop(corking(&listener, 5));
        }
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        drop(corking(&other, 1));
    });
    let lines: Vec<Value> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |kind: &str| {
        let is = |line: &&Value| line["type"] == kind;
        lines.iter().filter(is).collect::<Vec<_>>()
    };
    let calls = of("socket-call");
    let set: Vec<&&Value> = calls.iter().filter(|c| c["option"] == "TCP_CORK").collect();
    assert_eq!(set.len(), 20, "{run:#?}");
    assert_eq!(
        set[0]["syntax"]
            .as_str()
            .unwrap()
            .split_once(',')
            .unwrap()
            .1,
        " SOL_TCP, TCP_CORK, [1], 4) = 0"
    );
    assert_eq!(
        (&set[0]["before"], &set[0]["after"]),
        (&json!(0), &json!(1))
    );
    assert_eq!(set[0]["local"], address.to_string());
    assert_eq!(set[0]["pid"], std::process::id());
    assert!(
        calls
            .windows(2)
            .all(|two| two[0]["at"].as_str() <= two[1]["at"].as_str())
    );
    assert_eq!(lines.len(), calls.len(), "nothing else is printed");
}

#[test]
fn people_read_it_as_straces_lines() {
    const TEST: &str = "people_read_it_as_straces_lines";
    if !has_root(TEST) {
        return;
    }
    let listener = TcpListener::bind("[::1]:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = port.to_string();
    let run = traced(&["-p", &asked], || drop(corking(&listener, 3)));
    let line = run
        .stdout
        .lines()
        .find(|line| line.contains("TCP_NODELAY, [1], 4) = 0"))
        .unwrap();
    let own = format!("[{}", std::process::id());
    assert!(
        line.contains(&own) && line.contains(&format!("<TCPv6:[[::1]:{port}->[::1]:")),
        "{line}"
    );
    let nothing = traced(&["-p", "1"], || drop(corking(&listener, 1)));
    assert_eq!(nothing.stdout, "");
}

#[test]
fn what_makes_no_sense_together_is_refused() {
    for (arguments, word) in [
        (&["--trace", "-f"][..], "--follow"),
        (&["--trace", "-i", "1s"], "--interval"),
        (&["--trace", "-a"], "--all"),
        (&["-d", "1s"], "--trace"),
        (&["--trace", "/run/some.sock"], "--pid or --name"),
        (&["--trace", "--pid", "4294967295"], "no process"),
        (&["--trace", "--format", "json"], "--format ndjson"),
    ] {
        let run = lagtrace(["sockets"].iter().chain(arguments)).expect(2);
        assert!(run.stderr.contains(word), "{arguments:?}: {}", run.stderr);
    }
}

#[test]
fn without_rights_it_says_what_would_allow_it() {
    const TEST: &str = "without_rights_it_says_what_would_allow_it";
    if !has_root(TEST) || !has_tool(TEST, "setpriv") {
        return;
    }
    let folder = copy_for_all();
    let mut command = Command::new("setpriv");
    command.args(NOBODY).arg(folder.path().join("lagtrace"));
    command.args(["sockets", "--trace", "-d", "1s"]);
    let told = run(&mut command).expect(2).stderr;
    assert!(
        told.contains("not permitted") && told.contains("CAP_BPF"),
        "{told}"
    );
}
