//! The messages between the worker and its keeper. The worker asks for one operation at a time, and
//! the keeper answers each request. The operations are fixed; their parameters are small.

use std::fmt;
use std::io;
use std::net::TcpStream;
use std::path::PathBuf;

use lagtrace_core::observed::event::Note;
use lagtrace_core::observed::flow::Endpoint;
use lagtrace_core::observed::sockets::LiveOptions;
use serde::{Deserialize, Serialize};

use super::table::{FilterObject, FilterTable, TableFamily};
use super::{Capability, HostError};
use crate::netlink::NetlinkProtocol;

/// An operation that the worker asks its keeper to perform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Answer the worker's calls that open raw sockets. The descriptor goes with the request.
    Answer,
    /// Open the network namespace of a process.
    NamespaceOf(u32),
    /// Open the network namespace with an `ip netns` name, or at a path.
    NamespaceAt(String),
    /// Return the inode number of a process's network namespace.
    NamespaceId(u32),
    /// Open a netlink socket in an opened namespace.
    Netlink {
        /// Inode number of the namespace.
        namespace: u64,
        /// The protocol.
        protocol: NetlinkProtocol,
    },
    /// Open a file of the kernel in an opened namespace.
    KernelFile {
        /// Inode number of the namespace.
        namespace: u64,
        /// The file.
        file: KernelFile,
    },
    /// Read a table of legacy iptables in an opened namespace.
    FilterTable {
        /// Inode number of the namespace.
        namespace: u64,
        /// The address family.
        family: TableFamily,
        /// The table.
        table: FilterTable,
    },
    /// Read all nftables objects of a kind in an opened namespace.
    FilterObjects {
        /// Inode number of the namespace.
        namespace: u64,
        /// The kind of the objects.
        kind: FilterObject,
    },
    /// List the sockets of a process.
    Sockets {
        /// The process.
        pid: u32,
        /// Maximum number of descriptors that are examined.
        most: usize,
    },
    /// Read the options of sockets that processes hold.
    Options(Vec<HeldSocket>),
    /// Return the processes that serve the target. The next five requests are answered for them
    /// alone.
    Serving(Box<Served>),
    /// Return the target of a link of a process below `/proc`.
    Link(u32, ProcessLink),
    /// Return a file of a process below `/proc`.
    ProcFile(u32, ProcFile),
    /// Open the program of a process for reading.
    Program(u32),
    /// Open a process's root directory; the number is 1 if it is only assumed to be lagtrace's own.
    Root(u32),
    /// Open a regular file or a folder below a process's root for reading.
    File {
        /// The process whose root it is.
        pid: u32,
        /// The path, resolved within that root.
        path: PathBuf,
        /// True for a folder.
        is_folder: bool,
    },
    /// Switch `TCP_NODELAY` on at the far end of one of the worker's own connections.
    SwitchOn(Box<FarEnd>),
    /// Return whether `TCP_NODELAY` is on at the far end that was switched on under this number.
    IsOn(u32),
    /// Restore the option that was switched on under this number.
    Restore(u32),
    /// Open a file that the command line names, for reading.
    Input(PathBuf),
    /// Return the kind of a file that the command line names.
    Kind(PathBuf),
    /// Open an output that the command line names.
    Output(PathBuf, Purpose),
    /// Return an error if such an output could not be opened.
    CheckOutput(PathBuf, Purpose),
    /// Empty the old file of an output, because its first bytes follow.
    BeginOutput(u32),
    /// Give an output its name, because it is whole.
    CommitOutput(u32),
    /// Forget an output, because it is not wanted any more.
    DropOutput(u32),
    /// Connect to the Unix socket that the command line names.
    ConnectUnix,
    /// Create the private file of a page.
    Page,
    /// Keep this file: the page is whole.
    KeepPage,
    /// Listen at the address at which the command line has the page served; once.
    Listen,
    /// Show the page in the user's browser: the file, or the URL of the worker's own server.
    Show(Option<String>),
    /// Perform an operation on eBPF programs, in the encoding of the module `kernel`.
    Kernel(Vec<u8>),
}

impl Request {
    /// Returns true if the request concerns files that the user has named.
    pub(crate) fn is_of_users_files(&self) -> bool {
        matches!(
            self,
            Self::Input(_)
                | Self::Kind(_)
                | Self::Output(..)
                | Self::CheckOutput(..)
                | Self::BeginOutput(_)
                | Self::CommitOutput(_)
                | Self::DropOutput(_)
                | Self::ConnectUnix
        )
    }
}

/// The purpose of an output, which decides how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// A result. Its file appears when it is whole, so that a run that fails or is killed leaves
    /// the old file as it was.
    Result,
    /// Data that others read while it is written, such as a capture that Wireshark or `tail`
    /// follows. They would follow a file without a name in vain, so it is written in place. An old
    /// file is emptied by the first byte that is written, not before.
    Stream,
    /// A result without secrets, which everyone may read: a manual page.
    Public,
}

/// A file that shows a network namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum KernelFile {
    /// A setting: the path below `/proc/sys/`.
    Setting(String),
    /// The list of the existing tables of legacy iptables.
    TableNames(TableFamily),
}

