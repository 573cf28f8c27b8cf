//! The kernel's view of a live service.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Figures, Stage, Tally};
use crate::exchange::wait::WaitKind;

/// The results of watching the kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Watch {
    /// Latency of every turn of every watched connection, from the first byte that arrived to the
    /// last byte that TCP sent; at most an eighth too long, because the kernel counts in steps.
    pub latency_ns: Figures,
    /// Number of connections seen.
    pub connections: u64,
    /// Share of the requests that were recorded one by one, 0 to 1.
    pub sampled_share: f64,
    /// Observations lost for lack of buffer space: the report lacks these events.
    pub lost_records: u64,
    /// Connections not followed for lack of room.
    pub lost_connections: u64,
    /// Processor time that the tracing programs used in the kernel, where it was counted.
    pub cost_ns: Option<u64>,
    /// Throttling by the processor quotas of the programs' control groups; `None` where there are
    /// no quotas.
    pub throttling: Option<Throttled>,
    /// Processor time that the hypervisor gave to others, summed over all processors; `None` where
    /// it cannot be read.
    #[serde(default)]
    pub stolen_ns: Option<u64>,
    /// Packets of the watched ports that the host dropped, by the kernel's reason; empty if only a
    /// process or control group was specified.
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
    /// The time of the turns by stage, over the turns whose stages are known. `backlog`: before the
    /// network stack took up the packets; `stack`: in the stack, before TCP received them;
    /// `unread`: in the socket's queue; `wake-up`: the program's thread is ready and its processor
    /// is leaving an idle state; `run-queue`: the thread is ready and has no processor; `program`:
    /// from the first read to the last write; `waiting`: the thread sleeps between first read and
    /// last write; `held`: by Nagle's algorithm; `sending`: for windows, pacing and the rest;
    /// `qdisc`: in the queueing disciplines before the device, where that was observed.
    pub stages: Vec<Stage>,
    /// Turns whose thread was observed. Without the thread, `wake-up` and `run-queue` count as
    /// `unread` or `program`, and `waiting` counts as `program`.
    pub threaded: u64,
    /// The upstream services that the threads called while answering the requests.
    pub asked: Vec<AskedService>,
    /// Number of times that Nagle's algorithm released data after something had arrived, out of all
    /// times that it held data back.
    pub released_by_arrival: Tally,
    /// The requests of the turns that were also measured elsewhere, joined to these turns; `None`
    /// where nothing else was measured, or none of these requests could be matched.
    #[serde(default)]
    pub joined: Option<JoinedTurns>,
}

/// Requests that were measured elsewhere, by packets (captured, or as the kernel shows them at the
/// border of its network stack) or by their sender's own timestamps, joined by connection and time
/// to the view of the server's kernel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JoinedTurns {
    /// Requests joined, out of those measured elsewhere during the watch of the kernel.
    pub exchanges: Tally,
    /// The server's own time by packets, split by the kernel's stages.
    pub waits: Vec<WaitSplit>,
    /// Requests for which packets show more server time than the host took in total, by more than
    /// the error of both: the difference passed between the host and the capture point.
    pub beyond: Disagreement,
    /// Requests for which the host took longer than packets allow: the path's share is
    /// overestimated.
    pub within: Disagreement,
}

/// A kind of wait that packets assign to the server, and the turns of the requests that had such a
/// wait of a millisecond or more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitSplit {
    /// The kind of wait.
    pub wait: WaitKind,
    /// Duration by packets.
    pub packets_ns: Figures,
    /// Duration at the host: from the whole request to the response's first byte for waits before
    /// the response, from the first byte to the last for waits within the response.
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

/// An upstream service that was called while a request was being answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AskedService {
    /// The service's address; `None` for a Unix socket, and for services without a single address.
    pub service: Option<String>,
    /// Time that the thread waited for the upstream per request, over the requests known to have
    /// called it.
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
