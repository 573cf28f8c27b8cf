//! Counters of a path, which prove that a fault was present.

use serde::{Deserialize, Serialize};

/// Reciprocal of the minimum share of late packets that matters. The share is this small because a
/// few late exchanges among hundreds are enough for a finding.
const LATE_IN: u64 = 500;

/// The reason why a packet is not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// The packet exceeded the policer.
    Policer,
    /// The packet was lost by chance.
    Loss,
    /// The scenario selected the packet.
    Chosen,
    /// The queue before the bottleneck was full.
    Queue,
    /// The packet was larger than the next link's MTU, and may not be fragmented.
    Mtu,
    /// The packet ended at a router: its time to live was used up there, or it was addressed to the
    /// router.
    Hop,
    /// The packet was an acknowledgement that a later one replaced.
    Thinned,
    /// The emulator's memory limit was reached, or the far device rejected the packet. This is not
    /// a property of the requested path: a run in which this count is not 0 proves nothing.
    Overflow,
}

/// The counters of one direction of the path.
///
/// `offered + duplicated + fragments + answers` equals `delivered` plus the drops plus the packets
/// in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneCounters {
    /// Packets that were sent into the path. With offload, a super-segment counts as one.
    pub offered: u64,
    /// Packets handed to the far host.
    pub delivered: u64,
    /// Bytes handed to the far host, IP headers included.
    pub delivered_bytes: u64,
    /// Packets that exceeded the policer.
    pub dropped_policer: u64,
    /// Packets lost by chance, one by one or in bursts.
    pub dropped_loss: u64,
    /// Packets that the scenario selected ([`super::DropSpec`]).
    pub dropped_chosen: u64,
    /// Packets that arrived when the queue was full.
    pub dropped_queue: u64,
    /// Packets that were too large for a link.
    pub dropped_mtu: u64,
    /// Packets that ended at a router.
    pub dropped_hop: u64,
    /// Acknowledgements replaced by a later one.
    pub dropped_thinned: u64,
    /// Packets that the emulator could not hold or deliver ([`DropReason::Overflow`]).
    pub dropped_overflow: u64,
    /// Copies of packets that were created.
    pub duplicated: u64,
    /// Packets that overtook an earlier one.
    pub reordered: u64,
    /// Additional packets that were created by fragmentation.
    pub fragments: u64,
    /// Packets sent by routers: errors and echo replies.
    pub answers: u64,
    /// Packets delivered more than 2 ms after they were due, because the machine delayed the
    /// emulator. Such a delay was not requested, but has the same effect as a requested one.
    #[serde(default)]
    pub late: u64,
}

/// The counters of the emulated path, at most 0.1 s old.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathCounters {
    /// The counters of the direction from the client to the server.
    pub to_server: LaneCounters,
    /// The counters of the direction from the server to the client.
    pub to_client: LaneCounters,
    /// True if the kernel runs the emulator with priority over ordinary programs. Otherwise delays
    /// are wrong by the time that other work on the machine keeps the emulator waiting.
    pub is_real_time: bool,
}

impl LaneCounters {
    /// Returns the number of packets dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.dropped_policer
            + self.dropped_loss
            + self.dropped_chosen
            + self.dropped_queue
            + self.dropped_mtu
            + self.dropped_hop
            + self.dropped_thinned
            + self.dropped_overflow
    }

    /// Returns true if enough packets were late for a client of a service on this path to notice.
    pub fn is_late(&self) -> bool {
        self.late * LATE_IN >= self.delivered.max(1)
    }

    pub(super) fn count_drop(&mut self, reason: DropReason) {
        let counter = match reason {
            DropReason::Policer => &mut self.dropped_policer,
            DropReason::Loss => &mut self.dropped_loss,
            DropReason::Chosen => &mut self.dropped_chosen,
            DropReason::Queue => &mut self.dropped_queue,
            DropReason::Mtu => &mut self.dropped_mtu,
            DropReason::Hop => &mut self.dropped_hop,
            DropReason::Thinned => &mut self.dropped_thinned,
            DropReason::Overflow => &mut self.dropped_overflow,
        };
        *counter += 1;
    }
}
