//! Packet sockets and raw sockets for the worker, by the kernel's notifications of system calls
//! (`seccomp_unotify(2)`).
//!
//! libpcap and the probes open their sockets themselves, in the worker, which lacks the capability.
//! A filter makes the kernel stop each such call and tell the keeper, which opens the socket and
//! adds it to the worker's descriptors. All arguments are numbers, so that the worker cannot change
//! them after the check.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use rustix::io::Errno;

use super::scope::Scope;

/// Flags of `seccomp(2)` and of its notifications (`include/uapi/linux/seccomp.h`).
const NEW_LISTENER: libc::c_ulong = 1 << 3;
const ADDFD_SEND: u32 = 1 << 1;
/// `SECCOMP_IOCTL_NOTIF_RECV`, `_SEND` and `_ADDFD`.
const RECEIVE: libc::Ioctl = 0xc050_2100_u32 as libc::Ioctl;
const SEND: libc::Ioctl = 0xc018_2101_u32 as libc::Ioctl;
const ADD: libc::Ioctl = 0x4018_2103_u32 as libc::Ioctl;

/// Makes the kernel pass this process's calls of `socket` with packets and raw IP to the returned
/// descriptor. This process must not be able to gain privileges (`no_new_privs`).
pub(super) fn delegate() -> io::Result<OwnedFd> {
    let program = program();
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).unwrap_or(0),
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the kernel copies the program, whose length is given. It writes nothing.
    let listener = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::c_ulong::from(libc::SECCOMP_SET_MODE_FILTER),
            NEW_LISTENER,
            &raw const program,
        )
    };
    let listener = i32::try_from(listener).map_err(|_| io::ErrorKind::InvalidData)?;
    if listener < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened this descriptor, and no other value owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(listener) })
}

/// Returns the filter: `socket` with `AF_PACKET`, or with an IP family and `SOCK_RAW`, is passed
/// on; everything else is allowed, as far as this filter is concerned.
fn program() -> Vec<libc::sock_filter> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IS_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    /// Offsets of `nr` and of the arguments' lower halves in `struct seccomp_data`.
    const NUMBER: u32 = 0;
    const FAMILY: u32 = if cfg!(target_endian = "little") {
        16
    } else {
        20
    };
    const KIND: u32 = FAMILY + 8;
    /// The bits of a socket's type without `SOCK_CLOEXEC` and `SOCK_NONBLOCK`.
    const KINDS: u32 = 0xf;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let word = |number: libc::c_int| number.unsigned_abs();
    vec![
        step(LOAD, 0, 0, NUMBER),
        step(IS_EQUAL, 0, 8, libc::SYS_socket as u32),
        step(LOAD, 0, 0, FAMILY),
        step(IS_EQUAL, 5, 0, word(libc::AF_PACKET)),
        step(IS_EQUAL, 1, 0, word(libc::AF_INET)),
        step(IS_EQUAL, 0, 4, word(libc::AF_INET6)),
        step(LOAD, 0, 0, KIND),
        step(AND, 0, 0, KINDS),
        step(IS_EQUAL, 0, 1, word(libc::SOCK_RAW)),
        step(RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

/// The notifications of the worker's calls.
#[derive(Debug)]
pub(super) struct Listener {
    fd: OwnedFd,
    worker: u32,
}

impl Listener {
    /// Returns true if a descriptor is one of `seccomp_unotify(2)`. The worker could pass another
    /// one, such as its own end of the channel, which would then never end.
    pub(super) fn is_one(fd: &OwnedFd) -> bool {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        link.is_ok_and(|link| link.as_os_str() == "anon_inode:seccomp notify")
    }

    pub(super) fn new(fd: OwnedFd, worker: u32) -> Self {
        Self { fd, worker }
    }

    /// Answers one call.
    pub(super) fn answer(&self, scope: &Scope) {
        let mut call = unsafe_zeroed::<libc::seccomp_notif>();
        if self.control(RECEIVE, &raw mut call).is_err() {
            return; // The thread has ended in the meantime.
        }
        let opened = socket(scope, &call.data, self.is_of_worker(call.pid));
        let errno = match opened {
            Ok(socket) => {
                let mut added = Added {
                    id: call.id,
                    flags: ADDFD_SEND,
                    socket: socket.as_raw_fd().unsigned_abs(),
                    place: 0,
                    place_flags: libc::O_CLOEXEC.unsigned_abs(),
                };
                match self.control(ADD, &raw mut added) {
                    Ok(()) => return,
                    Err(Errno::INVAL) => return self.add_before_answer(added),
                    Err(error) => error,
                }
            }
            Err(errno) => errno,
        };
        self.respond(call.id, 0, -errno.raw_os_error());
    }

    /// Adds the socket and answers separately, for kernels before 5.14.
    fn add_before_answer(&self, mut added: Added) {
        added.flags = 0;
        // SAFETY: the argument has the type that the request expects, and outlives the call.
        let place = unsafe { libc::ioctl(self.fd.as_raw_fd(), ADD, &raw mut added) };
        if place < 0 {
            self.respond(added.id, 0, -libc::EPERM);
        } else {
            self.respond(added.id, place.into(), 0);
        }
    }

    fn respond(&self, id: u64, value: i64, error: i32) {
        let mut response = libc::seccomp_notif_resp {
            id,
            val: value,
            error,
            flags: 0,
        };
        self.control(SEND, &raw mut response).unwrap_or_default();
    }

    /// Returns true if a thread belongs to the worker. The filter is inherited by nobody else, since
    /// the worker starts no processes.
    fn is_of_worker(&self, thread: u32) -> bool {
        std::path::Path::new(&format!("/proc/{}/task/{thread}", self.worker)).exists()
    }

    fn control<T>(&self, request: libc::Ioctl, argument: *mut T) -> Result<(), Errno> {
        // SAFETY: the callers pass the structure that belongs to the request, and it outlives the
        // call.
        let outcome = unsafe { libc::ioctl(self.fd.as_raw_fd(), request, argument) };
        if outcome < 0 {
            let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
            return Err(Errno::from_raw_os_error(errno));
        }
        Ok(())
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// `struct seccomp_notif_addfd`.
#[repr(C)]
struct Added {
    id: u64,
    flags: u32,
    socket: u32,
    place: u32,
    place_flags: u32,
}

fn unsafe_zeroed<T: Copy>() -> T {
    // SAFETY: used for structures of numbers only, of which zeros are a value.
    unsafe { std::mem::zeroed() }
}

/// Opens the socket that the worker has asked for, if the command line allows it.
fn socket(scope: &Scope, call: &libc::seccomp_data, is_of_worker: bool) -> Result<OwnedFd, Errno> {
    let argument = |at: usize| i32::try_from(call.args[at] & 0xffff_ffff);
    let (Ok(family), Ok(kind), Ok(protocol)) = (argument(0), argument(1), argument(2)) else {
        return Err(Errno::INVAL);
    };
    let is_allowed = match family {
        libc::AF_PACKET => scope.packets,
        _ => scope.raw,
    };
    if !is_allowed || !is_of_worker {
        return Err(Errno::PERM);
    }
    // SAFETY: the call takes numbers only.
    let socket = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
    if socket < 0 {
        let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
        return Err(Errno::from_raw_os_error(errno));
    }
    // SAFETY: the kernel has just opened this descriptor, and no other value owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}
