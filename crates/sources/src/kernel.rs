//! Observation of live services' requests, and of system calls on sockets, by eBPF programs.
//!
//! The work is divided in two halves, which may be in different processes. The *privileged half*
//! ([`Programs`]) loads and attaches the programs, and reads no record. The other half ([`Watch`],
//! [`Calls`]) needs no privilege: it asks the first one by way of [`Ask`], and reads the records
//! from the memory that the programs write.
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
mod error;
mod hooks;
#[cfg(feature = "live")]
mod kept;
#[cfg(feature = "live")]
mod meant;
#[cfg(not(feature = "live"))]
#[path = "kernel/programs/absent.rs"]
mod programs;
#[cfg(feature = "live")]
mod programs;
mod request;
#[cfg(feature = "live")]
mod ring;
#[cfg(feature = "live")]
mod seat;
mod served;

use std::path::PathBuf;
use std::time::Duration;

use lagtrace_core::decode::Packet;
use lagtrace_core::observed::kernel_span::{RequestSpan, WatchTally};
use lagtrace_core::observed::passage::BytePassage;

pub use attached::Watch;
pub use calls::Calls;
pub use error::KernelError;
pub use hooks::Hooks;
pub use programs::Programs;
pub use request::{Answer, Ask, CallsRequest, Reply, Request, Sample, WatchCounts, WatchRequest};
pub(crate) use served::{decode, serve};

use crate::socket::survey::Choice;

/// Maximum number of ports that can be watched at the same time.
pub const MAX_PORTS: usize = 16;
/// Maximum number of processes that can be selected.
pub const MAX_PIDS: usize = 1024;
/// Maximum number of cgroups that the kernel selects by.
pub const MAX_GROUPS: usize = 1024;

/// The connections to watch, and the data to report about them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// parse HTTP, and the segments of HTTP/2 in clear text, in which frames begin anywhere.
    pub keeps_payload: bool,
    /// Minimum duration of exchanges that are reported even outside of the sample.
    pub slow_from: Option<Duration>,
    /// Tracepoints that are not used, to simulate a kernel without them.
    pub without: Vec<String>,
}

/// An observation.
#[derive(Debug)]
pub enum Sighting<'a> {
    /// A segment at the edge of this host's network stack, with the first bytes of its payload; of
    /// HTTP/2 with all of them.
    Packet(&'a Packet<'a>),
    /// A completed exchange.
    Turn(&'a RequestSpan),
    /// Bytes of an HTTP/2 connection that passed through this host.
    Passage(&'a BytePassage),
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
