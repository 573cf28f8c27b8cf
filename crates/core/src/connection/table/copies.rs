//! Packets that a capture contains more than once.
//!
//! A capture on `any` sees a packet on each device that it passes, a capture on a bridge or a
//! mirror port sees it arriving and leaving, and a merged file of both ends has every packet twice.
//! Such a copy would look like a retransmission; only the first one counts.

use crate::attribution::LEAST_TIMEOUT;
use crate::observed::flow::Direction;
use crate::observed::segment::{Segment, TcpFlags};
use crate::observed::time::Timestamp;

/// Number of recent segments that are compared to find a copy: copies from several devices follow
/// each other immediately.
const RECENT: usize = 8;
/// Number of recent segments initially compared on a connection that has shown copies: a copy from
/// another host comes after as many packets as are in flight. If copies are found in the farther
/// half, the number is increased.
const MANY: usize = 256;
/// Maximum number of recent segments compared to find a copy: 16 kB for a connection with that many
/// packets in flight, each captured twice.
const MOST: usize = 4096;

/// The most recent segments of one connection.
#[derive(Debug, Default)]
pub(super) struct Copies {
    recent: [u32; RECENT],
    next: usize,
    /// Time of the last segment.
    last: Option<Timestamp>,
    /// Fingerprints of more segments, once a copy was found; their number is a power of two.
    many: Option<Box<[u32]>>,
}

impl Copies {
    /// Returns the memory that the fingerprints hold, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.many.as_deref().map_or(0, size_of_val)
    }

    /// Returns true if the segment is a copy of one seen shortly before.
    #[inline]
    pub(super) fn is_copy(&mut self, segment: &Segment) -> bool {
        let last = self.last.replace(segment.at);
        let is_long = |last: Timestamp| segment.at.since(last) >= LEAST_TIMEOUT;
        // Timestamps identify a retransmission, and in files of two ends copies are further apart.
        let may_be_repeated = segment.options.timestamps.is_none() && self.many.is_none();
        if may_be_repeated && last.is_some_and(is_long) {
            self.recent = [0; RECENT];
        }
        let Some(print) = fingerprint(segment) else {
            return false;
        };
        let is_known = match &self.many {
            // All of them are compared: cheaper than stopping at the right one.
            None => self
                .recent
                .iter()
                .fold(false, |is, &known| is | (known == print)),
            Some(many) => many.contains(&print),
        };
        if !is_known {
            self.remember(print);
        } else if self.many.is_none() || self.is_far_behind(print) {
            self.widen();
        }
        is_known
    }

    /// Returns true if the fingerprint is in the farther half, and the number can still be
    /// increased.
    fn is_far_behind(&self, print: u32) -> bool {
        let prints = self.many.as_deref().unwrap_or(&self.recent);
        let slot = prints.iter().position(|known| *known == print);
        let behind = slot.map_or(0, |slot| self.next.wrapping_sub(slot) % prints.len());
        behind >= prints.len() / 2 && prints.len() < MOST
    }

    #[inline]
    fn remember(&mut self, print: u32) {
        self.next = self.next.wrapping_add(1);
        let prints = self.many.as_deref_mut().unwrap_or(&mut self.recent);
        // Their number is a power of two.
        let next = self.next & (prints.len() - 1);
        if let Some(slot) = prints.get_mut(next) {
            *slot = print;
        }
    }

    /// Makes room for more fingerprints, the latest ones last.
    #[cold]
    fn widen(&mut self) {
        let prints = self.many.as_deref().unwrap_or(&self.recent);
        let len = prints.len();
        let oldest = self.next.wrapping_add(1) % len;
        let (newer, older) = prints.split_at(oldest);
        let mut wide = [older, newer].concat();
        wide.resize(MANY.max(len * 2), 0);
        self.next = len - 1;
        self.many = Some(wide.into());
    }
}

