//! The processes that the command line names by their numbers.

use std::os::fd::BorrowedFd;

use super::scope::Processes;
use crate::privilege::ProcessHandle;

/// Handles on these processes, opened when the keeper starts: a later process may get the number of
/// one that has ended, and is another one.
#[derive(Debug)]
pub(super) struct Named {
    handles: Vec<ProcessHandle>,
    /// True if the command line names none, which stands for all.
    is_all: bool,
}

impl Named {
    pub(super) fn of(processes: &Processes) -> Self {
        let pids = match processes {
            Processes::Sockets(pids) => pids.as_slice(),
            Processes::NamespaceOf(pid) => std::slice::from_ref(pid),
            Processes::None | Processes::Servers(_) => &[],
        };
        let handles = pids.iter().filter_map(|&pid| ProcessHandle::open(pid).ok());
        Self {
            handles: handles.collect(),
            is_all: pids.is_empty(),
        }
    }

    /// Returns the descriptors that become readable when one of the processes ends.
    pub(super) fn ends(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.handles.iter().map(ProcessHandle::end)
    }

    /// Removes the processes that have ended, and returns their numbers.
    pub(super) fn take_ended(&mut self) -> Vec<u32> {
        let ended = self.handles.extract_if(.., |handle| handle.has_ended());
        ended.map(|handle| handle.pid()).collect()
    }

    /// Returns true if the number stands for the process that had it at the start. What was done
    /// before with the number was done with this process.
    pub(super) fn include(&self, pid: u32) -> bool {
        let mut handles = self.handles.iter().filter(|handle| handle.pid() == pid);
        self.is_all || handles.any(|handle| !handle.has_ended())
    }
}
