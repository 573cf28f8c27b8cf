//! Tests that a failing test fails, and that it is void if its process stood still.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use lagtrace_trial::{Outcome, live};
use rustix::process::{Pid, Signal, kill_process};

/// The environment variable set for the copy of this program whose test fails.
const IS_VICTIM: &str = "LAGTRACE_TRIAL_TEST_IS_VICTIM";
/// The longest standstill that the victim tolerates.
const LIMIT: Duration = Duration::from_secs(2);

/// The victim, which runs in a copy of this program and fails when its standard input ends. By
/// itself it tests nothing.
#[test]
#[allow(clippy::print_stdout)]
fn victim() {
    if std::env::var_os(IS_VICTIM).is_none() {
        return;
    }
    live("victim").standstill(LIMIT).run(|| {
        println!("\nready");
        std::io::stdin()
            .read_line(&mut String::new())
            .expect("it ends");
        panic!("this is wrong");
    });
}

/// Runs the victim and calls `act` with its process. Returns true if the victim succeeded, its
/// standard error, and its log.
fn victim_after(act: impl FnOnce(&Child)) -> (bool, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let mut child = Command::new(std::env::current_exe().expect("this program's path"))
        .args(["--exact", "victim", "--nocapture"])
        .env(IS_VICTIM, "1")
        .env("LAGTRACE_VOID_LOG", &log)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let is_ready = lines.any(|line| line.expect("text") == "ready");
    assert!(is_ready, "it ended before it was ready");
    act(&child);
    let input = child.stdin.take().expect("it is piped");
    (&input).write_all(b"\n").expect("it reads");
    lines.for_each(drop);
    let output = child.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let log = fs::read_to_string(&log).expect("a log");
    let (times, logged): (Vec<_>, Vec<_>) = log.lines().partition(|line| line.starts_with("took "));
    let logged = logged.join("\n");
    assert!(
        matches!(times[..], [time] if time.ends_with(" victim")),
        "{log}"
    );
    (output.status.success(), told, logged)
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("a signal to a child of this test");
}

#[test]
fn a_test_that_fails_while_the_machine_runs_fails() {
    let (is_success, told, log) = victim_after(|_| thread::sleep(LIMIT / 8));
    assert!(!is_success, "{told}");
    assert!(told.contains("this is wrong"), "{told}");
    assert_eq!(log, "run victim");
}

#[test]
fn a_test_that_fails_after_a_standstill_is_void_and_says_so() {
    let (is_success, told, log) = victim_after(|child| {
        signal(child, Signal::STOP);
        thread::sleep(LIMIT * 5 / 4);
        signal(child, Signal::CONT);
    });
    assert!(is_success, "{told}");
    let void = "victim: the machine stood still for ";
    assert!(told.contains(&format!("void: {void}")), "{told}");
    let lines: Vec<_> = log.lines().collect();
    let [run, void, again] = lines[..] else {
        panic!("{log}");
    };
    assert_eq!(run, "run victim");
    assert!(void.starts_with("void victim the machine"), "{log}");
    assert!(void.ends_with("failed with: this is wrong"), "{log}");
    let program = std::env::current_exe().expect("this program's path");
    let folder = std::env::current_dir().expect("this folder");
    let told = format!("again\t{}\t{}\tvictim", folder.display(), program.display());
    assert_eq!(again, told);
}

#[test]
fn a_standstill_within_the_limit_excuses_nothing() {
    let (is_success, told, log) = victim_after(|child| {
        signal(child, Signal::STOP);
        thread::sleep(LIMIT / 20);
        signal(child, Signal::CONT);
    });
    assert!(!is_success, "{told}");
    assert_eq!(log, "run victim");
}

#[test]
fn a_test_that_passes_passes_whatever_the_machine_did() {
    let outcome = live("passes").standstill(Duration::ZERO).judge(|| ());
    assert!(matches!(outcome, Outcome::Passed), "{outcome:?}");
}

/// A process that computes until this value is dropped, on the first processor.
struct Computing(Child);

impl Computing {
    fn start(niceness: &str) -> Self {
        let mut command = Command::new("nice");
        command.args(["-n", niceness, "taskset", "-c", "0"]);
        command.args(["sh", "-c", "while :; do :; done"]);
        Self(command.spawn().expect("it starts"))
    }
}

impl Drop for Computing {
    fn drop(&mut self) {
        // It runs until it is killed, so neither can fail.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_test_that_fails_while_its_server_waits_for_a_processor_is_void() {
    const LONG: Duration = Duration::from_millis(8);
    const ATTEMPTS: usize = 3;
    let waits_at_once = |is_watched: bool| {
        let outcome = live("server").standstill(Duration::ZERO).judge(|| {
            // The kernel gives the second one a processor for a few of many milliseconds.
            let _first = Computing::start("0");
            let server = Computing::start("19");
            if is_watched {
                lagtrace_trial::watch_server(server.0.id());
            }
            thread::sleep(Duration::from_secs(2));
            panic!("it was slow");
        });
        let Outcome::Void(reason) = outcome else {
            panic!("{outcome:?}");
        };
        let (_, waited) = reason.split_once("its server waited ").expect("a figure");
        let (waited, _) = waited.split_once(" ms").expect("a figure");
        Duration::from_millis(waited.parse().expect("a number"))
    };
    // Beside other tests, this thread itself may wait as long, which shows nothing of the server.
    let mut apart = (0..ATTEMPTS).map(|_| (waits_at_once(false), waits_at_once(true)));
    // If it does each time, the machine is too busy to tell.
    let told = apart.find(|(unwatched, watched)| *unwatched < LONG.max(*watched));
    assert!(told.is_none_or(|(_, watched)| watched >= LONG), "{told:?}");
}
