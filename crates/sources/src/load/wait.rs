//! Waiting on epoll with nanosecond precision.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use core::time::Duration;

/// A readiness event: the registered token, and the events.
pub(super) type Readiness = libc::epoll_event;

/// An event without contents, to fill a buffer.
pub(super) const NOTHING: Readiness = Readiness { events: 0, u64: 0 };

/// A wait on epoll. Before kernel 5.11, its timeout is rounded up to milliseconds.
#[derive(Debug, Default)]
pub(super) struct Waiter {
    is_coarse: bool,
}

impl Waiter {
    /// Waits for events, at most for `timeout`. Returns the number of events.
    pub(super) fn wait(
        &mut self,
        epoll: &OwnedFd,
        events: &mut [Readiness],
        timeout: Duration,
    ) -> io::Result<usize> {
        if !self.is_coarse {
            match wait_nanos(epoll, events, timeout) {
                // A seccomp filter answers with EPERM to a system call that it does not know.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
                    self.is_coarse = true;
                }
                done => return done,
            }
        }
        wait_millis(epoll, events, timeout)
    }
}

fn wait_nanos(epoll: &OwnedFd, events: &mut [Readiness], timeout: Duration) -> io::Result<usize> {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs().try_into().unwrap_or(libc::c_long::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    let most = libc::c_int::try_from(events.len()).unwrap_or(libc::c_int::MAX);
    // SAFETY: `events` is valid for writing `most` events, and `timeout` is a valid timespec. The
    // signal mask may be null. The kernel keeps no pointer.
    let count = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            epoll.as_raw_fd(),
            events.as_mut_ptr(),
            most,
            &raw const timeout,
            core::ptr::null::<libc::sigset_t>(),
            0_usize,
        )
    };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

fn wait_millis(epoll: &OwnedFd, events: &mut [Readiness], timeout: Duration) -> io::Result<usize> {
    let millis = timeout.as_nanos().div_ceil(1_000_000);
    let millis = libc::c_int::try_from(millis).unwrap_or(libc::c_int::MAX);
    let most = libc::c_int::try_from(events.len()).unwrap_or(libc::c_int::MAX);
    // SAFETY: `events` is valid for writing `most` events.
    let count = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), most, millis) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_after_the_timeout_either_way() {
        let epoll = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC)
            .expect("epoll");
        for is_coarse in [false, true] {
            let mut waiter = Waiter { is_coarse };
            let mut events = [NOTHING; 4];
            let begun = std::time::Instant::now();
            let count = waiter
                .wait(&epoll, &mut events, Duration::from_micros(1500))
                .expect("waits");
            assert_eq!(count, 0);
            assert!(begun.elapsed() >= Duration::from_micros(1500));
        }
    }
}
