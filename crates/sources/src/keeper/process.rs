//! Separating the keeper from the worker, and the end of either.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsFd as _;
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{panic, thread};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, WaitOptions, geteuid, getpid, set_dumpable_behavior, waitpid,
};
use rustix::thread::{
    CapabilitySets, capabilities, disable_transparent_huge_pages, gettid, set_capabilities,
    set_name, set_no_new_privs,
};

use super::scope::Scope;
use super::service::Service;
use super::undo::Undo;
use super::worker::Worker;
use crate::privilege::channel::Channel;
use crate::privilege::message::Reply;
use crate::privilege::{HostError, client};

/// Exit code of a worker whose keeper has ended.
const KEEPER_ENDED: i32 = 2;
/// Time for the worker to report what it has measured, once the keeper has ended.
const PATIENCE: Duration = Duration::from_secs(10);
/// Exit code of a keeper that has ended by a panic.
const PANICKED: i32 = 101;
/// Time for the keeper to end a request and to undo what it has made, once the worker has ended.
pub(super) const GRACE: Duration = Duration::from_secs(3);
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
    keep_to_ourselves();
    let (channel, pid) = separate(&scope)?;
    client::connect(channel);
    Ok(Kept { pid })
}

/// Closes both processes to others of the same user if the program's file gives capabilities. The
/// worker drops them, and keeps sockets that need them: others could take these by
/// `pidfd_getfd(2)`, and send through them what they like.
fn keep_to_ourselves() {
    let is_given = capabilities(None).is_ok_and(|held| !held.permitted.is_empty());
    if is_given && !geteuid().is_root() {
        set_dumpable_behavior(DumpableBehavior::NotDumpable).unwrap_or_default();
    }
}

/// Starts a keeper of this process, and returns the worker's end of its channel once the keeper is
/// ready.
pub(super) fn separate(scope: &Scope) -> io::Result<(Channel, Pid)> {
    let (ours, theirs) = Channel::pair()?;
    let worker = getpid();
    // SAFETY: the callers have a single thread, so that no lock is held by a thread that the child
    // lacks. The child never returns from this function.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(ours);
            keep(scope, theirs, worker);
            leave(0)
        }
        pid => {
            drop(theirs);
            let pid = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidData)?;
            wait_until_ready(&ours)?;
            Ok((ours, pid))
        }
    }
}

/// Waits for the keeper's first word: that it is ready, or why it cannot be.
fn wait_until_ready(channel: &Channel) -> io::Result<()> {
    match channel.receive()? {
        Some((Reply::Done, _)) => Ok(()),
        Some((Reply::Refused(refusal), _)) => Err(io::Error::other(HostError::from(refusal))),
        Some(_) => Err(io::ErrorKind::InvalidData.into()),
        None => Err(io::Error::other("the privileged process has ended")),
    }
}

/// Answers the worker until it ends.
fn keep(scope: &Scope, channel: Channel, worker: Pid) {
    let undo = Undo::default();
    end_at_panics(undo.clone());
    handle_signals();
    set_name(c"lagtrace-keeper").unwrap_or_default();
    // A browser may be installed with a program that has privileges, and needs much memory.
    if scope.desktop.is_none() {
        set_no_new_privs(true).unwrap_or_default();
        // The keeper needs little: clearing a huge page takes longer than what it is asked for.
        disable_transparent_huge_pages(true).unwrap_or_default();
    }
    keep_only(scope);
    let worker = Worker::new(worker);
    // A worker that has ended already may have left its number to another process.
    if worker.is_not_parent() {
        return;
    }
    let ready = match end_with(&worker, &channel, undo.clone()) {
        Ok(()) => Reply::Done,
        Err(error) => {
            let refusal = HostError::failed("starting the privileged process", error).into();
            Reply::Refused(refusal)
        }
    };
    if channel.send(&ready, &[]).is_ok() && ready == Reply::Done {
        Service::new(scope.clone(), channel, worker, undo).run();
    }
}

/// Ends this process after the worker, whatever it is doing. An operation that blocks, such as
/// opening a pipe, is interrupted; the kernel would not send a signal for this, because the worker
/// may not send one to a process with privileges. If the operation goes on nevertheless, what was
/// made before is undone, and the process ends without it.
fn end_with(worker: &Worker, channel: &Channel, undo: Undo) -> io::Result<()> {
    let (worker, channel) = (worker.try_clone()?, channel.as_fd().try_clone_to_owned()?);
    // SAFETY: the call cannot fail.
    let (process, thread) = (getpid().as_raw_pid(), unsafe { libc::gettid() });
    let end = move || {
        worker.wait_for_end(&channel);
        let latest = Instant::now() + GRACE;
        while Instant::now() < latest {
            // SAFETY: the handler of SIGTERM does nothing.
            unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGTERM) };
            thread::sleep(TURN);
        }
        undo.all();
        leave(0)
    };
    let thread = thread::Builder::new().name("keeper-end".to_owned());
    thread.spawn(end).map(|_| ())
}

/// Makes a panic of any thread undo what the keeper has made, and end it. What the worker does at a
/// panic is not to be done here.
fn end_at_panics(undo: Undo) {
    drop(panic::take_hook());
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |reason| {
        tell(reason);
        undo.all();
        leave(PANICKED)
    }));
}

/// Ends the process without running the handlers that the worker has registered.
fn leave(code: i32) -> ! {
    // SAFETY: the call cannot fail.
    unsafe { libc::_exit(code) }
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
