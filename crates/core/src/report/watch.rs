//! What the kernel showed of a live service.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Figures, Stage, Tally};
use crate::exchange::wait::WaitKind;

/// What watching the kernel came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Watch {
    /// Every turn of every connection that was watched, from the first byte
    /// that arrived to the last that TCP sent; at most an
    /// eighth too long, as the kernel counts them in steps.
    pub latency_ns: Figures,
    /// Connections met.
    pub connections: u64,
    /// Share of the requests that were looked at one by one, 0 to 1.
    pub sampled_share: f64,
    /// Observations lost for want of room; what they would have shown is
    /// missing here.
    pub lost_records: u64,
    /// Connections that were not followed for want of room.
    pub lost_connections: u64,
    /// Processor time of the programs in the kernel, where it was counted.
    pub cost_ns: Option<u64>,
    /// What the processor quotas of the programs' control groups did meanwhile;
    /// `None` where there are none.
    pub throttling: Option<Throttled>,
    /// Processor time that the hypervisor gave to others meanwhile, of all
    /// processors together; `None` where that cannot be read.
    #[serde(default)]
    pub stolen_ns: Option<u64>,
    /// Packets of the watched ports that the host dropped, by the kernel's
    /// reason; empty where only a process or group was named.
    pub drops: Vec<Dropped>,
    /// What was looked at turn by turn, by the service's address.
    pub services: Vec<WatchedService>,
}

/// The turns of one service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchedService {
    /// Its address.
    pub service: String,
    /// Who read the requests: `nginx[4711]`.
    pub programs: Vec<String>,
    /// Turns looked at one by one.
    pub turns: u64,
    /// How long they took.
    pub latency_ns: Figures,
    /// Where that went, of those whose stages are known: `backlog` until
    /// the network stack took them up, `stack` until TCP had them, `unread` in the socket's queue, `wake-up` with the program's
    /// thread ready and its processor waking from idleness, `run-queue` ready and without a processor, `program` from the first read to
    /// the last write, `waiting` with the thread asleep there, `held` by
    /// Nagle's algorithm, `sending` for windows, pacing and the rest, `qdisc` in
    /// the queueing disciplines before the device, where that was looked at.
    pub stages: Vec<Stage>,
    /// Of the turns, those whose thread was looked at: without that `wake-up`
    /// and `run-queue` count as `unread` or `program`, and `waiting` as `program`.
    pub threaded: u64,
    /// Who was asked for the requests by the threads that answered them.
    pub asked: Vec<AskedService>,
    /// How often Nagle's algorithm held something back, and of those how often
    /// something had arrived when it let go.
    pub released_by_arrival: Tally,
    /// The same turns beside what was measured elsewhere of the same requests;
    /// `None` where nothing was, or none was found again.
    #[serde(default)]
    pub joined: Option<JoinedTurns>,
}

/// Requests that were measured elsewhere, by packets (captured, or as the
/// kernel shows them at the border of its network stack) or their sender's own
/// stamps, joined by connection and time to what the server's kernel saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JoinedTurns {
    /// How many of the requests that were measured there while the kernel was
    /// watched.
    pub exchanges: Tally,
    /// The server's own time by packets, split by what its kernel saw of it.
    pub waits: Vec<WaitSplit>,
    /// Requests to which packets give more of the server's time than its host
    /// took for all of them, by more than the error of both: it went by between
    /// the host and where the packets were captured.
    pub beyond: Disagreement,
    /// Requests for which the host took longer than packets leave for it: the
    /// path's share is overestimated.
    pub within: Disagreement,
}

/// A kind of wait that packets give to the server, and the turns of those
/// requests that had it for a millisecond or more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitSplit {
    /// The kind.
    pub wait: WaitKind,
    /// How long by packets.
    pub packets_ns: Figures,
    /// How long at the host: from the whole request to the answer's first byte
    /// for what lies before it, from there to the last one for what lies within.
    pub host_ns: Figures,
    /// Where the whole turn's time went, as in `WatchedService`.
    pub stages: Vec<Stage>,
}

/// Where two views of the same requests disagree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disagreement {
    /// How many of those that were joined.
    pub exchanges: Tally,
    /// By how much.
    pub time_ns: Figures,
}

/// Another service that was asked while a request was being answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AskedService {
    /// Its address; `None` for a Unix socket, and for what has no one address.
    pub service: Option<String>,
    /// How long the thread waited for it for one request, over the requests
    /// for which it is known to have been asked.
    pub time_ns: Figures,
}

/// Control groups whose quota of processor time was used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Throttled {
    /// In so many periods.
    pub periods: u64,
    /// For so long, summed over processors.
    pub time_ns: u64,
}

/// Packets that a host dropped for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dropped {
    /// `SOCKET_RCVBUFF`, `NETFILTER_DROP`, … (`include/net/dropreason-core.h`).
    pub reason: String,
    /// How many.
    pub packets: u64,
}