/// Returns the fingerprint that a copy shares with its original, but a retransmission does not: a
/// new packet has another identification (RFC 6864 §4), or a later timestamp. `None` if neither is
/// conclusive: an identification of zero means none (`ip_select_ident_segs()` in
/// `include/net/ip.h`), and bare ACKs may be repeated within one tick of the sender's clock.
#[inline]
fn fingerprint(segment: &Segment) -> Option<u32> {
    let id = segment.ip.id.unwrap_or_default();
    let takes_sequence = segment.sequence_len() > 0;
    let times = segment.options.timestamps;
    if id == 0 && !(takes_sequence && times.is_some()) {
        return None;
    }
    let (tsval, tsecr) = times.unwrap_or_default();
    let is_back = segment.direction == Direction::Backward;
    let TcpFlags(flags) = segment.flags;
    let words = [
        u64::from(segment.seq) | u64::from(segment.ack) << 32,
        u64::from(tsval) | u64::from(tsecr) << 32,
        u64::from(segment.payload_len) | u64::from(segment.window) << 32 | u64::from(flags) << 48,
        u64::from(id) | u64::from(is_back) << 16,
    ];
    // Multiplication by an odd constant with the high half folded back (Knuth's multiplicative
    // hashing); a collision has a chance of one in 2^32.
    let hash = words.iter().fold(0_u64, |hash, word| {
        let product = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        product ^ product >> 32
    });
    Some(hash as u32 | 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::event::PointId;
    use crate::observed::flow::{Endpoint, FlowKey, Transport};
    use crate::observed::segment::{IpFacts, TcpOptions};

    fn segment(seq: u32, len: u32, id: Option<u16>, tsval: Option<u32>) -> Segment {
        let end = |last| Endpoint::new([10, 0, 0, last].into(), 80);
        let (flow, direction) = FlowKey::new(Transport::Tcp, end(1), end(2));
        Segment {
            at: Timestamp::default(),
            number: 1,
            point: PointId(0),
            flow,
            direction,
            seq,
            ack: 7,
            flags: TcpFlags::ACK,
            window: 500,
            payload_len: len,
            options: TcpOptions {
                timestamps: tsval.map(|tsval| (tsval, 1)),
                ..TcpOptions::default()
            },
            ip: IpFacts {
                id,
                ..IpFacts::default()
            },
        }
    }

    fn copies(segments: &[Segment]) -> Vec<bool> {
        let mut copies = Copies::default();
        segments.iter().map(|s| copies.is_copy(s)).collect()
    }

    #[test]
    fn the_same_packet_is_a_copy_and_the_same_bytes_sent_again_are_none() {
        let first = segment(1, 100, Some(5), None);
        let again = segment(1, 100, Some(6), None);
        assert_eq!(
            copies(&[first, first, again, again]),
            [false, true, false, true]
        );
    }

    #[test]
    fn what_comes_after_a_timeout_was_sent_again() {
        let first = segment(1, 100, Some(5), None);
        let at = |ms: i64| Segment {
            at: Timestamp::from_nanos(ms * 1_000_000),
            ..first
        };
        assert_eq!(copies(&[at(0), at(40)]), [false, true]);
        assert_eq!(copies(&[at(0), at(230)]), [false, false]);
        // In merged files of two ends, copies are further apart.
        assert_eq!(copies(&[at(0), at(0), at(230)]), [false, true, true]);
        let stamped = |ms| Segment {
            options: segment(1, 100, Some(5), Some(9)).options,
            ..at(ms)
        };
        assert_eq!(copies(&[stamped(0), stamped(230)]), [false, true]);
    }

    #[test]
    fn without_identification_the_timestamp_tells() {
        for id in [None, Some(0)] {
            let first = segment(1, 100, id, Some(9));
            let later = segment(1, 100, id, Some(10));
            assert_eq!(copies(&[first, first, later]), [false, true, false]);
            // Inconclusive, or it may be a duplicate ACK.
            let untold = segment(1, 100, id, None);
            let ack = segment(1, 0, id, Some(9));
            assert_eq!(copies(&[untold, untold, ack, ack]), [false; 4]);
        }
    }

    fn packet(n: u32) -> Segment {
        segment(n * 100, 100, Some(n as u16 + 1), None)
    }

    #[test]
    fn once_there_was_a_copy_they_are_found_far_behind() {
        let mut list = vec![packet(0), packet(0)];
        list.extend((1..200).map(packet));
        list.extend((1..200).map(packet));
        let found = copies(&list).into_iter().filter(|&is| is).count();
        assert_eq!(found, 200);
    }

    /// A sender that sends two packets for each one that arrived, captured as they leave and as
    /// they arrive.
    #[test]
    fn copies_are_found_while_more_and_more_are_under_way() {
        let rounds =
            |most: u32| (0..most).flat_map(|n| [packet(2 * n), packet(2 * n + 1), packet(n)]);
        for (most, missed) in [(3_500, 0), (9_000, 1)] {
            let mut list = vec![packet(0)];
            list.extend(rounds(most));
            let mut copied = Copies::default();
            let found = list.iter().filter(|one| copied.is_copy(one)).count();
            // The first one is captured three times.
            let all = most as usize + 1;
            assert_eq!(found < all, missed > 0, "{found} of {all}");
            assert!(copied.many.is_some_and(|many| many.len() <= MOST));
        }
    }
}
