//! Counters of a path, which prove that a fault was there.

use serde::{Deserialize, Serialize};

/// Minimum share of packets that matters if they are late, one in this number: a finding takes a
/// few exchanges of hundreds.
const LATE_IN: u64 = 500;

/// The reason why a packet is not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// The packet exceeded the policer.
    Policer,
    /// The packet was lost by chance.
    Loss,
    /// The scenario chose the packet.
    Chosen,
    /// The queue before the bottleneck was full.
    Queue,
    /// The packet was larger than the next link takes, and may not be fragmented.
    Mtu,
    /// The packet ended at a router: its time to live did, or it was addressed to the router.
    Hop,
    /// The packet was an acknowledgement, and a later one took its place.
    Thinned,
    /// The emulator itself holds as much as it may, or the far device refused the packet. No
    /// property of the path that was asked for: a run where this is not 0 proves nothing.
    Overflow,
}

/// The counters of one direction of the path.
///
/// `offered + duplicated + fragments + answers` equals `delivered` plus the drops plus the packets
/// under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneCounters {
    /// Packets that came in. With offload a super-segment is one.
    pub offered: u64,
    /// Packets handed to the far host.
    pub delivered: u64,
    /// Bytes handed to the far host, IP headers included.
    pub delivered_bytes: u64,
    /// Packets that exceeded the policer.
    pub dropped_policer: u64,
    /// Packets lost by chance, one by one or in bursts.
    pub dropped_loss: u64,
    /// Packets that the scenario chose ([`super::DropSpec`]).
    pub dropped_chosen: u64,
    /// Packets that found the queue full.
    pub dropped_queue: u64,
    /// Packets that were too large for a link.
    pub dropped_mtu: u64,
    /// Packets that ended at a router.
    pub dropped_hop: u64,
    /// Acknowledgements replaced by a later one.
    pub dropped_thinned: u64,
    /// Packets that the emulator could not hold or hand over ([`DropReason::Overflow`]).
    pub dropped_overflow: u64,
    /// Copies of packets that were made.
    pub duplicated: u64,
    /// Packets that overtook an earlier one.
    pub reordered: u64,
    /// Further packets that fragmentation made.
    pub fragments: u64,
    /// Packets of routers: errors and echo replies.
    pub answers: u64,
    /// Packets delivered more than 2 ms after they were due, because the machine kept the emulator
    /// waiting: a delay that nobody asked for, and as real as any.
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
    /// True if the kernel lets the emulator run ahead of ordinary programs. Otherwise delays err by
    /// as much as the machine's other work keeps it waiting.
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

    /// Returns true if enough packets were late for a client of a service there to notice.
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
