//! Requests of live services, and calls on sockets, as the kernel sees them.
//!
//! Programs in the kernel (eBPF, `bpf/watch.bpf.c`), attached to stable
//! tracepoints, time every turn of the connections that are watched and hand up
//! the segments and turns of a sample. They change nothing, and are removed
//! with the process that attached them, however it ends. This needs a kernel
//! that describes its types (BTF, from 5.11 on) and CAP_BPF with CAP_PERFMON.
//!
//! Others (`bpf/options.bpf.c`) hand up the system calls that set up sockets
//! ([`Calls`]); finding their tracepoints needs CAP_SYS_ADMIN too. Operations
//! by io_uring are no system calls of their own and are not seen, nor are the
//! calls of 32-bit programs on a 64-bit kernel.

#[cfg(not(feature = "live"))]
#[path = "kernel/absent.rs"]
mod attached;
#[cfg(feature = "live")]
mod attached;
#[cfg(not(feature = "live"))]
#[path = "kernel/calls/absent.rs"]
mod calls;
#[cfg(feature = "live")]
mod calls;
#[cfg(feature = "live")]
mod meant;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use lagtrace_core::decode::Packet;
use lagtrace_core::observed::kernel_span::{RequestSpan, WatchTally};

pub use attached::Watch;
pub use calls::Calls;

use crate::socket::survey::Choice;

/// Maximum number of ports that can be watched at once.
pub const MAX_PORTS: usize = 16;
/// Maximum number of processes that can be chosen at once.
pub(crate) const MAX_PIDS: usize = 1024;

/// The choice of the connections to watch, and of what to report of them.
#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    /// Local ports of services; empty for whatever ports the processes below
    /// use.
    pub ports: Vec<u16>,
    /// The process whose connections are watched: those it reads or writes.
    pub pid: Option<u32>,
    /// The cgroup (version 2) whose connections are watched: those its
    /// processes read or write. A path below its mount,
    /// `/system.slice/nginx.service`.
    pub cgroup: Option<PathBuf>,
    /// Inode of the network namespace whose connections are watched: equal
    /// addresses in others are other services.
    pub namespace: Option<u64>,
    /// True if the first bytes of requests and responses are handed up, so that
    /// HTTP can be read: at most 64 and 16 of them.
    pub keeps_payload: bool,
    /// Length of a turn from which on it is handed up, sampled or not.
    pub slow_from: Option<Duration>,
    /// Tracepoints not to use, as on kernels that do not have them.
    pub without: Vec<String>,
}

/// An observation.
#[derive(Debug)]
pub enum Sighting<'a> {
    /// A segment at the border of this host's network stack, with the first
    /// bytes of its payload.
    Packet(&'a Packet<'a>),
    /// A turn that is over.
    Turn(&'a RequestSpan),
}

/// The choice of the processes and sockets whose calls are reported.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    /// The sockets and the calling processes, chosen as for a survey. Paths of
    /// Unix sockets are not known here.
    pub choice: Choice,
    /// True for sockets of any kind, whatever the choice says of protocols.
    pub is_any_kind: bool,
}

/// The state of a watch so far.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// The tally for the report.
    pub tally: WatchTally,
    /// Number of observations handed up.
    pub records: u64,
}

/// A reason why the kernel cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The kernel does not permit it to this user.
    #[error("watching the kernel is not permitted")]
    NotPermitted(#[source] io::Error),
    /// The kernel does not describe its types.
    #[error("this kernel does not describe its types (no {})", .0.display())]
    NoTypes(PathBuf),
    /// The kernel accepted none of the programs that matter.
    #[error("the kernel did not accept {program}")]
    Refused {
        /// The program, or the part of it that was refused.
        program: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// Neither a port nor a process is given.
    #[error("neither a port nor a process was given")]
    NothingAsked,
    /// More ports than there is room for.
    #[error("{0} ports at once; at most {MAX_PORTS}")]
    TooManyPorts(usize),
    /// The cgroup does not exist.
    #[error("no cgroup {} (version 2)", .path.display())]
    NoCgroup {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The process does not exist.
    #[error("no process {0}")]
    NoProcess(u32),
    /// More processes than there is room for.
    #[error("{0} processes at once; at most {MAX_PIDS}")]
    TooManyProcesses(usize),
    /// The user may not read the list of tracepoints.
    #[error("reading the kernel's list of tracepoints is not permitted")]
    TracepointsNotPermitted(#[source] io::Error),
    /// The kernel does not have tracepoints of system calls.
    #[error("this kernel has no tracepoints of system calls")]
    NoTracepoints(#[source] io::Error),
    /// The build lacks the feature `live`.
    #[error("this build cannot watch the kernel: it was made without the feature `live`")]
    LeftOut,
}

impl KernelError {
    /// Returns advice on how to resolve the error.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NotPermitted(_) => {
                "run it as root, or give it CAP_BPF and CAP_PERFMON (in containers the host's): \
                 setcap cap_bpf,cap_perfmon,cap_net_raw+ep lagtrace"
            }
            Self::NoTypes(_) => {
                "it takes a kernel from 5.11 on with CONFIG_DEBUG_INFO_BTF; `lagtrace capture` \
                 works without it"
            }
            Self::Refused { .. } => "`lagtrace capture` works without it",
            Self::NothingAsked => "say what to watch: -p PORT, --pid PID or --cgroup PATH",
            Self::TooManyPorts(_) => "watch by --pid instead",
            Self::TooManyProcesses(_) => "choose them by --name or --cgroup instead",
            Self::TracepointsNotPermitted(_) => {
                "run it as root, or give it CAP_SYS_ADMIN beside CAP_BPF and CAP_PERFMON: \
                 setcap cap_bpf,cap_perfmon,cap_sys_admin+ep lagtrace"
            }
            Self::NoTracepoints(_) => {
                "it takes a kernel with CONFIG_FTRACE_SYSCALLS; `lagtrace sockets -f` shows the \
                 options as they stand without it"
            }
            Self::NoProcess(_) => "its number in this host's own namespace: `pgrep NAME` there",
            Self::NoCgroup { .. } => "a path as in /proc/PID/cgroup after `0::`",
            Self::LeftOut => "build it with --features live",
        };
        Some(text.to_owned())
    }
}
