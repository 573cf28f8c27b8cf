//! Another program of this host, for the attempts: it serves a port, has files that are not for the
//! worker, and tries what other users' programs could try on the run.
//!
//! It is a child of the process that becomes the worker, and ends with it.

#![allow(unsafe_code)]

use std::fs::{self, Permissions};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, PidfdGetfdFlags, WaitOptions, geteuid,
    set_dumpable_behavior, waitpid,
};

use super::identity;
use crate::privilege::sudo_user;

/// The file that everybody may read, in a folder that only its owner may pass.
const PRIVATE: &str = "private";
/// A file named like a configuration, which only its owner may read.
const CONFIGURATION: &str = "other.conf";
/// User `nobody`, and another one in case that lagtrace was started by `nobody`.
const STRANGERS: [u32; 2] = [65_534, 65_533];
/// Time for each step of a request for a page.
const PATIENCE: Duration = Duration::from_secs(5);

/// A handle on the program, in the worker.
#[derive(Debug)]
pub struct Bystander {
    pid: Pid,
    /// The end of this socket makes the program end.
    channel: UnixStream,
    port: u16,
    folder: PathBuf,
    /// True if lagtrace has rights that other programs of the worker's user have not.
    is_privileged: bool,
    /// True if lagtrace was started by root, so that the program can become any user.
    is_root: bool,
}

impl Bystander {
    /// Starts the program. The process must have a single thread.
    ///
    /// # Errors
    /// Returns an error if no file, port or process can be made.
    pub fn start() -> io::Result<Self> {
        let only_own = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new()
            .prefix("lagtrace-self-test-")
            .permissions(only_own)
            .tempdir()?;
        for (name, mode) in [(PRIVATE, 0o644), (CONFIGURATION, 0o600)] {
            let path = folder.path().join(name);
            fs::write(&path, "for the attempts of lagtrace self-test\n")?;
            fs::set_permissions(&path, Permissions::from_mode(mode))?;
        }
        let (ours, theirs) = UnixStream::pair()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let is_root = geteuid().is_root();
        let held = rustix::thread::capabilities(None)?;
        // SAFETY: the process has a single thread, so that no lock is held by a thread that the
        // child lacks. The child never returns.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(ours);
                ignore_terminal();
                become_ordinary();
                serve(&theirs).unwrap_or_default();
                drop((folder, listener));
                leave(0)
            }
            pid => Ok(Self {
                pid: Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?,
                channel: ours,
                port,
                folder: folder.keep(),
                is_privileged: is_root || !held.permitted.is_empty(),
                is_root,
            }),
        }
    }

    /// Returns the port that the program serves.
    pub fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Returns the file that everybody may read, in the private folder.
    pub(super) fn private_file(&self) -> PathBuf {
        self.folder.join(PRIVATE)
    }

    /// Returns the file that is named like a configuration.
    pub(super) fn configuration(&self) -> PathBuf {
        self.folder.join(CONFIGURATION)
    }

    pub(super) fn is_privileged(&self) -> bool {
        self.is_privileged
    }

    /// Takes a descriptor of a process, as another program of the worker's user.
    pub(super) fn take_from(&self, pid: u32) -> io::Result<()> {
        self.ask(&format!("take {pid}"))
    }

    /// Returns a user for whom a page is not served, if there is one and the program can become this
    /// user.
    pub fn stranger(&self) -> Option<u32> {
        let user = sudo_user().filter(|_| self.is_root)?.user;
        STRANGERS.into_iter().find(|&stranger| stranger != user)
    }

    /// Returns the user for whom a page is served.
    pub fn reader(&self) -> Option<u32> {
        sudo_user().filter(|_| self.is_root).map(|user| user.user)
    }

    /// Gets a page as this user.
    ///
    /// # Errors
    /// Returns an error of the kind `PermissionDenied` if the server refuses it, and others if the
    /// server cannot be asked.
    pub fn fetch(&self, user: u32, server: SocketAddr, path: &str) -> io::Result<()> {
        self.ask(&format!("fetch {user} {server} {path}"))
    }

    /// Has the program try something; the answer is its `errno`, or 0.
    fn ask(&self, task: &str) -> io::Result<()> {
        let mut channel = &self.channel;
        channel.write_all(format!("{task}\n").as_bytes())?;
        let mut answer = [0; 4];
        channel.read_exact(&mut answer)?;
        match i32::from_le_bytes(answer) {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        // The keeper has a copy of this end.
        self.channel.shutdown(Shutdown::Both).unwrap_or_default();
        while let Err(Errno::INTR) = waitpid(Some(self.pid), WaitOptions::empty()) {}
    }
}

