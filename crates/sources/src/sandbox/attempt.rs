//! Attempts to do what a confined process must not be able to do.

#![allow(unsafe_code)]

mod beside;

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr::null;
use std::time::Duration;

use super::bystander::Bystander;
use crate::privilege::client::keeper;
use crate::privilege::message::Request;

/// A program that does not exist.
const NO_PROGRAM: &CStr = c"/nonexistent/program";
/// A name in a folder to which everyone may write.
const NEW_FILE: &str = "/tmp/.lagtrace-self-test";
/// A port at which nothing listens (tcpmux).
const PORT: u16 = 1;

/// The lines of `/proc/self/status` that show the confinement (`proc_pid_status(5)`).
const STATUS: [&str; 5] = ["Uid:", "Gid:", "CapEff:", "NoNewPrivs:", "Seccomp:"];

/// Returns the kernel's lines about the privileges of this process.
pub fn status() -> Vec<String> {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_shown = |line: &&str| STATUS.iter().any(|name| line.starts_with(name));
    let lines = text.lines().filter(is_shown);
    lines.map(|line| line.replace('\t', " ")).collect()
}

/// An attempt, and how it ended.
#[derive(Debug)]
pub struct Attempt {
    /// Name of the operation.
    pub name: &'static str,
    /// The result.
    pub tried: Tried,
}

/// The result of an attempt.
#[derive(Debug)]
pub enum Tried {
    /// Nothing stood in the way.
    Possible,
    /// The operation was refused.
    Refused(io::Error),
    /// The attempt could not be made here, or would show nothing, for this reason.
    Not(String),
}

impl From<io::Result<()>> for Tried {
    fn from(result: io::Result<()>) -> Self {
        result.map_or_else(Self::Refused, |()| Self::Possible)
    }
}

/// An operation that is tried.
type Try = fn() -> io::Result<()>;

/// Tries everything once. What is possible is undone at once.
pub fn attempt_all(bystander: Result<&Bystander, &io::Error>) -> Vec<Attempt> {
    // A namespace that can be created takes this process's rights on others away.
    let beside = beside::attempts(bystander);
    attempt_alone().into_iter().chain(beside).collect()
}

/// Tries what concerns no other program.
fn attempt_alone() -> Vec<Attempt> {
    let attempts: [(&str, Try); 21] = [
        ("read the passwords (/etc/shadow)", || read("/etc/shadow")),
        ("read a file that was not named (/etc/passwd)", || {
            read("/etc/passwd")
        }),
        ("create a file (/tmp)", create),
        ("let everybody write to an open file", change_mode),
        ("connect elsewhere (TCP)", connect),
        ("connect elsewhere (TCP Fast Open)", connect_by_sending),
        ("connect elsewhere (Multipath TCP)", || {
            socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP)
        }),
        ("open a Unix socket", || {
            socket(libc::AF_UNIX, libc::SOCK_STREAM, 0)
        }),
        ("send to any Unix socket", pair),
        ("open a packet socket", || {
            socket(libc::AF_PACKET, libc::SOCK_RAW, 0)
        }),
        ("open a raw socket", || {
            socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_TCP)
        }),
        ("run a program", run),
        ("start a process", fork),
        ("load an eBPF program", || call(libc::SYS_bpf, [5, 0, 0])),
        ("read another process's memory", || {
            call(libc::SYS_process_vm_readv, [1, 0, 0])
        }),
        ("trace a process", trace),
        ("end another process", || {
            call(libc::SYS_kill, [parent(), 0, 0])
        }),
        ("send a signal to another process's thread", || {
            call(libc::SYS_tgkill, [parent(), parent(), 0])
        }),
        ("become root", || call(libc::SYS_setuid, [0, 0, 0])),
        ("create a namespace", || {
            call(libc::SYS_unshare, [libc::CLONE_NEWUSER.into(), 0, 0])
        }),
        ("ask the keeper for what was not named", ask),
    ];
    let attempts = attempts.into_iter().map(|(name, attempt)| Attempt {
        name,
        tried: attempt().into(),
    });
    attempts.collect()
}

fn read(path: &str) -> io::Result<()> {
    File::open(path).map(drop)
}

fn create() -> io::Result<()> {
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(NEW_FILE);
    if created.is_ok() {
        fs::remove_file(NEW_FILE)?;
    }
    created.map(drop)
}

