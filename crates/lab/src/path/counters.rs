//! What a path did, in numbers: what proves that a fault was there.

use serde::{Deserialize, Serialize};

/// One late packet in so many is noticed: a finding takes a few exchanges of hundreds.
const LATE_IN: u64 = 500;

/// Why a packet is not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// It exceeded the policer.
    Policer,
    /// It was lost by chance.
    Loss,
    /// The scenario chose it.
    Chosen,
    /// The queue before the bottleneck was full.
    Queue,
    /// It was larger than the next link takes, and was not to be cut up.
    Mtu,
    /// It ended at a router: its time to live did, or it was addressed to it.
    Hop,
    /// An acknowledgement that a later one took the place of.
    Thinned,
    /// The emulator itself holds as much as it may, or the far device refused it. No property
    /// of the path that was asked for: a run where this is not 0 proves nothing.
    Overflow,
}

/// What one direction of the path did so far.
///
/// `offered + duplicated + fragments + answers` is `delivered`, what was dropped, and what is
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
    /// Acknowledgements that a later one took the place of.
    pub dropped_thinned: u64,
    /// Packets that the emulator could not hold or hand over ([`DropReason::Overflow`]).
    pub dropped_overflow: u64,
    /// Copies of packets that were made.
    pub duplicated: u64,
    /// Packets that overtook an earlier one.
    pub reordered: u64,
    /// Further packets that came of cutting one up.
    pub fragments: u64,
    /// Packets of routers: errors and echo replies.
    pub answers: u64,
    /// Packets handed over more than 2 ms after they were due, because the machine kept the
    /// emulator waiting: a delay that nobody asked for, and as real as any.
    #[serde(default)]
    pub late: u64,
}

/// What the emulated path did so far, at most 0.1 s ago.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathCounters {
    /// From the client to the server.
    pub to_server: LaneCounters,
    /// From the server to the client.
    pub to_client: LaneCounters,
    /// Whether the kernel lets the emulator run ahead of ordinary programs. Without, delays
    /// err by as much as the machine's other work keeps it waiting.
    pub is_real_time: bool,
}

impl LaneCounters {
    /// Packets that were dropped for any reason.
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

    /// Whether so many packets were late that who asks a service there notices.
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
