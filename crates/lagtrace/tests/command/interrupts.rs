//! Ctrl-C in every phase: the measurements made so far are reported, and nothing is left behind.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::lab::until;
use super::program::{Run, notes, program};
use super::server::{OK, Server};
use super::streamed::Streamed;

/// Interrupts a diagnosis after it has reported a step and the server has then answered this number
/// of further requests.
fn interrupted_after(step: &str, requests: u64) -> Run {
    let server = Server::start(OK);
    let url = server.url();
    let load = ["-c", "2", "-d", "3s", "--rate", "100", "--format", "json"];
    let mut run = Streamed::start(["diagnose", &url].iter().chain(&load));
    run.until(|line| line.starts_with(step));
    server.answers(requests);
    run.interrupt();
    run.end()
}

#[test]
fn the_report_holds_what_was_measured() {
    // An interrupt during the unobserved part of the load, during the observed part, and after the
    // load.
    for (step, requests) in [("request ", 50), ("load ", 50), ("observation ", 0)] {
        let run = interrupted_after(step, requests);
        assert!(matches!(run.code, Some(0 | 1)), "{step}: {run:#?}");
        let report = run.json();
        let count = report["exchanges"]["count"].as_u64();
        assert!(count > Some(0), "{step}: {report:#}");
        // After the load, the program may end before the interrupt reaches it.
        let was_interrupted = notes(&report).contains(&"interrupted");
        assert!(was_interrupted || requests == 0, "{step}: {report:#}");
        let is_partial = report["overall"]["is_interrupted"] == true;
        assert_eq!(is_partial, requests > 0, "{step}: {report:#}");
    }
}

/// Returns a listener whose accept queue is full. It drops SYNs, so connection attempts wait.
fn silent_listener() -> (TcpListener, SocketAddr, Vec<std::io::Result<TcpStream>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let fill = |_| TcpStream::connect_timeout(&address, Duration::from_millis(100));
    let waiting = (0..4).map(fill).collect();
    (listener, address, waiting)
}

#[test]
fn before_anything_was_measured_it_ends_with_130() {
    let (_listener, address, _waiting) = silent_listener();
    let mut run = Streamed::start(["diagnose", &format!("http://{address}/"), "-d", "1s"]);
    // The step after the route connects to the target, which waits.
    run.until(|line| line.starts_with("route "));
    run.interrupt();
    let run = run.end();
    assert_eq!(run.code, Some(130), "{run:#?}");
    assert!(run.stdout.starts_with("Interrupted after "), "{run:#?}");
}

#[test]
fn a_silent_pipe_can_be_left() {
    let mut child = Command::new(program())
        .args(["analyze", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // `wait` closes the pipe, so the write end is kept until then.
    let writer = child.stdin.take();
    until("it listens for Ctrl-C", || catches_interrupts(child.id()));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let code = child.wait().unwrap().code();
    drop(writer);
    assert!(matches!(code, Some(130 | 2)), "{code:?}");
}

/// Returns true if a process has a handler for SIGINT (proc_pid_status(5)).
fn catches_interrupts(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
    // SIGINT has the number 2.
    caught & (1 << 1) != 0
}
