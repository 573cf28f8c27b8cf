//! The worker, as its keeper sees it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};

/// Interval at which a kernel without process descriptors (before 5.3) is asked for the worker.
const INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// The process that a keeper serves. Its end is seen by a descriptor of the process itself: the
/// channel also ends with it, but only if no other process has a copy of the worker's end, and the
/// worker can pass one to anybody.
#[derive(Debug)]
pub(super) struct Worker {
    pid: Pid,
    process: Option<OwnedFd>,
}

impl Worker {
    pub(super) fn new(pid: Pid) -> Self {
        Self {
            pid,
            process: pidfd_open(pid, PidfdFlags::empty()).ok(),
        }
    }

    /// Returns another handle on the same process.
    pub(super) fn try_clone(&self) -> io::Result<Self> {
        let process = self.process.as_ref().map(OwnedFd::try_clone);
        Ok(Self {
            pid: self.pid,
            process: process.transpose()?,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Returns true if the worker, which is the parent of this process, has ended.
    pub(super) fn is_not_parent(&self) -> bool {
        getppid() != Some(self.pid)
    }

    /// Returns the descriptor that becomes readable when the worker ends.
    pub(super) fn end(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref().map(AsFd::as_fd)
    }

    /// Waits until the worker ends, or closes its end of the channel.
    pub(super) fn wait_for_end(&self, channel: &OwnedFd) {
        loop {
            let mut ends = vec![PollFd::new(channel, PollFlags::RDHUP)];
            let process = self.process.as_ref();
            ends.extend(process.map(|it| PollFd::new(it, PollFlags::IN)));
            let patience = process.is_none().then_some(&INTERVAL);
            if matches!(poll(&mut ends, patience), Ok(ended) if ended > 0)
                || process.is_none() && self.is_not_parent()
            {
                return;
            }
        }
    }
}
