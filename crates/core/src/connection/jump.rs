//! Jumps of the capturing host's clock, which somebody sets while packets are captured.
//!
//! Times on the two sides of a jump cannot be compared. A jump back is seen at once, because time
//! never runs back. A jump forward looks like silence, so it takes more to tell it:
//!
//! - The clocks of both ends (TSval, RFC 7323 §3) say that much less time passed. One alone proves
//!   nothing: its host may have slept, or its segment may have been held up.
//! - Bytes were not acknowledged, nobody sent them again for longer than any sender waits (RFC 6298
//!   §2.5, and `TCP_RTO_MAX` in `include/net/tcp.h`), and then they were acknowledged after all. A
//!   capturing host that slept shows the same.

use core::time::Duration;

use super::Connection;
use crate::observed::segment::{Segment, TcpFlags};
use crate::stats::Merge;

/// Minimum jump. Packets that several threads capture can be out of order by less.
const LEAST_NS: i64 = 1_000_000_000;
/// The longest time after which a sender repeats what was not acknowledged.
const LONGEST_WAIT_NS: i64 = 120_000_000_000;
/// The longest silence that is followed if nothing tells how long it was.
const LONGEST_SILENCE_NS: i64 = 600_000_000_000;
/// The part of a jump, one in this many, by which the clocks of both ends may differ in telling it.
const TOLERANCE: i64 = 8;

/// A jump of the clock, as one connection shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jump {
    /// The nanoseconds by which the clock jumped, negative if it jumped back.
    pub(crate) by_ns: i64,
    /// The number of the packet that shows it.
    pub(crate) number: u64,
    pub(crate) evidence: JumpEvidence,
}

/// The evidence for a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JumpEvidence {
    /// One connection is enough to tell it.
    Proof,
    /// A single connection can lack an acknowledgement that the capture missed.
    Sign,
    /// A silence of that length is as likely, and is not followed.
    None,
}

/// The jumps in one direction of time, as all connections show them.
#[derive(Clone, Copy, Debug, Default, Merge)]
pub(crate) struct Jumps {
    connections: u64,
    #[merge(any)]
    is_proven: bool,
    #[merge(max)]
    most_ns: u64,
    #[merge(least)]
    first: Option<u64>,
}

impl Jumps {
    pub(crate) fn count(&mut self, jump: Jump) {
        if jump.evidence == JumpEvidence::None {
            return;
        }
        self.merge(Self {
            connections: 1,
            is_proven: jump.evidence == JumpEvidence::Proof,
            most_ns: jump.by_ns.unsigned_abs(),
            first: Some(jump.number),
        });
    }

    /// Returns the number of connections, the largest jump and the first packet that shows one;
    /// `None` if there was none.
    pub(crate) fn told(self) -> Option<(u64, Duration, u64)> {
        let is_told = self.is_proven || self.connections > 1;
        let first = self.first.filter(|_| is_told)?;
        Some((self.connections, Duration::from_nanos(self.most_ns), first))
    }
}

impl Connection {
    /// Returns true if nothing is remarkable about the time of a segment, as of nearly all.
    #[inline(always)]
    pub(crate) fn is_next(&self, segment: &Segment) -> bool {
        segment.at.signed_since(self.last_seen).unsigned_abs() < LEAST_NS.unsigned_abs()
    }

    /// Returns the jump of the clock that a segment alone shows.
    pub(crate) fn jump(&self, segment: &Segment) -> Option<Jump> {
        let passed = segment.at.signed_since(self.last_seen);
        let evidence = if passed <= -LEAST_NS {
            JumpEvidence::Proof
        } else if passed > LONGEST_WAIT_NS && self.is_answered_without_repeat(segment) {
            JumpEvidence::Sign
        } else if passed > LONGEST_SILENCE_NS && segment.options.timestamps.is_none() {
            JumpEvidence::None
        } else {
            return None;
        };
        Some(Jump {
            by_ns: passed,
            number: segment.number,
            evidence,
        })
    }

    /// Returns the nanoseconds since the sender's last segment that did not pass by its own clock.
    pub(crate) fn excess(&self, segment: &Segment) -> Option<i64> {
        let excess = self.half(segment.direction).transit.excess(segment)?;
        (excess >= LEAST_NS).then_some(excess)
    }

    /// Returns true if a segment acknowledges what its receiver would have sent again long ago.
    fn is_answered_without_repeat(&self, segment: &Segment) -> bool {
        let (own, peer) = (
            &self.half(segment.direction).sequence,
            &self.half(segment.direction.reverse()).sequence,
        );
        let is_wanted = if self.setup.is_awaited() {
            peer.base() == Some(segment.ack)
        } else {
            peer.acknowledges_more(segment.ack)
        };
        is_wanted && segment.flags.contains(TcpFlags::ACK) && !own.is_before_next(segment.seq)
    }
}

/// Returns the jump by which the clocks of both ends fell behind, if they agree on it. Each has its
/// own delays.
pub(crate) fn agreed(one: i64, other: i64) -> Option<i64> {
    let least = one.min(other);
    (one.abs_diff(other) <= (least / TOLERANCE).unsigned_abs()).then_some(least)
}
