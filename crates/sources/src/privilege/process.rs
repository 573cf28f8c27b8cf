//! Listing and duplicating another process's file descriptors.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};

use super::{Capability, HostError};

/// A handle on another process. It ensures that the PID does not refer to a later process.
#[derive(Debug)]
pub struct ProcessHandle {
    pid: u32,
    pidfd: OwnedFd,
}

impl ProcessHandle {
    /// Opens a handle on process `pid`.
    ///
    /// # Errors
    /// Returns an error if the process has ended.
    pub fn open(pid: u32) -> Result<Self, HostError> {
        let gone = || HostError::Gone {
            what: format!("process {pid}"),
        };
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pidfd = rustix::process::pidfd_open(number.ok_or_else(gone)?, PidfdFlags::empty())
            .map_err(|e| {
                HostError::new(
                    format!("pidfd_open({pid})"),
                    e.into(),
                    Capability::SysPtrace,
                )
            })?;
        Ok(Self { pid, pidfd })
    }

    /// Returns the PID of the process in lagtrace's own PID namespace.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Duplicates the process's descriptor `fd`. The duplicate refers to the same socket, so a
    /// `close` in that process does not close the connection while the duplicate exists. The caller
    /// should drop it as soon as possible.
    ///
    /// # Errors
    /// Returns an error if `CAP_SYS_PTRACE` is missing, or if the process has closed `fd`.
    pub fn duplicate(&self, fd: u32) -> Result<OwnedFd, HostError> {
        let operation = || format!("pidfd_getfd of descriptor {fd} of process {}", self.pid);
        let number = i32::try_from(fd).map_err(|_| HostError::Gone { what: operation() })?;
        rustix::process::pidfd_getfd(&self.pidfd, number, PidfdGetfdFlags::empty()).map_err(|e| {
            if e == rustix::io::Errno::BADF {
                HostError::Gone { what: operation() }
            } else {
                HostError::new(operation(), e.into(), Capability::SysPtrace)
            }
        })
    }
}

/// Returns the open sockets of process `pid`, as `(inode, descriptor)`. At most `most` descriptors
/// are read.
///
/// # Errors
/// Returns an error if the process belongs to another user and `CAP_SYS_PTRACE` is missing, or if
/// the process has ended.
pub fn sockets_of(pid: u32, most: usize) -> Result<Vec<(u32, u32)>, HostError> {
    let path = format!("/proc/{pid}/fd");
    let refuse = |e| HostError::new(format!("reading {path}"), e, Capability::SysPtrace);
    let mut sockets = Vec::new();
    let mut refusal = None;
    for entry in fs::read_dir(&path).map_err(refuse)?.take(most).flatten() {
        let Some(fd) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        match fs::read_link(entry.path()) {
            Ok(link) => {
                sockets.extend(
                    link.to_str()
                        .and_then(socket_inode)
                        .map(|inode| (inode, fd)),
                );
            }
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => refusal = Some(e),
            Err(_) => {} // closed in the meantime
        }
    }
    match refusal {
        Some(e) if sockets.is_empty() => Err(refuse(e)),
        _ => Ok(sockets),
    }
}

/// Returns the inode number in text of the form `socket:[12345]`.
fn socket_inode(link: &str) -> Option<u32> {
    let number = link.strip_prefix("socket:[")?.strip_suffix(']')?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inodes_are_read_from_links() {
        assert_eq!(socket_inode("socket:[4711]"), Some(4711));
        for link in [
            "pipe:[4711]",
            "socket:[]",
            "socket:[-1]",
            "/dev/null",
            "socket:[99999999999]",
        ] {
            assert_eq!(socket_inode(link), None, "{link}");
        }
    }

    #[test]
    fn a_process_that_is_not_there_is_gone() {
        let error = ProcessHandle::open(u32::MAX).expect_err("no such process");
        assert!(matches!(error, HostError::Gone { .. }), "{error}");
    }
}
