//! The process that has started a server: its files are open if it runs the same program with the
//! same mounts.

use std::fs;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use super::{about, end, has_root, listener, of_servers};
use crate::config::process;
use crate::privilege::message::{Reply, Request};
use crate::socket::process::name;

/// A shell that starts a process which holds a listening socket, and has no socket itself.
struct Starter {
    shell: Child,
    /// The process waits until this end of a pipe closes.
    _until: OwnedFd,
}

impl Starter {
    /// Starts the process by this command. The process waits for descriptor 2.
    fn of(command: &str, socket: TcpListener) -> Self {
        let (read, until) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("one");
        let shell = Command::new("sh")
            .arg("-c")
            // A process in the background has no standard input but what it is given.
            .arg(format!(
                "exec 3<&0 </dev/null; {command} <&3 & exec 3<&-; wait"
            ))
            .stdin(OwnedFd::from(socket))
            .stderr(read)
            .spawn()
            .expect("a shell");
        Self {
            shell,
            _until: until,
        }
    }

    /// Returns the process once it runs with these arguments, and it alone has the socket.
    fn server(&self, arguments: &[&str]) -> u32 {
        let is_running = |pid: &u32| {
            let found = process::arguments(*pid).unwrap_or_default();
            found
                .iter()
                .eq(arguments.iter().map(|word| word.as_bytes()))
        };
        let descriptor = format!("/proc/{}/fd/3", self.shell.id());
        for _ in 0..2000 {
            let has_socket = fs::symlink_metadata(&descriptor).is_ok();
            let children = process::children(self.shell.id());
            if let Some(pid) = children.into_iter().find(is_running)
                && !has_socket
            {
                return pid;
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("no process with {arguments:?}")
    }

    fn end(self) {
        end(self.shell);
    }
}

/// Returns true if the files of the process that has started a server by `command` are open. The
/// server has `arguments` in the end, and its own files are open.
fn is_open(command: &str, arguments: &[&str]) -> bool {
    let (socket, port, find) = listener();
    let starter = Starter::of(command, socket);
    let server = starter.server(arguments);
    let asked = of_servers(&[port]);
    let is_carried_out = |request: &Request| !matches!(asked.ask(request).0, Reply::Refused(_));
    let [of_starter, of_server] = [starter.shell.id(), server].map(about);
    assert!(!of_starter.iter().any(is_carried_out), "no server is known");
    let found = Reply::Processes(vec![(server, name(server))]);
    assert_eq!(asked.ask(&find).0, found);
    assert!(of_server.iter().all(is_carried_out));
    let open = of_starter.iter().filter(|request| is_carried_out(request));
    let open = open.count();
    assert!(open == 0 || open == of_starter.len(), "{open}");
    // Whoever has started this shell has started no server.
    assert!(!about(std::process::id()).iter().any(is_carried_out));
    starter.end();
    asked.end();
    open > 0
}

#[test]
fn the_same_program_with_the_same_mounts_is_open() {
    assert!(is_open(
        "sh -c 'read line <&2'",
        &["sh", "-c", "read line <&2"]
    ));
}

#[test]
fn another_program_stays_closed() {
    assert!(!is_open("cat /dev/fd/2", &["cat", "/dev/fd/2"]));
}

#[test]
fn the_same_program_with_other_mounts_stays_closed() {
    if has_root() {
        let command = "unshare -m sh -c 'read line <&2'";
        assert!(!is_open(command, &["sh", "-c", "read line <&2"]));
    }
}
