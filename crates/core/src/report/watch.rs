//! The kernel's view of a live service.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CountOf, Figures, Stage};
use crate::exchange::wait::WaitKind;

/// The results of watching the kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Watch {
    /// Latency of every turn of every watched connection: the time from the first byte that arrived
    /// to the last byte that TCP sent in reply. At most 12.5 % too high, because the kernel counts
    /// in steps.
    pub latency_ns: Figures,
    /// Number of connections seen.
    pub connections: u64,
    /// Share of the requests that were recorded one by one, 0 to 1.
    pub sampled_share: f64,
    /// Observations lost because a buffer was full: the report lacks these events.
    pub lost_records: u64,
    /// Connections not followed because a table was full.
    pub lost_connections: u64,
    /// Processor time that the eBPF programs used, where it was counted.
    pub cost_ns: Option<u64>,
    /// Throttling by the processor quotas of the programs' control groups; `None` where there are
    /// no quotas.
    pub throttling: Option<Throttled>,
    /// Processor time that the hypervisor gave to others, summed over all processors; `None` where
    /// it cannot be read.
    #[serde(default)]
    pub stolen_ns: Option<u64>,
    /// Packets of the watched ports that the host dropped, by the kernel's reason. Empty if only a
    /// process or a control group was specified.
    pub drops: Vec<Dropped>,
    /// The turns recorded one by one, grouped by the service's address.
    pub services: Vec<WatchedService>,
}

/// The turns of one service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchedService {
    /// The service's address.
    pub service: String,
    /// The programs that read the requests: `nginx[4711]`.
    pub programs: Vec<String>,
    /// Number of turns recorded one by one.
    pub turns: u64,
    /// Durations of the turns.
    pub latency_ns: Figures,
    /// The time of the turns by stage, over the turns whose stages are known:
    ///
    /// - `backlog`: before the network stack took up the packets
    /// - `stack`: in the stack, before TCP received them
    /// - `unread`: in the socket's queue
    /// - `wake-up`: the program's thread is runnable and its processor is leaving an idle state
    /// - `run-queue`: the thread is runnable and has no processor
    /// - `program`: from the first read to the last write
    /// - `waiting`: the thread sleeps between the first read and the last write
    /// - `held`: by Nagle's algorithm
    /// - `sending`: for windows, pacing and other limits
    /// - `qdisc`: in the queueing disciplines before the device, where that was observed
    pub stages: Vec<Stage>,
    /// Turns whose thread was observed. Without the thread, `wake-up` and `run-queue` count as
    /// `unread` or `program`, and `waiting` counts as `program`.
    pub threaded: u64,
    /// The upstream services that the threads called while answering the requests.
    pub asked: Vec<AskedService>,
    /// Number of times that Nagle's algorithm released data after something had arrived, out of all
    /// times that it held data back.
    pub released_by_arrival: CountOf,
    /// The requests that were measured by the kernel and also by another source, joined; `None`
    /// where there was no other source, or no request could be matched.
    #[serde(default)]
    pub joined: Option<JoinedTurns>,
}

/// Requests that another source measured too, joined to the kernel's turns by connection and time.
/// The other source is packets (captured, or seen by the kernel at the edge of its network stack)
/// or the sender's own timestamps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JoinedTurns {
    /// Requests joined, out of those that the other source measured while the kernel was watched.
    pub exchanges: CountOf,
    /// The server's own time by packets, split by the kernel's stages.
    pub waits: Vec<WaitSplit>,
    /// Requests for which packets show more server time than the host took in total, by more than
    /// the error of both. The difference passed between the host and the capture point.
    pub beyond: Disagreement,
    /// Requests for which the host took longer than packets allow: the path's share is
    /// overestimated.
    pub within: Disagreement,
}

/// A kind of wait that packets assign to the server, and the turns of the requests in which this
/// wait took a millisecond or more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitSplit {
    /// The kind of wait.
    pub wait: WaitKind,
    /// Duration by packets.
    pub packets_ns: Figures,
    /// Duration at the host. For waits before the response: from the complete request to the
    /// response's first byte. For waits within the response: from its first byte to its last.
    pub host_ns: Figures,
    /// The time of the whole turns by stage, as in `WatchedService`.
    pub stages: Vec<Stage>,
}

/// A disagreement between two views of the same requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disagreement {
    /// Requests that disagree, of those that were joined.
    pub exchanges: CountOf,
    /// The size of the disagreement.
    pub time_ns: Figures,
}

/// An upstream service that was called while a request was being answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AskedService {
    /// The service's address; `None` for a Unix socket, and for services without a single address.
    pub service: Option<String>,
    /// Time that the thread waited for the upstream per request, over the requests known to have
    /// called it.
    pub time_ns: Figures,
    /// Number of calls in all of these requests.
    #[serde(default)]
    pub calls: u64,
    /// Number of connections that were made for these requests.
    #[serde(default)]
    pub connections: u64,
    /// Mean of the smallest round trips that the sockets of these calls had measured: at most that is
    /// the way to the service and back. 0 if none was.
    #[serde(default)]
    pub way_ns: u64,
    /// Total of the times for which SYNs or datagrams to the service got no answer.
    #[serde(default)]
    pub silent_ns: u64,
}

/// Throttling of control groups whose quota of processor time was used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Throttled {
    /// Number of periods throttled.
    pub periods: u64,
    /// Time throttled, summed over processors.
    pub time_ns: u64,
}

/// Packets that a host dropped for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dropped {
    /// The kernel's reason: `SOCKET_RCVBUFF`, `NETFILTER_DROP`, …
    /// (`include/net/dropreason-core.h`).
    pub reason: String,
    /// Number of packets.
    pub packets: u64,
}
