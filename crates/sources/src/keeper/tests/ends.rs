//! Keepers whose worker is killed, or that fail, in every state of theirs. Each is a process with a
//! worker of its own: this program, started again.

use std::env;
use std::io::{BufRead as _, BufReader, IoSlice, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, id};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt};
use rustix::process::{Pid, Signal, getuid, kill_process};

use super::super::process::{GRACE, separate};
use super::super::scope::{Desktop, Processes, Scope};
use super::names;
use crate::privilege::channel::Channel;
use crate::privilege::message::{FarEnd, OwnFlow, Purpose, Reply, Request};
use crate::privilege::{NetworkNamespace, ProcessHandle};

/// The variables that make [`as_a_worker`] a worker: what it does, its folder, and the test's port
/// and process.
const DOES: &str = "LAGTRACE_TEST_WORKER";
const FOLDER: &str = "LAGTRACE_TEST_FOLDER";
const PORT: &str = "LAGTRACE_TEST_PORT";
const TEST: &str = "LAGTRACE_TEST_PROCESS";
/// Time for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_keeper_ends_with_its_worker() {
    ends("nothing");
}

#[test]
fn a_keeper_waits_for_no_pipe_of_its_worker() {
    ends("sends a pipe");
}

#[test]
fn a_keeper_holds_no_end_of_its_worker() {
    ends("sends its own end");
}

#[test]
fn a_keeper_whose_request_is_stuck_ends_with_its_worker() {
    ends("makes a request stick");
}

#[test]
fn a_keeper_that_panics_undoes_what_it_has_made() {
    ends("makes the keeper panic");
}

/// Kills a worker that does this, and asserts that nothing remains although the channel stays open.
#[track_caller]
fn ends(does: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("old"), "the old report").expect("written");
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let mut worker = Command::new(env::current_exe().expect("a path"))
        .args(["--exact", "keeper::tests::ends::as_a_worker", "--nocapture"])
        .env(DOES, does)
        .env(FOLDER, folder.path())
        .env(PORT, server.local_addr().expect("bound").port().to_string())
        .env(TEST, id().to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let (mut accepted, _) = server.accept().expect("it connects");
    // Before, nobody holds the server's socket.
    accepted.write_all(b"0").expect("connected");
    // The standard error output is shared with the keeper, which may panic in the midst of a line.
    let heard = accepted.try_clone().expect("a descriptor");
    let mut said = BufReader::new(heard).lines();
    let mut number = || -> u32 {
        let line = said.next().expect("it says a number").expect("text");
        line.parse().expect("a number")
    };
    let (keeper, channel) = (number(), number());
    let keeper = ProcessHandle::open(keeper).expect("it lives");
    let held = ProcessHandle::open(worker.id()).expect("it lives");
    let held = held.duplicate(channel).expect("ours");
    // As soon as everything is made, it waits.
    assert_eq!(number(), 0);
    let is_switched = || sockopt::tcp_nodelay(&accepted).expect("an option");
    // A keeper that finds the attack, or fails, ends before its worker.
    let ends_first = ["sends a pipe", "makes the keeper panic"].contains(&does);
    assert!(ends_first || names(folder.path()).contains(&"stream".to_owned()));
    assert!(ends_first || !getuid().is_root() || is_switched());
    if !ends_first {
        worker.kill().expect("ours");
    }
    let latest = Instant::now() + GRACE + PATIENCE;
    while !keeper.has_ended() && Instant::now() < latest {
        thread::sleep(Duration::from_millis(10));
    }
    let has_ended = keeper.has_ended();
    if !has_ended {
        let pid = i32::try_from(keeper.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process"), Signal::KILL).expect("ours");
    }
    worker.kill().expect("ours");
    worker.wait().expect("ended");
    assert!(has_ended, "the keeper of a worker that {does}");
    assert_eq!(names(folder.path()), ["old"]);
    assert!(!is_switched());
    drop(held);
}

/// Is the worker of [`ends`].
#[test]
fn as_a_worker() {
    let Ok(does) = env::var(DOES) else { return };
    let folder = PathBuf::from(env::var_os(FOLDER).expect("set"));
    let number = |name| env::var(name).expect("set").parse::<u32>().expect("number");
    let port = u16::try_from(number(PORT)).expect("a port");
    let (channel, keeper) = separate(&scope(&folder, port)).expect("a keeper");
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("it listens");
    stream.read_exact(&mut [0]).expect("accepted");
    let mut said = stream.try_clone().expect("a descriptor");
    let mut say = |number: i32| writeln!(said, "{number}").expect("it is read");
    say(keeper.as_raw_pid());
    say(channel.as_fd().as_raw_fd());
    let ask = |request: &Request| -> Reply {
        channel.send_request(request, &[]).expect("it lives");
        let answer = channel.receive().expect("well-formed");
        answer.expect("an answer").0
    };
    for (name, purpose) in [
        ("stream", Purpose::Stream),
        ("new", Purpose::Result),
        ("old", Purpose::Result),
    ] {
        let reply = ask(&Request::Output(folder.join(name), purpose));
        assert!(matches!(reply, Reply::Output(..)), "{reply:?}");
    }
    let switched = ask(&Request::SwitchOn(Box::new(far_end(&stream, number(TEST)))));
    let is_refused = matches!(switched, Reply::Refused(_));
    assert_eq!(is_refused, !getuid().is_root(), "{switched:?}");
    attack(&does, &channel);
    say(0);
    thread::sleep(GRACE + 2 * PATIENCE);
}

fn attack(does: &str, channel: &Channel) {
    match does {
        "sends a pipe" => {
            // The keeper would hold the writer, and wait for its end.
            let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
            send(channel, &[1], &[writer.as_fd(), reader.as_fd()]);
        }
        "sends its own end" => {
            let own = channel.as_fd();
            channel
                .send_request(&Request::Answer, &[own])
                .expect("sent");
            let answer = channel.receive::<Reply>().expect("well-formed");
            let reply = answer.expect("an answer").0;
            assert!(matches!(reply, Reply::Refused(_)), "{reply:?}");
            // These wait in the keeper's own queue.
            for _ in 0..3 {
                channel
                    .send_request(&Request::Answer, &[own])
                    .expect("sent");
            }
        }
        "makes a request stick" | "makes the keeper panic" => {
            channel.send_request(&Request::Page, &[]).expect("sent");
        }
        _ => {}
    }
}

/// Sends a datagram that no worker sends.
fn send(channel: &Channel, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(descriptors)));
    let parts = [IoSlice::new(bytes)];
    sendmsg(channel, &parts, &mut ancillary, SendFlags::NOSIGNAL).expect("sent");
}

fn far_end(stream: &TcpStream, server: u32) -> FarEnd {
    let flow = OwnFlow::of(stream).expect("connected");
    FarEnd {
        namespace: NetworkNamespace::own().expect("our own").id(),
        endpoint: flow.remote,
        flow,
        pids: vec![server],
    }
}

fn scope(folder: &Path, port: u16) -> Scope {
    let stick = || -> std::io::Result<_> {
        loop {
            thread::sleep(Duration::from_secs(1));
        }
    };
    let fail = || panic!("on purpose");
    let panics = env::var(DOES).is_ok_and(|does| does == "makes the keeper panic");
    Scope {
        packets: true,
        processes: Processes::Servers(vec![port]),
        what_if: true,
        outputs: ["stream", "new", "old"].map(|it| folder.join(it)).to_vec(),
        desktop: Some(Desktop {
            page: if panics { fail } else { stick },
            open: |_| Ok(()),
        }),
        ..Scope::default()
    }
}
