//! The submission and completion queues of io_uring, which avoid a system call per operation.
#![allow(unsafe_code)]

use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use core::time::Duration;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{CancelBuilder, Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};

use super::pool::{GROUP, Pool};

/// Submission queue entries.
const ENTRIES: u32 = 256;
/// Number of completion queue entries; the kernel keeps further completions itself.
const ANSWERS: u32 = 4096;
/// Maximum number of receive buffers.
const MAX_BUFFERS: u16 = 1024;
/// Maximum time to wait for the cancellation of all requests at the end.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// A completion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    /// Token of the operation.
    pub(super) token: u64,
    /// Number of bytes, or a negated error number.
    pub(super) result: i32,
    /// Buffer that holds the received bytes.
    pub(super) buffer: Option<u16>,
    /// True if the same request will complete again.
    pub(super) has_more: bool,
}

/// The rings and the buffers of one thread.
pub(in crate::load) struct Queue {
    ring: ManuallyDrop<IoUring>,
    pool: ManuallyDrop<Pool>,
    /// Duration of the kernel timer; the kernel reads this value when the timer is submitted.
    alarm: Box<Timespec>,
}

impl Queue {
    /// Creates rings for use by this thread only; returns an error if the kernel is older than 6.1
    /// or rejects them.
    pub(super) fn new(connections: usize) -> io::Result<Self> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(ANSWERS)
            .build(ENTRIES)?;
        let buffers = u16::try_from(connections).map_or(MAX_BUFFERS, |connections| {
            connections.clamp(16, MAX_BUFFERS).next_power_of_two()
        });
        let files = u32::try_from(connections).unwrap_or(u32::MAX);
        ring.submitter().register_files_sparse(files.max(1))?;
        let pool = Pool::register(&ring, buffers)?;
        Ok(Self {
            ring: ManuallyDrop::new(ring),
            pool: ManuallyDrop::new(pool),
            alarm: Box::default(),
        })
    }

    /// Registers a descriptor at `place`; `None` unregisters the descriptor at that place.
    pub(super) fn set_file(&self, place: usize, fd: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        let fd = fd.map_or(-1, |fd| fd.as_raw_fd());
        let submitter = self.ring.submitter();
        submitter.register_files_update(place, &[fd]).map(drop)
    }

    /// Requests a completion after `after`.
    pub(super) fn set_alarm(&mut self, after: Duration, token: u64) -> io::Result<()> {
        *self.alarm = Timespec::from(after);
        let entry = opcode::Timeout::new(&raw const *self.alarm).build();
        self.push(&entry.user_data(token))
    }

    /// Requests a completion when `fd` next becomes writable.
    pub(super) fn await_writable(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        let entry = opcode::PollAdd::new(Fd(fd.as_raw_fd()), libc::POLLOUT as u32).build();
        self.push(&entry.user_data(token))
    }

    /// Requests all data that arrives at `place`, until the end of the stream or an error.
    pub(super) fn receive(&mut self, place: usize, token: u64) -> io::Result<()> {
        let entry = opcode::RecvMulti::new(fixed(place), GROUP).build();
        self.push(&entry.user_data(token))
    }

    /// Sends all of `bytes` at `place`. If `is_short` is set, the send completes only on failure.
    ///
    /// # Safety
    ///
    /// `bytes` must stay unchanged until the completion, or as long as this queue exists.
    pub(super) unsafe fn send(
        &mut self,
        place: usize,
        bytes: &[u8],
        is_short: bool,
        token: u64,
    ) -> io::Result<()> {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let entry = opcode::Send::new(fixed(place), bytes.as_ptr(), len)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .user_data(token);
        let entry = if is_short {
            entry.flags(Flags::SKIP_SUCCESS)
        } else {
            entry
        };
        self.push(&entry)
    }

    /// Cancels a request.
    pub(super) fn cancel(&mut self, asked: u64, token: u64) -> io::Result<()> {
        let entry = opcode::AsyncCancel::new(asked).build();
        self.push(&entry.flags(Flags::SKIP_SUCCESS).user_data(token))
    }

    /// Submits the queued requests to the kernel.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        ignore_interruption(self.ring.submit())
    }

    /// Submits the queued requests and waits for a completion.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        ignore_interruption(self.ring.submit_and_wait(1))
    }

    /// Submits the queued requests and waits for a completion, at most for `timeout`.
    pub(super) fn wait_at_most(&mut self, timeout: Duration) -> io::Result<()> {
        let timeout = Timespec::from(timeout);
        let arguments = SubmitArgs::new().timespec(&timeout);
        ignore_interruption(self.ring.submitter().submit_with_args(1, &arguments))
    }

    /// Moves the completions that have arrived to `into`.
    pub(super) fn answers(&mut self, into: &mut Vec<Answer>) {
        into.extend(self.ring.completion().map(|entry| Answer {
            token: entry.user_data(),
            result: entry.result(),
            buffer: cqueue::buffer_select(entry.flags()),
            has_more: cqueue::more(entry.flags()),
        }));
    }

    /// Returns the bytes that were received.
    pub(super) fn received(&self, answer: &Answer) -> &[u8] {
        let len = usize::try_from(answer.result).unwrap_or(0);
        answer
            .buffer
            .map_or(&[], |buffer| self.pool.filled(buffer, len))
    }

    /// Returns the buffer of a completion to the kernel.
    pub(super) fn give_back(&mut self, answer: &Answer) {
        if let Some(buffer) = answer.buffer {
            self.pool.give_back(buffer);
        }
    }

    fn push(&mut self, entry: &Entry) -> io::Result<()> {
        // SAFETY: what an entry points to lives long enough: the caller of `send` guarantees it,
        // and no other entry points anywhere.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.submit()?;
        }
        Ok(())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // No request may use the buffers, or the bytes being sent, any longer; should one go on all
        // the same, its memory is never used again.
        let timeout = Timespec::from(CANCEL_TIMEOUT);
        let cancelled = self
            .ring
            .submitter()
            .register_sync_cancel(Some(timeout), CancelBuilder::any());
        let is_idle = match cancelled {
            Ok(()) => true,
            Err(error) => error.raw_os_error() == Some(libc::ENOENT),
        };
        // SAFETY: neither is used again, and the ring goes first.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            if is_idle {
                ManuallyDrop::drop(&mut self.pool);
            }
        }
    }
}

fn fixed(place: usize) -> Fixed {
    Fixed(u32::try_from(place).unwrap_or(u32::MAX))
}

/// Treats a wait that ended by a signal or a timeout as success. A full completion queue is success
/// too, because it only means that completions must be taken first.
fn ignore_interruption(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Err(error)
            if !matches!(
                error.raw_os_error(),
                Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN)
            ) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}
