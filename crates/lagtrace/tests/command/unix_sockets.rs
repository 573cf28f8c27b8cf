//! A load at a Unix socket that only root may use, and a kernel with an older Landlock.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;
use std::thread;

use super::confined::{assert_confined, spawn};
use super::lab::until;
use super::program::{Run, has_root, has_tool, program, run};

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// Answers each piece of a connection as if it were a request.
fn answer(mut stream: UnixStream) {
    let mut request = [0; 4096];
    while stream.read(&mut request).is_ok_and(|read| read > 0) {
        if stream.write_all(HELLO).is_err() {
            return;
        }
    }
}

#[test]
fn the_worker_of_a_load_at_a_unix_socket_is_confined() {
    const TEST: &str = "the_worker_of_a_load_at_a_unix_socket_is_confined";
    if !has_root(TEST) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("server");
    let listener = UnixListener::bind(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || answer(stream.unwrap()));
        }
    });
    let named = path.to_str().unwrap();
    let common = ["load", "http://localhost/", "--unix-socket", named];
    let fresh = ["--fresh", "-c", "2", "-d", "2s", "--format", "json"];
    let child = spawn(&[&common[..], &fresh[..]].concat());
    until("it loads", || {
        let threads = fs::read_dir(format!("/proc/{}/task", child.id()));
        threads.is_ok_and(|threads| threads.count() > 2)
    });
    assert_confined(child.id());
    let output = child.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let load = &report["load"];
    assert_eq!(load["failed"], 0, "{load:#}");
    assert!(load["responses"].as_u64() > Some(50), "{load:#}");
    assert!(load["connects"].as_u64() >= load["responses"].as_u64());
}

/// Runs a program for which Landlock has the version that the first argument names: another process
/// answers the question for it (`seccomp_unotify(2)`), and passes everything else on.
const OLDER: &str = r#"
import array, ctypes, fcntl, os, socket, struct, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
class Step(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]
class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.POINTER(Step))]
CREATE_RULESET, ALLOW, NOTIFY = 444, 0x7FFF0000, 0x7FC00000
steps = [(0x20, 0, 0, 0), (0x15, 0, 3, CREATE_RULESET), (0x20, 0, 0, 32), (0x15, 0, 1, 1), (6, 0, 0, NOTIFY), (6, 0, 0, ALLOW)]
ours, theirs = socket.socketpair()
child = os.fork()
if child == 0:
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    program = Program(len(steps), (Step * len(steps))(*steps))
    number = {"x86_64": 317}.get(os.uname().machine, 277)
    listener = libc.syscall(number, 1, 8, ctypes.byref(program))
    socket.send_fds(theirs, [b"x"], [listener])
    os.close(listener)
    os.execv(sys.argv[2], sys.argv[2:])
_, (listener,), _, _ = socket.recv_fds(ours, 1, 1)
def answer():
    while True:
        call = bytearray(80)
        try:
            fcntl.ioctl(listener, 0xC0502100, call)
            fcntl.ioctl(listener, 0xC0182101, struct.pack("QqiI", struct.unpack_from("Q", call)[0], int(sys.argv[1]), 0, 0))
        except OSError:
            return
threading.Thread(target=answer, daemon=True).start()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;

fn with_landlock(version: &str, arguments: &[&str]) -> Run {
    let mut command = Command::new("python3");
    command.args(["-c", OLDER, version]).arg(program());
    run(command.args(arguments))
}

#[test]
fn what_an_older_landlock_lacks_is_told_and_strict_refuses_it() {
    const TEST: &str = "what_an_older_landlock_lacks_is_told_and_strict_refuses_it";
    if !has_root(TEST) || !has_tool(TEST, "python3") {
        return;
    }
    let signals = "Landlock for signals and abstract Unix sockets (not in this kernel)";
    for (version, lacking) in [
        ("5", signals.to_owned()),
        (
            "2",
            format!(
                "Landlock for truncation (not in this kernel), Landlock for TCP ports (not in this \
                 kernel), {signals}"
            ),
        ),
    ] {
        let strict = with_landlock(version, &["self-test", "--sandbox", "strict"]).expect(2);
        let told = format!("not confined by {lacking}");
        assert!(strict.stderr.contains(&told), "{strict:#?}");
        // seccomp alone refuses signals and Unix sockets.
        let auto = with_landlock(version, &["self-test"]);
        assert!(auto.stdout.contains(&lacking), "{auto:#?}");
        let possible = usize::from(version == "2");
        assert_eq!(
            auto.stdout.matches("POSSIBLE").count(),
            possible,
            "{auto:#?}"
        );
    }
    let whole = with_landlock("6", &["self-test", "--sandbox", "strict"]).expect(0);
    assert!(!whole.stdout.contains("POSSIBLE"), "{whole:#?}");
}
