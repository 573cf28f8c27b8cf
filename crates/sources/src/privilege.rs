//! The requests that need a privilege, and nothing else.
//!
//! Each is small and typed, so that all of them could be served by a process
//! of their own while everything that parses runs without rights: enter a
//! network namespace and open a netlink socket or read a kernel setting there,
//! list another process's sockets, duplicate one of them. A refusal names what
//! would allow it.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::thread;

use lagtrace_core::event::Note;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};
use rustix::thread::LinkNameSpaceType;

use crate::netlink::{NetlinkProtocol, NetlinkSocket};

mod table;

pub use table::TableFamily;

/// A right that an observation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// To look into another user's process.
    SysPtrace,
    /// To enter another network namespace.
    SysAdmin,
    /// To read packet filter rules.
    NetAdmin,
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SysPtrace => "CAP_SYS_PTRACE",
            Self::SysAdmin => "CAP_SYS_ADMIN",
            Self::NetAdmin => "CAP_NET_ADMIN",
        })
    }
}

/// Why something about a host could not be observed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The kernel refuses it to this user.
    #[error("{operation} is not permitted: needs {needs}")]
    NotPermitted {
        /// What was tried, and on what.
        operation: String,
        /// What would allow it.
        needs: Capability,
    },
    /// The call failed.
    #[error("{operation} failed: {source}")]
    Failed {
        /// What was tried, and on what.
        operation: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// It was there and is no more, or another has taken its place.
    #[error("{what} is gone")]
    Gone {
        /// The process, socket or namespace.
        what: String,
    },
    /// The request itself would touch something that is not lagtrace's.
    #[error("{what} is no connection of lagtrace's own")]
    NotOurs {
        /// The flow asked for.
        what: String,
    },
}

impl HostError {
    /// The error of `operation`, told apart by its kind; `needs` is what a
    /// refusal lacks.
    pub(crate) fn new(operation: impl Into<String>, source: io::Error, needs: Capability) -> Self {
        let operation = operation.into();
        let errno = source.raw_os_error();
        if source.kind() == io::ErrorKind::PermissionDenied {
            Self::NotPermitted { operation, needs }
        } else if source.kind() == io::ErrorKind::NotFound || errno == Some(libc::ESRCH) {
            Self::Gone {
                what: format!("what {operation} is about"),
            }
        } else {
            Self::Failed { operation, source }
        }
    }

    /// The error of an `operation` that needs no privilege.
    pub(crate) fn failed(operation: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Failed {
            operation: operation.into(),
            source: source.into(),
        }
    }

    /// The remark that says so in a report, and what it would have shown.
    pub fn note(&self, id: &str, unseen: &str) -> Note {
        Note {
            id: id.to_owned(),
            text: format!("Not measured: {unseen}. {self}."),
        }
    }
}

/// A network namespace, held open so that it cannot be confused with a later
/// one while this value lives.
#[derive(Debug)]
pub struct NetworkNamespace {
    id: u64,
    is_own: bool,
    file: OwnedFd,
}

