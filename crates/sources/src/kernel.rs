//! Requests of live services, and calls on sockets, as the kernel sees them.
//!
//! eBPF programs (`bpf/watch.bpf.c`) attached to stable tracepoints time every turn of the watched
//! connections, and report the segments and turns of a sample. The programs change nothing, and are
//! removed with the process that attached them, however that process ends. Watching needs a kernel
//! with type information (BTF, since 5.11) and CAP_BPF with CAP_PERFMON.
//!
//! Other programs (`bpf/options.bpf.c`) report the system calls that set up sockets ([`Calls`]);
//! finding the tracepoints of these calls also needs CAP_SYS_ADMIN. Operations through io_uring are
//! not system calls and are not seen; nor are the calls of 32-bit programs on a 64-bit kernel.

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

/// Maximum number of ports that can be watched in parallel.
pub const MAX_PORTS: usize = 16;
/// Maximum number of processes that can be selected.
pub(crate) const MAX_PIDS: usize = 1024;

/// The choice of the connections to watch and of the data to report about them.
#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    /// Local ports of services; if empty, all ports that the processes below use.
    pub ports: Vec<u16>,
    /// The process whose connections are watched, which are the connections that it reads or
    /// writes.
    pub pid: Option<u32>,
    /// The cgroup (version 2) whose connections are watched, which are the connections that its
    /// processes read or write. The path is relative to the cgroup mount, for example
    /// `/system.slice/nginx.service`.
    pub cgroup: Option<PathBuf>,
    /// Inode of the network namespace whose connections are watched; equal addresses in other
    /// namespaces belong to other services.
    pub namespace: Option<u64>,
    /// True if the first bytes of requests (up to 64) and responses (up to 16) are reported, so
    /// that HTTP can be parsed.
    pub keeps_payload: bool,
    /// Minimum length of a turn that is reported whether it is in the sample or not.
    pub slow_from: Option<Duration>,
    /// Tracepoints that are not used, to behave as on kernels that lack them.
    pub without: Vec<String>,
}

/// An observation.
#[derive(Debug)]
pub enum Sighting<'a> {
    /// A segment at the border of this host's network stack, with the first
    /// bytes of its payload.
    Packet(&'a Packet<'a>),
    /// A completed turn.
    Turn(&'a RequestSpan),
}

/// The choice of the processes and sockets whose calls are reported.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    /// The sockets and the calling processes, chosen as for a survey. The paths of Unix sockets are
    /// not known here.
    pub choice: Choice,
    /// True to include sockets of any kind, even if the choice names protocols.
    pub is_any_kind: bool,
    /// True to report accepted connections too, with the options that they have from their
    /// listener.
    pub has_accepts: bool,
}

/// The state of a watch at one time.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// The tally for the report.
    pub tally: WatchTally,
    /// Number of observations reported by the programs.
    pub records: u64,
}

/// A reason why the kernel cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The kernel does not allow this user to watch.
    #[error("watching the kernel is not permitted")]
    NotPermitted(#[source] io::Error),
    /// The kernel provides no type information (BTF).
    #[error("this kernel has no type information (no {})", .0.display())]
    NoTypes(PathBuf),
    /// The kernel rejected all of the programs that are needed.
    #[error("the kernel did not accept {program}")]
    Refused {
        /// The program that was rejected, or the part of the program.
        program: String,
        /// The error from the kernel.
        #[source]
        source: io::Error,
    },
    /// Neither a port nor a process is given.
    #[error("neither a port nor a process was given")]
    NothingAsked,
    /// More ports than the maximum.
    #[error("{0} ports are too many; at most {MAX_PORTS}")]
    TooManyPorts(usize),
    /// The cgroup does not exist.
    #[error("no cgroup {} (version 2)", .path.display())]
    NoCgroup {
        /// The requested path.
        path: PathBuf,
    },
    /// The process does not exist.
    #[error("no process {0}")]
    NoProcess(u32),
    /// More processes than the maximum.
    #[error("{0} processes are too many; at most {MAX_PIDS}")]
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
                "this needs a kernel 5.11 or later with CONFIG_DEBUG_INFO_BTF; `lagtrace capture` \
                 works without it"
            }
            Self::Refused { .. } => "`lagtrace capture` works without it",
            Self::NothingAsked => "say what to watch: -p PORT, --pid PID or --cgroup PATH",
            Self::TooManyPorts(_) => "watch by --pid instead",
            Self::TooManyProcesses(_) => "select them with --name or --cgroup instead",
            Self::TracepointsNotPermitted(_) => {
                "run it as root, or give it CAP_SYS_ADMIN in addition to CAP_BPF and CAP_PERFMON: \
                 setcap cap_bpf,cap_perfmon,cap_sys_admin+ep lagtrace"
            }
            Self::NoTracepoints(_) => {
                "this needs a kernel with CONFIG_FTRACE_SYSCALLS; `lagtrace sockets -f` shows the \
                 current options without it"
            }
            Self::NoProcess(_) => "use the PID in this host's own namespace, from `pgrep NAME`",
            Self::NoCgroup { .. } => "a path as in /proc/PID/cgroup after `0::`",
            Self::LeftOut => "build it with --features live",
        };
        Some(text.to_owned())
    }
}