/// Landlock refuses before a packet is sent. A refusal by the other end means that it was possible.
fn connect() -> io::Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    match TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        _ => Ok(()),
    }
}

/// Sends without a connection, which asks the kernel to connect.
fn connect_by_sending() -> io::Result<()> {
    // SAFETY: a structure of numbers, of which zeros are a value.
    let mut to: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    to.sin_family = libc::AF_INET as libc::sa_family_t;
    to.sin_port = PORT.to_be();
    to.sin_addr.s_addr = u32::from(Ipv4Addr::LOCALHOST).to_be();
    let socket = open(libc::AF_INET, libc::SOCK_STREAM, 0)?;
    let flags = libc::MSG_FASTOPEN | libc::MSG_NOSIGNAL;
    let size = libc::socklen_t::try_from(size_of_val(&to)).unwrap_or(0);
    // SAFETY: the address outlives the call, and has this size; there is no data.
    let sent = unsafe {
        let to = (&raw const to).cast();
        libc::sendto(socket.as_raw_fd(), null(), 0, flags, to, size)
    };
    if sent < 0 {
        return refused(io::Error::last_os_error());
    }
    Ok(())
}

/// Changes the mode of a file of this process that has no name.
fn change_mode() -> io::Result<()> {
    // SAFETY: the name ends with a null byte.
    let file = unsafe { libc::memfd_create(c"lagtrace-self-test".as_ptr(), libc::MFD_CLOEXEC) };
    let file = owned(file)?;
    call(libc::SYS_fchmod, [file.as_raw_fd().into(), 0o666, 0])
}

fn socket(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> io::Result<()> {
    open(family, kind, protocol).map(drop)
}

fn open(family: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: the call takes numbers only.
    owned(unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) })
}

/// Opens a pair of datagram sockets, each of which could send to others than its peer.
fn pair() -> io::Result<()> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
    // SAFETY: the call writes two descriptors, for which there is room.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    ends.into_iter().try_for_each(|end| owned(end).map(drop))
}

/// Takes a descriptor that was just opened.
fn owned(descriptor: libc::c_int) -> io::Result<OwnedFd> {
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// A program that does not exist cannot replace this one, but the attempt shows whether it could.
fn run() -> io::Result<()> {
    let arguments = [NO_PROGRAM.as_ptr(), null()];
    // SAFETY: the strings end with a null byte and the list with a null pointer.
    unsafe { libc::execve(NO_PROGRAM.as_ptr(), arguments.as_ptr(), [null()].as_ptr()) };
    refused(io::Error::last_os_error())
}

fn fork() -> io::Result<()> {
    in_child(|| Ok(())).map(drop)
}

/// Lets itself be traced, in a child if there can be one: the next signal would stop this process.
fn trace() -> io::Result<()> {
    let traced = || call(libc::SYS_ptrace, [0, 0, 0]);
    in_child(traced).unwrap_or_else(|_| traced())
}

/// Tries something in a child of its own. The outer error is that of starting it.
fn in_child(attempt: impl FnOnce() -> io::Result<()>) -> io::Result<io::Result<()>> {
    let mut status = 0;
    // SAFETY: the child only makes system calls and ends.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the child does nothing else.
        0 => unsafe { libc::_exit(attempt().is_err().into()) },
        child => {
            // SAFETY: waits for the child, with room for its status.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            Ok(match libc::WEXITSTATUS(status) {
                0 => Ok(()),
                _ => Err(io::ErrorKind::PermissionDenied.into()),
            })
        }
    }
}

fn call(number: libc::c_long, arguments: [libc::c_long; 3]) -> io::Result<()> {
    let [one, two, three] = arguments;
    // SAFETY: the calls above take numbers and null pointers, with lengths of 0.
    match unsafe { libc::syscall(number, one, two, three, 0, 0, 0) } {
        -1 => refused(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Tells a refusal from other errors, which mean that the call was carried out.
fn refused(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Err(error),
        _ => Ok(()),
    }
}

fn parent() -> libc::c_long {
    // SAFETY: the call cannot fail.
    unsafe { libc::getppid() }.into()
}

fn ask() -> io::Result<()> {
    let keeper = keeper().ok_or(io::ErrorKind::NotConnected)?;
    keeper.ask(&Request::Input("/etc/hostname".into()))?;
    Ok(())
}