impl NetworkNamespace {
    /// The calling thread's namespace.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub fn own() -> Result<Self, HostError> {
        Self::open("/proc/thread-self/ns/net".to_owned(), None)
    }

    /// The namespace of process `pid`.
    ///
    /// # Errors
    /// It is another user's process and `CAP_SYS_PTRACE` is missing, or it ended.
    pub fn of(pid: u32) -> Result<Self, HostError> {
        let own = Self::own()?;
        Self::open(format!("/proc/{pid}/ns/net"), Some(own.id))
    }

    fn open(path: String, own: Option<u64>) -> Result<Self, HostError> {
        let refuse = |e| HostError::new(format!("opening {path}"), e, Capability::SysPtrace);
        let file = File::open(&path).map_err(refuse)?;
        let id = file.metadata().map_err(refuse)?.ino();
        Ok(Self {
            id,
            is_own: own.is_none_or(|own| own == id),
            file: file.into(),
        })
    }

    /// The namespace's inode number, as `ip netns identify` and `lsns` know it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Whether it is the namespace of the thread that asked for it.
    pub fn is_own(&self) -> bool {
        self.is_own
    }

    /// Opens a netlink socket that sees this namespace.
    ///
    /// # Errors
    /// Another namespace needs `CAP_SYS_ADMIN`.
    pub fn netlink(&self, protocol: NetlinkProtocol) -> Result<NetlinkSocket, HostError> {
        self.enter("opening a netlink socket", move || {
            NetlinkSocket::open(protocol)
        })
    }

    /// Reads a number from `/proc/sys/` as it stands in this namespace, the
    /// first where a setting holds several.
    ///
    /// # Errors
    /// Another namespace needs `CAP_SYS_ADMIN`; the kernel may lack the setting.
    pub fn sysctl(&self, name: &str) -> Result<u64, HostError> {
        let path = format!("/proc/sys/{name}");
        self.enter(&format!("reading {path}"), move || {
            let text = read_bounded(&path, 64)?;
            let number = text.split_whitespace().next().unwrap_or_default();
            number
                .parse()
                .map_err(|_| io::ErrorKind::InvalidData.into())
        })
    }

    /// Reads `name` of `/proc/net/` as it stands in this namespace.
    ///
    /// # Errors
    /// Another namespace needs `CAP_SYS_ADMIN`; the kernel may lack the file.
    pub fn proc_net(&self, name: &str, most_bytes: u64) -> Result<String, HostError> {
        let path = format!("/proc/thread-self/net/{name}");
        self.enter(&format!("reading /proc/net/{name}"), move || {
            read_bounded(&path, most_bytes)
        })
    }

    /// Reads a packet filter table of iptables' older form: its
    /// `struct ipt_getinfo` (or the IPv6 one) and its entries.
    ///
    /// # Errors
    /// `CAP_NET_ADMIN` is missing, another namespace needs `CAP_SYS_ADMIN`.
    pub fn filter_table(
        &self,
        family: TableFamily,
        name: &str,
    ) -> Result<(Vec<u8>, Vec<u8>), HostError> {
        let table = name.to_owned();
        self.enter(&format!("reading the iptables table {name}"), move || {
            table::read(family, &table)
        })
    }

    /// Runs `request` in this namespace: here, or in a short-lived thread that
    /// entered it. Nothing else of that thread survives.
    fn enter<T: Send + 'static>(
        &self,
        operation: &str,
        request: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, HostError> {
        let outcome = if self.is_own {
            request()
        } else {
            self.file.try_clone().and_then(|namespace| {
                let visit = move || {
                    rustix::thread::move_into_link_name_space(
                        namespace.as_fd(),
                        Some(LinkNameSpaceType::Network),
                    )?;
                    request()
                };
                let thread = thread::Builder::new().name("namespace".to_owned());
                thread.spawn(visit)?.join().unwrap_or_else(|_| {
                    Err(io::Error::other("the thread in the namespace panicked"))
                })
            })
        };
        // At home only packet filters are refused.
        let (place, needs) = if self.is_own {
            (operation.to_owned(), Capability::NetAdmin)
        } else {
            let place = format!("{operation} in network namespace {}", self.id);
            (place, Capability::SysAdmin)
        };
        outcome.map_err(|e| HostError::new(place, e, needs))
    }
}

/// Another process, held by a descriptor so that its number cannot come to
/// mean a later process.
#[derive(Debug)]
pub struct ProcessHandle {
    pid: u32,
    pidfd: OwnedFd,
}

impl ProcessHandle {
    /// Holds process `pid`.
    ///
    /// # Errors
    /// It ended.
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

    /// The process's number in our pid namespace.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// A duplicate of the process's descriptor `fd`. It refers to the same
    /// socket: while it is held, a `close` over there ends nothing. Drop it at once.
    ///
    /// # Errors
    /// `CAP_SYS_PTRACE` is missing, or the process closed `fd`.
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

/// The sockets that process `pid` holds, as `(inode, descriptor)`, at most
/// `most` descriptors looked at.
///
/// # Errors
/// It is another user's process and `CAP_SYS_PTRACE` is missing, or it ended.
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
            Err(_) => {} // closed meanwhile
        }
    }
    match refusal {
        Some(e) if sockets.is_empty() => Err(refuse(e)),
        _ => Ok(sockets),
    }
}

/// The inode in `socket:[12345]`.
fn socket_inode(link: &str) -> Option<u32> {
    let number = link.strip_prefix("socket:[")?.strip_suffix(']')?;
    number.parse().ok()
}

/// The inode of process `pid`'s network namespace, without opening it.
///
/// # Errors
/// It is another user's process and `CAP_SYS_PTRACE` is missing, or it ended.
pub fn namespace_id(pid: u32) -> Result<u64, HostError> {
    let path = format!("/proc/{pid}/ns/net");
    fs::metadata(&path)
        .map(|namespace| namespace.ino())
        .map_err(|e| HostError::new(format!("reading {path}"), e, Capability::SysPtrace))
}

/// A file's text, at most `most` bytes of it, with what is no UTF-8 replaced.
pub(crate) fn read_bounded(path: &str, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
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
    fn our_own_namespace_needs_no_privilege() {
        let namespace = NetworkNamespace::of(std::process::id()).expect("our own");
        assert!(namespace.is_own());
        assert_eq!(
            namespace.id(),
            namespace_id(std::process::id()).expect("our own")
        );
        namespace.netlink(NetlinkProtocol::SockDiag).expect("ours");
        assert!(namespace.sysctl("net/core/somaxconn").expect("exists") > 0);
        assert!(namespace.sysctl("net/core/no-such").is_err());
    }

    #[test]
    fn a_process_that_is_not_there_is_gone() {
        let error = ProcessHandle::open(u32::MAX).expect_err("no such process");
        assert!(matches!(error, HostError::Gone { .. }), "{error}");
    }
}
