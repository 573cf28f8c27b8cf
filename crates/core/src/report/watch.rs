//! The kernel's view of a live service.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Figures, Stage, Tally};
use crate::exchange::wait::WaitKind;

/// The results of watching the kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Watch {
    /// Latency of every turn of every watched connection, from the first byte that arrived to the
    /// last that TCP sent; at most an eighth too long, as the kernel counts in steps.
    pub latency_ns: Figures,
    /// Number of connections seen.
    pub connections: u64,
    /// Share of the requests recorded one by one, 0 to 1.
    pub sampled_share: f64,
    /// Observations lost for want of room: their events are missing here.
    pub lost_records: u64,
    /// Connections not followed for want of room.
    pub lost_connections: u64,
    /// Processor time of the programs in the kernel, where it was counted.
    pub cost_ns: Option<u64>,
    /// Throttling by the processor quotas of the programs' control groups; `None` where there are
    /// none.
    pub throttling: Option<Throttled>,
    /// Processor time given to others by the hypervisor, summed over all processors; `None` where
    /// that cannot be read.
    #[serde(default)]
    pub stolen_ns: Option<u64>,
    /// Packets of the watched ports dropped by the host, by the kernel's reason; empty where only a
    /// process or group was named.
    pub drops: Vec<Dropped>,
    /// The turns recorded one by one, by the service's address.
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
    /// The time of the turns by stage, for those whose stages are known: `backlog` until the
    /// network stack took them up, `stack` until TCP had them, `unread` in the socket's queue,
    /// `wake-up` with the program's thread ready and its processor waking from idleness,
    /// `run-queue` ready and without a processor, `program` from the first read to the last write,
    /// `waiting` with the thread asleep there, `held` by Nagle's algorithm, `sending` for windows,
    /// pacing and the rest, `qdisc` in the queueing disciplines before the device, where that was
    /// observed.
    pub stages: Vec<Stage>,
    /// Turns whose thread was observed: without that `wake-up` and `run-queue` count as `unread` or
    /// `program`, and `waiting` as `program`.
    pub threaded: u64,
    /// The services asked by the threads that answered the requests.
    pub asked: Vec<AskedService>,
    /// Number of times that something had arrived when Nagle's algorithm let data go, of all times
    /// that it held data back.
    pub released_by_arrival: Tally,
    /// The requests of the turns as measured elsewhere as well, joined to these turns; `None` where
    /// nothing was measured, or none was found again.
    #[serde(default)]
    pub joined: Option<JoinedTurns>,
}

/// Requests that were measured elsewhere, by packets (captured, or as the kernel shows them at the
/// border of its network stack) or by their sender's own timestamps, joined by connection and time
/// to the view of the server's kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JoinedTurns {
    /// Requests joined, of those measured there while the kernel was watched.
    pub exchanges: Tally,
    /// The server's own time by packets, split by the kernel's view of it.
    pub waits: Vec<WaitSplit>,
    /// Requests for which packets show more of the server's time than its host took in all, by more
    /// than the error of both: the difference passed between the host and the capture point.
    pub beyond: Disagreement,
    /// Requests for which the host took longer than packets leave for it: the path's share is
    /// overestimated.
    pub within: Disagreement,
}

/// A kind of wait that packets assign to the server, and the turns of the requests that had it for
/// a millisecond or more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitSplit {
    /// The kind of wait.
    pub wait: WaitKind,
    /// Duration by packets.
    pub packets_ns: Figures,
    /// Duration at the host: from the whole request to the response's first byte for waits before
    /// the response, from there to the last byte for waits within it.
    pub host_ns: Figures,
    /// The time of the whole turns by stage, as in `WatchedService`.
    pub stages: Vec<Stage>,
}

/// A disagreement between two views of the same requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disagreement {
    /// Requests that disagree, of those that were joined.
    pub exchanges: Tally,
    /// The size of the disagreement.
    pub time_ns: Figures,
}

/// Another service that was asked while a request was being answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AskedService {
    /// The service's address; `None` for a Unix socket, and for services without a single address.
    pub service: Option<String>,
    /// Time that the thread waited for it per request, over the requests for which it is known to
    /// have been asked.
    pub time_ns: Figures,
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
    /// `SOCKET_RCVBUFF`, `NETFILTER_DROP`, … (`include/net/dropreason-core.h`).
    pub reason: String,
    /// Number of packets.
    pub packets: u64,
}
