//! The messages between the two halves: requests of the half that reads, and the answers of the
//! privileged half ([`Programs`](super::Programs)).
//!
//! A request names no file. It says what to observe, and nothing of how. Written by `postcard`, a
//! valid request has less than 16 KiB, and an answer less than 32 KiB.

use std::os::fd::OwnedFd;

use lagtrace_core::observed::syscall::CallTally;
use serde::{Deserialize, Serialize};

use super::KernelError;
use super::hooks::Hooks;

/// `LATENCY_SLOTS` of `bpf/watch.h`.
#[cfg(feature = "live")]
pub(super) const LATENCY_SLOTS: u32 = 320;

/// A request to the privileged half.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Request {
    /// Loads and attaches the programs of a watch. Answered by [`Reply::Watching`], with the
    /// descriptor of the ring.
    StartWatch(WatchRequest),
    /// Changes the sample of a watch.
    Sample(Sample),
    /// Detaches the programs of a watch, and makes them report the exchanges that are still open.
    /// The counts stay.
    DetachWatch,
    /// Asks for the counts of a watch. Answered by [`Reply::WatchCounts`].
    CountWatch,
    /// Removes the programs of a watch and their counts.
    EndWatch,
    /// Loads and attaches the programs that report system calls. Answered by [`Reply::Tracing`],
    /// with the descriptor of the ring.
    StartCalls(CallsRequest),
    /// Detaches the programs that report system calls. The counts stay.
    DetachCalls,
    /// Asks for the counts of system calls. Answered by [`Reply::CallCounts`].
    CountCalls,
    /// Removes the programs that report system calls and their counts.
    EndCalls,
}

/// The connections to watch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchRequest {
    /// Local ports of services, at most [`MAX_PORTS`](super::MAX_PORTS); if empty, all ports that
    /// the selected processes use.
    pub ports: Vec<u16>,
    /// The process whose connections are watched.
    pub pid: Option<u32>,
    /// Number of the cgroup (version 2) whose connections are watched.
    pub cgroup: Option<u64>,
    /// Inode of the network namespace whose connections are watched.
    pub namespace: Option<u32>,
    /// True if the first bytes of requests and responses are reported.
    pub keeps_payload: bool,
    /// Minimum duration in ns of exchanges that are reported even outside of the sample.
    pub slow_from: Option<u64>,
    /// Programs that are not used.
    pub without: Hooks,
}

/// The sample of connections that is observed in detail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// A connection is in the sample if its hash has none of these bits.
    pub mask: u32,
    /// Number of the sampling period; 0: there is none now.
    pub look: u32,
    /// True if there are no pauses between sampling periods.
    pub is_whole: bool,
}

/// The choice of the system calls to report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallsRequest {
    /// Ports of the sockets, at most [`MAX_PORTS`](super::MAX_PORTS); if empty, all ports.
    pub ports: Vec<u16>,
    /// The calling processes, at most [`MAX_PIDS`](super::MAX_PIDS); if empty, all processes.
    pub pids: Vec<u32>,
    /// Numbers of the calling processes' cgroups (version 2), at most
    /// [`MAX_GROUPS`](super::MAX_GROUPS); if empty, all cgroups.
    pub groups: Vec<u64>,
    /// True to report accepted connections too.
    pub has_accepts: bool,
}

/// An answer of the privileged half.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Reply {
    /// The programs of a watch are attached.
    Watching {
        /// The optional programs that are missing.
        lacking: Hooks,
        /// Size of the ring of records, in bytes.
        size: u32,
    },
    /// The programs that report system calls are attached.
    Tracing {
        /// Size of the ring of records, in bytes.
        size: u32,
    },
    /// The counts of a watch.
    WatchCounts(WatchCounts),
    /// The counts of system calls.
    CallCounts(CallTally),
    /// The request was carried out.
    Done,
}

/// The counts of a watch, summed over all processors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchCounts {
    /// Number of exchanges by duration, one number for each slot of `bpf/watch.h`.
    pub latencies: Vec<u64>,
    /// Number of connections seen.
    pub connections: u64,
    /// Number of connections not followed because a table was full.
    pub lost_connections: u64,
    /// Number of records lost because the ring was full.
    pub lost_records: u64,
    /// Number of segments with requests of HTTP/2 connections, and number of these in the sample.
    pub frames: [u64; 2],
    /// Number of TLS handshakes that a request followed.
    pub tls_handshakes: u64,
    /// Run time of the programs in ns, if the kernel counts it.
    pub cost: Option<u64>,
    /// Packets of the watched ports that this host dropped, by the kernel's drop reason.
    pub drops: Vec<(String, u64)>,
}

/// The privileged half's answer, and at most one descriptor: that of a ring.
pub type Answer = Result<(Reply, Vec<OwnedFd>), KernelError>;

/// The way to the privileged half, which may be in this process or in another one.
pub trait Ask {
    /// Passes a request to the privileged half and waits for the answer.
    ///
    /// # Errors
    /// Returns the error of the privileged half, or [`KernelError::Unanswered`] if it cannot be
    /// reached.
    fn ask(&mut self, request: Request) -> Answer;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{MAX_GROUPS, MAX_PIDS, MAX_PORTS};
    use super::*;

    fn size(message: &impl Serialize) -> usize {
        postcard::to_stdvec(message).expect("a message").len()
    }

    #[test]
    fn the_longest_messages_are_short() {
        let longest = Request::StartCalls(CallsRequest {
            ports: vec![u16::MAX; MAX_PORTS],
            pids: vec![u32::MAX; MAX_PIDS],
            groups: vec![u64::MAX; MAX_GROUPS],
            has_accepts: true,
        });
        assert!(size(&longest) < 16 * 1024);
        let longest = Reply::WatchCounts(WatchCounts {
            latencies: vec![u64::MAX; 320],
            // The map has room for so many reasons. Few names have half as many letters.
            drops: vec![("R".repeat(64), u64::MAX); 256],
            ..WatchCounts::default()
        });
        assert!(size(&longest) < 32 * 1024);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_none(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(request) = postcard::from_bytes::<Request>(&bytes) {
                let written = postcard::to_stdvec(&request).expect("a request");
                prop_assert_eq!(postcard::from_bytes::<Request>(&written).ok(), Some(request));
            }
        }
    }
}