/// Makes the signals of the terminal no end of the program: it removes its files after the worker.
fn ignore_terminal() {
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGTERM] {
        // SAFETY: no handler runs.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Makes the program as open to others of its user as it is without capabilities from a file.
fn become_ordinary() {
    if !geteuid().is_root() {
        identity::drop_capabilities(false).unwrap_or_default();
        set_dumpable_behavior(DumpableBehavior::Dumpable).unwrap_or_default();
    }
}

/// Tries what the worker asks for, until the worker ends.
fn serve(channel: &UnixStream) -> io::Result<()> {
    let mut to = channel;
    for task in BufReader::new(channel).lines() {
        let task = task?;
        let words: Vec<&str> = task.split(' ').collect();
        let errno = match words[..] {
            ["take", pid] => as_user(None, || take(pid)),
            ["fetch", user, server, path] => as_user(user.parse().ok(), || fetch(server, path)),
            _ => libc::EINVAL,
        };
        to.write_all(&errno.to_le_bytes())?;
    }
    Ok(())
}

/// Tries something in a process of a user, by default the worker's, without any capability. Returns
/// the `errno`, or 0.
fn as_user(user: Option<u32>, attempt: impl FnOnce() -> io::Result<()>) -> i32 {
    // SAFETY: this process has a single thread.
    match unsafe { libc::fork() } {
        -1 => libc::EAGAIN,
        0 => {
            let changed = match user {
                Some(user) => identity::become_user(user, user, false),
                None => identity::become_unprivileged(false),
            };
            let changed = changed.and_then(|()| identity::drop_capabilities(false));
            let tried = changed.and_then(|()| attempt());
            leave(
                tried
                    .err()
                    .map_or(0, |error| error.raw_os_error().unwrap_or(libc::EIO)),
            )
        }
        child => {
            let child = Pid::from_raw(child);
            let ended = loop {
                match waitpid(child, WaitOptions::empty()) {
                    Err(Errno::INTR) => {}
                    ended => break ended.ok().flatten(),
                }
            };
            ended
                .and_then(|(_, status)| status.exit_status())
                .unwrap_or(libc::EIO)
        }
    }
}

fn leave(code: i32) -> ! {
    // SAFETY: the call cannot fail.
    unsafe { libc::_exit(code) }
}

/// Takes standard error of a process, which may be closed: the kernel asks for the right first.
fn take(pid: &str) -> io::Result<()> {
    let pid = pid.parse().ok().and_then(Pid::from_raw);
    let process = rustix::process::pidfd_open(pid.ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
    match rustix::process::pidfd_getfd(&process, 2, PidfdGetfdFlags::empty()) {
        Ok(_) | Err(Errno::BADF) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn fetch(server: &str, path: &str) -> io::Result<()> {
    let server: SocketAddr = server.parse().map_err(|_| Errno::INVAL)?;
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {server}\r\n\r\n")?;
    let mut status = [0; 12];
    stream.read_exact(&mut status)?;
    match &status {
        b"HTTP/1.1 200" => Ok(()),
        b"HTTP/1.1 403" => Err(Errno::ACCESS.into()),
        _ => Err(Errno::PROTO.into()),
    }
}