impl KernelFile {
    /// Returns the path, for a thread in the namespace.
    pub(crate) fn path(&self) -> String {
        match self {
            Self::Setting(name) => format!("/proc/sys/{name}"),
            Self::TableNames(family) => family.names_path(),
        }
    }

    /// Returns the path as users know it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Setting(name) => format!("/proc/sys/{name}"),
            Self::TableNames(family) => format!("/proc/net/{}", family.names_file()),
        }
    }
}

/// A file of a process whose content depends on the privileges of its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ProcFile {
    /// `stat`: the addresses of the arguments and of the environment are hidden from others.
    Stat,
    /// `environ`. The keeper returns only the variables that configure a server.
    Environ,
}

impl ProcFile {
    /// Returns the file's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Stat => "stat",
            Self::Environ => "environ",
        }
    }
}

/// A link of a process below `/proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ProcessLink {
    /// The program.
    Exe,
    /// The working directory.
    Cwd,
    /// The root directory.
    Root,
    /// The network namespace.
    Net,
    /// The namespace of the host name.
    Uts,
    /// The namespace of the mounts.
    Mnt,
}

impl ProcessLink {
    /// Returns the path below `/proc/PID`.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Exe => "exe",
            Self::Cwd => "cwd",
            Self::Root => "root",
            Self::Net => "ns/net",
            Self::Uts => "ns/uts",
            Self::Mnt => "ns/mnt",
        }
    }
}

/// A connection of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OwnFlow {
    /// Local end of the connection.
    pub local: Endpoint,
    /// The target's end of the connection.
    pub remote: Endpoint,
}

impl OwnFlow {
    /// Returns the two ends of a connected stream; `None` if it is no longer connected.
    pub fn of(stream: &TcpStream) -> Option<Self> {
        Some(Self {
            local: Endpoint::from(stream.local_addr().ok()?),
            remote: Endpoint::from(stream.peer_addr().ok()?),
        })
    }
}

impl fmt::Display for OwnFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.local, self.remote)
    }
}

/// A socket that a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HeldSocket {
    /// The process.
    pub(crate) pid: u32,
    /// The number of its descriptor.
    pub(crate) fd: u32,
    /// The socket's cookie.
    pub(crate) cookie: u64,
}

/// The target on this host, as the worker found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Served {
    /// Inode number of the server's network namespace.
    pub(crate) namespace: u64,
    /// The target's address as the server sees it.
    pub(crate) endpoint: Endpoint,
    /// The worker's connection to the target, by which the server was found.
    pub(crate) flow: Option<OwnFlow>,
}

/// The far end of a connection of the worker, as the worker found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FarEnd {
    /// Inode number of the server's network namespace.
    pub(crate) namespace: u64,
    /// The target's address as the server sees it.
    pub(crate) endpoint: Endpoint,
    /// The worker's connection.
    pub(crate) flow: OwnFlow,
    /// The processes that are searched for the socket first.
    pub(crate) pids: Vec<u32>,
}

/// The keeper's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The operation was performed. Opened files and sockets come as descriptors.
    Done,
    /// A number.
    Number(u64),
    /// Bytes: a path, or a document.
    Bytes(Vec<u8>),
    /// Several pieces of bytes.
    Pieces(Vec<Vec<u8>>),
    /// Options of sockets; `None` if the descriptor refers to another socket now.
    Options(Vec<Result<Option<LiveOptions>, Refusal>>),
    /// Sockets, as `(inode, descriptor)`.
    Sockets(Vec<(u32, u32)>),
    /// Processes, with their names.
    Processes(Vec<(u32, String)>),
    /// A switched option: its number, whether it was on before, and notes for the report.
    Switched(u32, bool, Vec<Note>),
    /// An output: its number, and whether its first bytes must be announced.
    Output(u32, bool),
    /// Notes for the report.
    Notes(Vec<Note>),
    /// The operation failed.
    Refused(Refusal),
}

/// A [`HostError`], as it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// The kernel does not permit the operation, even to the keeper.
    NotPermitted(String, Capability),
    /// The operation failed with this `errno`.
    Failed(String, i32),
    /// The operation failed for another reason.
    Other(String, String),
    /// The object does not exist.
    Gone(String),
    /// The object does not belong to lagtrace.
    NotOurs(String),
}

impl From<HostError> for Refusal {
    fn from(error: HostError) -> Self {
        match error {
            HostError::NotPermitted { operation, needs } => Self::NotPermitted(operation, needs),
            HostError::Failed { operation, source } => match source.raw_os_error() {
                Some(errno) => Self::Failed(operation, errno),
                None => Self::Other(operation, source.to_string()),
            },
            HostError::Gone { what } => Self::Gone(what),
            HostError::NotOurs { what } => Self::NotOurs(what),
        }
    }
}

impl From<Refusal> for HostError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotPermitted(operation, needs) => Self::NotPermitted { operation, needs },
            Refusal::Other(operation, reason) => Self::Failed {
                operation,
                source: io::Error::other(reason),
            },
            Refusal::Failed(operation, errno) => Self::Failed {
                operation,
                source: io::Error::from_raw_os_error(errno),
            },
            Refusal::Gone(what) => Self::Gone { what },
            Refusal::NotOurs(what) => Self::NotOurs { what },
        }
    }
}
