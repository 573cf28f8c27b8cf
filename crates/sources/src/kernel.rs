//! Requests of live services, and calls on sockets, as the kernel sees them.
//!
//! Programs in the kernel (eBPF, `bpf/watch.bpf.c`), attached to stable
//! tracepoints, time every turn of the connections that are watched and hand
//! up the segments and turns of a sample. Nothing is changed by them, and they
//! go with the process that attached them, however it ends. Needs a kernel
//! that describes its types (BTF, from 5.11 on) and CAP_BPF with CAP_PERFMON.
//!
//! Others (`bpf/options.bpf.c`) hand up the system calls that set up sockets
//! ([`Calls`]); to find their tracepoints takes CAP_SYS_ADMIN too. What a
//! program asks for by io_uring is no system call of its own and is not seen,
//! nor are the calls of 32-bit programs on a 64-bit kernel.

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

/// Ports that may be asked for at once.
pub const MAX_PORTS: usize = 16;
/// Processes that may be asked for at once.
pub(crate) const MAX_PIDS: usize = 1024;

/// What to watch.
#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    /// Local ports of services; empty: whatever the processes below use.
    pub ports: Vec<u16>,
    /// Only connections that this process reads or writes.
    pub pid: Option<u32>,
    /// Only connections that processes of this cgroup (version 2) read or
    /// write; as a path below its mount, `/system.slice/nginx.service`.
    pub cgroup: Option<PathBuf>,
    /// Only connections of the network namespace with this inode: equal
    /// addresses in others are other services.
    pub namespace: Option<u64>,
    /// Whether the first bytes of requests and responses are handed up, so
    /// that HTTP can be read: at most 64 and 16 of them.
    pub keeps_payload: bool,
    /// Turns that took this long are handed up, sampled or not.
    pub slow_from: Option<Duration>,
    /// Tracepoints to do without, as on kernels that do not have them.
    pub without: Vec<String>,
}

/// One observation.
#[derive(Debug)]
pub enum Sighting<'a> {
    /// A segment at the border of this host's network stack, with the first
    /// bytes of its payload.
    Packet(&'a Packet<'a>),
    /// A turn that is over.
    Turn(&'a RequestSpan),
}

/// Whose calls on which sockets are told.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    /// Sockets, and those who call: what a survey would look at. Paths of Unix
    /// sockets are not known here.
    pub choice: Choice,
    /// Sockets of any kind, whatever the choice says of protocols.
    pub is_any_kind: bool,
}

/// What is told so far.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// For the report.
    pub tally: WatchTally,
    /// Observations handed up.
    pub records: u64,
}

/// Why the kernel cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The kernel refuses it to this user.
    #[error("watching the kernel is not permitted")]
    NotPermitted(#[source] io::Error),
    /// No description of the kernel's types.
    #[error("this kernel does not describe its types (no {})", .0.display())]
    NoTypes(PathBuf),
    /// The kernel took none of the programs that matter.
    #[error("the kernel did not accept {program}")]
    Refused {
        /// The program, or what of it.
        program: String,
        /// The kernel's answer.
        #[source]
        source: io::Error,
    },
    /// Nothing to go by.
    #[error("neither a port nor a process was given")]
    NothingAsked,
    /// More ports than there is room for.
    #[error("{0} ports at once; at most {MAX_PORTS}")]
    TooManyPorts(usize),
    /// The cgroup is not there.
    #[error("no cgroup {} (version 2)", .path.display())]
    NoCgroup {
        /// As it was asked for.
        path: PathBuf,
    },
    /// The process is not there.
    #[error("no process {0}")]
    NoProcess(u32),
    /// More processes than there is room for.
    #[error("{0} processes at once; at most {MAX_PIDS}")]
    TooManyProcesses(usize),
    /// The list of tracepoints is not for this user.
    #[error("reading the kernel's list of tracepoints is not permitted")]
    TracepointsNotPermitted(#[source] io::Error),
    /// The kernel does not have them.
    #[error("this kernel has no tracepoints of system calls")]
    NoTracepoints(#[source] io::Error),
    /// Built without it.
    #[error("this build cannot watch the kernel: it was made without the feature `live`")]
    LeftOut,
}

impl KernelError {
    /// What to do about it.
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
