//! The latency spin bit: a square wave whose half-period is the round trip.
//!
//! The client inverts the bit that it received, and the server repeats it (RFC 9000 §17.4). The
//! time from an edge in one direction to the next edge in the other is a round trip from the
//! observation point to one end. It includes the time before that end sent a packet (RFC 9312
//! §4.2). Either end may turn the bit off or send random values.

use core::time::Duration;

use crate::observed::side::Side;
use crate::observed::time::Timestamp;
use crate::stats::sample::Sample;

/// Minimum number of edges in each direction for the bit to count as spinning.
const LEAST_EDGES: u32 = 3;
/// Maximum difference between the numbers of edges in the two directions. Random values make
/// additional edges in one direction.
const MOST_UNLIKE: u32 = 2;

/// The spin bit of one flow.
#[derive(Debug, Default)]
pub(super) struct Spin {
    client: Wave,
    server: Wave,
    /// Round trips from the observation point to the server.
    pub(super) to_server: Sample,
    pub(super) to_client: Sample,
}

/// The spin bit of one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Wave {
    value: Option<bool>,
    edges: u32,
    edge: Option<Timestamp>,
}

impl Wave {
    /// Processes the bit of a packet. Returns true if it changed.
    fn observe(&mut self, spin: bool, at: Timestamp) -> bool {
        let is_edge = self
            .value
            .replace(spin)
            .is_some_and(|before| before != spin);
        if is_edge {
            self.edges = self.edges.saturating_add(1);
            self.edge = Some(at);
        }
        is_edge
    }
}

impl Spin {
    /// Processes a 1-RTT packet of the client or of the server.
    pub(super) fn observe(&mut self, by: Side, spin: bool, at: Timestamp) {
        if by == Side::Client {
            // The client inverts the bit, so its edge answers the server's edge to the opposite
            // value.
            if self.client.observe(spin, at)
                && self.server.value == Some(!spin)
                && let Some(edge) = self.server.edge.take()
            {
                self.to_client.push(at.since(edge));
            }
        } else if self.server.observe(spin, at)
            && self.client.value == Some(spin)
            && let Some(edge) = self.client.edge.take()
        {
            self.to_server.push(at.since(edge));
        }
    }

    /// Returns true if the spin bit is usable: both directions have about the same number of edges,
    /// and the median round trip is at least half of `floor`, the path's round trip according to
    /// the handshake.
    pub(super) fn is_believable(&self, floor: Option<Duration>) -> bool {
        let (client, server) = (self.client.edges, self.server.edges);
        let turns = client.min(server) >= LEAST_EDGES && client.abs_diff(server) <= MOST_UNLIKE;
        let both = self.to_client.median_ns().zip(self.to_server.median_ns());
        let floor = floor.unwrap_or_default().as_nanos() / 2;
        turns && both.is_some_and(|(one, other)| u128::from(one + other) >= floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn edges_time_either_half() {
        // The point is 2 ms from the client and 10 ms from the server.
        let mut spin = Spin::default();
        for turn in 0..6_i64 {
            let value = turn % 2 == 1;
            spin.observe(Side::Client, value, at(turn * 24));
            spin.observe(Side::Server, value, at(turn * 24 + 20));
        }
        let floor = Some(Duration::from_millis(24));
        assert!(spin.is_believable(floor));
        let rounded = |ns: Option<u64>| ns.map(|ns| (ns + 500_000) / 1_000_000);
        assert_eq!(rounded(spin.to_server.median_ns()), Some(20));
        assert_eq!(rounded(spin.to_client.median_ns()), Some(4));
    }

    #[test]
    fn a_bit_that_rests_or_is_noise_measures_nothing() {
        let mut rests = Spin::default();
        let mut noise = Spin::default();
        for turn in 0..40_i64 {
            let by = if turn % 2 == 0 {
                Side::Client
            } else {
                Side::Server
            };
            rests.observe(by, false, at(turn));
            noise.observe(by, (turn * 7 / 3) % 2 == 0, at(turn));
        }
        let floor = Some(Duration::from_millis(24));
        assert!(!rests.is_believable(floor));
        assert!(!noise.is_believable(floor));
    }
}
