//! Observation of live services' requests, and of system calls on sockets, by eBPF programs.
//!
//! The programs in `bpf/watch.bpf.c` are attached to stable tracepoints. They time every exchange
//! (a request with its answer) of the watched connections, and report the segments and exchanges of
//! a sample. In names, an exchange is called a turn. The programs change nothing. They are removed
//! when the process that attached them ends, even if it crashes. Watching needs a kernel with type
//! information (BTF, since 5.11) and the capabilities CAP_BPF and CAP_PERFMON.
//!
//! The programs in `bpf/options.bpf.c` report the system calls that set up sockets ([`Calls`]).
//! The programs also need CAP_DAC_READ_SEARCH, to read in tracefs the numbers of the tracepoints of
//! these calls, and CAP_SYS_ADMIN if tracefs is not mounted. Two kinds of operations are not seen:
//! those through io_uring, which are not system calls, and the calls of 32-bit programs on a 64-bit
//! kernel.

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

/// Maximum number of ports that can be watched at the same time.
pub const MAX_PORTS: usize = 16;
/// Maximum number of processes that can be selected.
pub(crate) const MAX_PIDS: usize = 1024;

/// The connections to watch, and the data to report about them.
#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    /// Local ports of services; if empty, all ports that the selected processes use.
    pub ports: Vec<u16>,
    /// The process whose connections are watched. A connection belongs to the process that reads or
    /// writes it.
    pub pid: Option<u32>,
    /// The cgroup (version 2) whose connections are watched. A connection belongs to the cgroup of
    /// the process that reads or writes it. The path is relative to the cgroup mount, for example
    /// `/system.slice/nginx.service`.
    pub cgroup: Option<PathBuf>,
    /// Inode of the network namespace whose connections are watched. Equal addresses in other
    /// namespaces belong to other services.
    pub namespace: Option<u64>,
    /// True if the first bytes of requests (up to 64) and responses (up to 16) are reported, to
    /// parse HTTP.
    pub keeps_payload: bool,
    /// Minimum duration of exchanges that are reported even outside of the sample.
    pub slow_from: Option<Duration>,
    /// Tracepoints that are not used, to simulate a kernel without them.
    pub without: Vec<String>,
}

/// An observation.
#[derive(Debug)]
pub enum Sighting<'a> {
    /// A segment at the edge of this host's network stack, with the first bytes of its payload.
    Packet(&'a Packet<'a>),
    /// A completed exchange.
    Turn(&'a RequestSpan),
}

/// The choice of the processes and sockets whose calls are reported.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    /// The sockets and the calling processes, chosen as for a survey. Unix sockets cannot be chosen
    /// by path here.
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
    /// The counts for the report.
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
    /// The kernel rejected the programs that are needed.
    #[error("the kernel did not accept {program}")]
    Refused {
        /// The rejected program, or its rejected part.
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
    /// The kernel restricts performance events, to which programs on tracepoints are attached.
    #[error("kernel.perf_event_paranoid = {level} does not permit programs on tracepoints")]
    EventsRestricted {
        /// The value of the kernel's setting.
        level: u32,
        /// The error from the kernel.
        #[source]
        source: io::Error,
    },
    /// The kernel has no tracepoints for system calls.
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
                "run it as root, or give it CAP_BPF, CAP_PERFMON and CAP_DAC_READ_SEARCH (the files \
                 of tracefs are root's), and CAP_SYS_ADMIN if tracefs is not mounted: setcap \
                 cap_bpf,cap_perfmon,cap_dac_read_search+ep lagtrace"
            }
            Self::EventsRestricted { .. } => {
                "run it as root, or give it CAP_SYS_ADMIN in addition to CAP_BPF and CAP_PERFMON \
                 (with this value, Debian's and Ubuntu's kernels require it), or allow it until the \
                 next boot: sysctl kernel.perf_event_paranoid=2"
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
