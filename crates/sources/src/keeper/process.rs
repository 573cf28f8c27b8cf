//! Separating the keeper from the worker, and the end of either.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, getpid, waitpid};
use rustix::thread::{
    CapabilitySets, capabilities, gettid, set_capabilities, set_name, set_no_new_privs,
};

use super::scope::Scope;
use super::service::Service;
use crate::privilege::channel::Channel;
use crate::privilege::client;

/// Exit code of a worker whose keeper has ended.
const KEEPER_ENDED: i32 = 2;
/// Time for the worker to report what it has measured, once the keeper has ended.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time from one interruption to the next, until the keeper ends.
const TURN: Duration = Duration::from_millis(20);
/// True once the worker itself ends its keeper.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// The keeper of this process, as its child.
#[derive(Debug)]
pub struct Kept {
    pid: Pid,
}

/// Separates the keeper from this process, which becomes the worker. Afterwards, the operations of
/// the module `privilege` are requests to the keeper.
///
/// # Errors
/// Returns an error if the kernel cannot create another process, or if this process has more than
/// one thread, such as one of a preloaded library: the others would not exist in the keeper, and
/// would not be confined.
pub fn start(scope: Scope) -> io::Result<Kept> {
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads > 1 {
        return Err(io::Error::other("another thread runs in this process"));
    }
    let (ours, theirs) = Channel::pair()?;
    let worker = getpid();
    // SAFETY: this process has a single thread, so that no lock is held by a thread that the child
    // lacks. The child never returns from this function.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(ours);
            keep(&scope, theirs, worker);
            // SAFETY: ends the child without running the handlers that the worker has registered.
            unsafe { libc::_exit(0) }
        }
        pid => {
            client::connect(ours);
            let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?;
            Ok(Kept { pid })
        }
    }
}

/// Answers the worker until it ends.
fn keep(scope: &Scope, channel: Channel, worker: Pid) {
    handle_signals();
    set_name(c"lagtrace-keeper").unwrap_or_default();
    // A browser may be installed with a program that has privileges.
    if scope.desktop.is_none() {
        set_no_new_privs(true).unwrap_or_default();
    }
    keep_only(scope);
    if let Ok(end) = channel.as_fd().try_clone_to_owned() {
        interrupt_at_end(end);
    }
    Service::new(scope.clone(), channel, worker).run();
}

/// Interrupts an operation that blocks, such as opening a pipe, once the worker has ended. The kernel
/// would not send a signal for this: the worker may not send one to a process with privileges.
fn interrupt_at_end(worker: OwnedFd) {
    // SAFETY: the call cannot fail.
    let (process, thread) = (getpid().as_raw_pid(), unsafe { libc::gettid() });
    let interrupt = move || {
        let mut gone = [PollFd::new(&worker, PollFlags::RDHUP)];
        while let Err(Errno::INTR) | Ok(0) = poll(&mut gone, None) {}
        loop {
            // SAFETY: the handler of SIGTERM does nothing.
            unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGTERM) };
            thread::sleep(TURN);
        }
    };
    // Without the thread, only such an operation outlives the worker.
    let _ = thread::Builder::new()
        .name("keeper-end".to_owned())
        .spawn(interrupt);
}

/// Drops the capabilities that the run does not need.
fn keep_only(scope: &Scope) {
    let Ok(held) = capabilities(None) else { return };
    let kept = held.permitted & scope.capabilities();
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: rustix::thread::CapabilitySet::empty(),
    };
    set_capabilities(None, sets).unwrap_or_default();
}

/// Gives the signals of the terminal no effect: the worker decides when the run ends. SIGTERM only
/// interrupts an operation that blocks. A program that is started has the usual handlers again.
fn handle_signals() {
    extern "C" fn nothing(_: libc::c_int) {}
    let ignored = [libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE];
    for signal in ignored.into_iter().chain([libc::SIGTERM]) {
        // SAFETY: the handler does nothing, and the structure is initialised. Without `SA_RESTART`,
        // blocking calls return.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = nothing as *const () as libc::sighandler_t;
            if signal != libc::SIGTERM {
                action.sa_flags = libc::SA_RESTART;
            }
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

impl Kept {
    /// Stops this process as soon as the keeper has ended, which it otherwise does only after this
    /// process. `told` is called first, to say so. The process is asked to stop as by SIGTERM, so
    /// that it reports what it has measured; it is ended if it does not.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub fn watch(&self, told: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let socket = client::keeper()
            .ok_or(io::ErrorKind::NotConnected)?
            .socket()?;
        thread::Builder::new()
            .name("keeper".to_owned())
            .spawn(move || {
                let mut gone = [PollFd::new(&socket, PollFlags::RDHUP)];
                while let Err(Errno::INTR) | Ok(0) = poll(&mut gone, None) {}
                if IS_ENDING.load(Ordering::Acquire) {
                    return;
                }
                told();
                let (own, thread) = (getpid().as_raw_pid(), gettid().as_raw_pid());
                // SAFETY: the handlers of SIGTERM are those of this program, or the default action.
                // musl's `raise` makes a call that could reach other processes, and is refused.
                unsafe { libc::syscall(libc::SYS_tgkill, own, thread, libc::SIGTERM) };
                thread::sleep(PATIENCE);
                exit(KEEPER_ENDED);
            })?;
        Ok(())
    }

    /// Ends the keeper after it has restored what it changed. No operation may follow.
    pub fn end(self) {
        IS_ENDING.store(true, Ordering::Release);
        client::disconnect();
        while let Err(Errno::INTR) = waitpid(Some(self.pid), WaitOptions::empty()) {}
    }
}
