//! Runs that are stopped for a while and go on, as by Ctrl-Z, a debugger, or a host that sleeps.

use std::process::Child;
use std::thread;
use std::time::Duration;

use lagtrace_trial::seed;
use rustix::process::{Pid, Signal, kill_process};

use super::confined::spawn;
use super::program::Run;
use super::server::{Manner, Server};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
/// Number of times that a run is stopped.
const STOPS: u32 = 3;

/// Stops a process for a time that is longer than any request may take.
fn stop(process: &Child, number: u32) {
    let pid = Pid::from_child(process);
    kill_process(pid, Signal::STOP).unwrap();
    let drawn = (seed() >> (8 * number)) & 0xff;
    thread::sleep(Duration::from_millis(400 + drawn));
    kill_process(pid, Signal::CONT).unwrap();
}

/// The answers were there in time; they were only read late.
#[test]
fn answers_that_wait_for_a_stopped_load_are_no_timeouts_of_the_server() {
    let server = Server::start(Manner::AnswersAfter(Duration::from_millis(20), ANSWER));
    let url = server.url();
    let load = ["load", &url, "-c", "8", "-d", "4s", "--timeout", "300ms"];
    let process = spawn(&[&load[..], &["-q", "--format", "json"]].concat());
    for number in 0..STOPS {
        server.answers(20);
        stop(&process, number);
    }
    let report = Run::new(process.wait_with_output().unwrap()).json();
    let load = &report["load"];
    assert_eq!(load["failed"], 0, "{load:#}");
    assert!(load["responses"].as_u64() > Some(60), "{load:#}");
}

/// Probes wait in turn, each for its own answer.
#[test]
fn answers_that_wait_for_a_stopped_probe_are_not_lost() {
    let server = Server::start(Manner::AnswersAfter(Duration::from_millis(200), ANSWER));
    let url = server.url();
    let probe = ["probe", &url, "-m", "http", "-c", "6", "-i", "1ms"];
    let process = spawn(&[&probe[..], &["-W", "300ms", "-q", "--format", "json"]].concat());
    for number in 0..STOPS {
        server.answers(1);
        // The next request is on its way.
        thread::sleep(Duration::from_millis(50));
        stop(&process, number);
    }
    let report = Run::new(process.wait_with_output().unwrap()).json();
    let probes = &report["probes"][0];
    assert_eq!(probes["sent"], 6, "{probes:#}");
    assert_eq!(probes["received"], 6, "{probes:#}");
}
