//! Requests whose times the kernel stamps.

use std::io;
use std::os::fd::OwnedFd;

use core::time::Duration;

use rustix::io::Errno;

use super::{Engine, READ_LEN};
use crate::load::lane::Slot;
use crate::load::stages::Seen;
use crate::probe::tcp_info::TcpInfo;
use crate::stamped::queue::{Queued, take_bytes, take_queued};
use crate::stamped::stream;

/// Minimum interval between stamped requests. Each costs several system calls.
pub(super) const WATCH_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum number of entries read from a socket's error queue for one request.
const MAX_ENTRIES: usize = 64;

impl Engine<'_> {
    /// Reads bytes of a response whose times are stamped. Also returns the maximum length of the
    /// read. The first byte is read by itself, because a read returns the timestamp of its last
    /// byte.
    pub(super) fn read_watched(&mut self, slot: Slot) -> (usize, Result<usize, Errno>) {
        let Some(Some(socket)) = self.sockets.get_mut(slot) else {
            return (READ_LEN, Ok(0));
        };
        let Some(watched) = &mut socket.watched else {
            return (READ_LEN, Ok(0));
        };
        let most = if watched.awaits_first() { 1 } else { READ_LEN };
        let buffer = self.buffer.get_mut(..most).unwrap_or_default();
        match take_bytes(&socket.fd, buffer) {
            Ok((len, at)) => {
                at.into_iter().for_each(|at| watched.came(at));
                (most, Ok(len))
            }
            Err(error) => (most, Err(Errno::from_raw_os_error(error as i32))),
        }
    }

    /// Reports the stages of a stamped request, if it has ended with record number `number` of the
    /// batch.
    pub(super) fn tell_stages(&mut self, slot: Slot, number: usize) {
        let Some(Some(socket)) = self.sockets.get_mut(slot) else {
            return;
        };
        let Some(record) = self.driver.batch().records.get(number).copied() else {
            return;
        };
        let Some(mut watched) = socket.watched.take() else {
            return;
        };
        let (Ok(_), Some(sent)) = (record.outcome, record.sent) else {
            return;
        };
        for _ in 0..MAX_ENTRIES {
            match take_queued(&socket.fd, 0) {
                Some(Queued::Sent { number, stage, at }) => watched.stamped(number, stage, at),
                Some(_) => {}
                None => break,
            }
        }
        let seen = Seen {
            due: record.due,
            sent,
            ended: record.ended,
            least_trip: TcpInfo::of(&socket.fd).rtt,
        };
        let times = watched.stages(seen);
        self.driver.note_stages(record.lane, record.due, times);
    }
}

/// Sends without blocking and requests timestamps. Returns 0 if the kernel accepts no bytes now.
pub(super) fn send_stamped(fd: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    let is_wait = |error: &io::Error| {
        matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
        )
    };
    match stream::send(fd, bytes) {
        Ok(sent) => Ok(sent),
        Err(error) if is_wait(&error) => Ok(0),
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
    }
}
