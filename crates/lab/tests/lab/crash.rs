//! Tests that nothing of a lab remains, however its owner or keeper ends.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use lagtrace_lab::{Run, runs};
use rustix::process::{Pid, Signal, kill_process};

use crate::{living, up, wait_until_gone, wait_until_none};

/// The environment variable that is set for the copy of this program that owns a lab and will be
/// killed.
const IS_OWNER: &str = "LAGTRACE_LAB_TEST_IS_OWNER";

/// The body of that copy: it holds a lab until it is killed. By itself it tests nothing.
#[test]
fn owner_to_be_ended() {
    if std::env::var_os(IS_OWNER).is_none() {
        return;
    }
    let Some(lab) = up("nagle-delayed-ack", 8) else {
        return;
    };
    println!("\nrun {}", lab.run().id);
    std::thread::sleep(std::time::Duration::from_secs(60));
}

/// Starts an owner and waits for its lab; `None` if this machine cannot run a lab.
fn start_owner() -> Option<(Child, Run)> {
    let this = std::env::current_exe().expect("this program's path");
    // A shell's background jobs ignore SIGINT, and so would the owner.
    let mut command = Command::new("env");
    command.arg("--default-signal=INT").arg(this);
    command.args(["--exact", "crash::owner_to_be_ended", "--nocapture"]);
    let mut owner = command
        .env(IS_OWNER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let output = BufReader::new(owner.stdout.take().expect("its stdout was piped"));
    let id = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| Some(line.strip_prefix("run ")?.to_owned()));
    let Some(id) = id else {
        let _ = owner.wait();
        crate::skip("what the owner missed");
        return None;
    };
    let run = runs()
        .expect("reads")
        .into_iter()
        .find(|run| run.id == id)
        .expect("is on record");
    Some((owner, run))
}

fn send(pid: i32, signal: Signal) {
    let pid = Pid::from_raw(pid).expect("a pid");
    kill_process(pid, signal).expect("a signal to a process of this test");
}

#[test]
fn an_owner_that_is_ended_leaves_nothing() {
    for signal in [Signal::KILL, Signal::INT, Signal::TERM] {
        let Some((mut owner, run)) = start_owner() else {
            return;
        };
        send(i32::try_from(owner.id()).expect("a pid"), signal);
        let _ = owner.wait();
        assert_eq!(wait_until_gone(&run), Vec::<String>::new(), "{signal:?}");
    }
}

#[test]
fn what_a_killed_keeper_left_the_next_run_removes() {
    let Some(lab) = up("nagle-delayed-ack", 8) else {
        return;
    };
    let run = lab.run().clone();
    send(run.keeper.pid, Signal::KILL);
    // The lab's processes end with the keeper. Namespaces and files remain.
    assert_eq!(wait_until_none(|| living(&run)), Vec::<String>::new());
    let Some(next) = up("never-answers", 0) else {
        return;
    };
    // The run of another test may be the one that cleans up, so this waits.
    assert_eq!(wait_until_gone(&run), Vec::<String>::new());
    next.take_down().expect("comes down");
}
