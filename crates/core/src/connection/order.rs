//! The order in which a sender sent its segments, from what it numbers them by.

use core::time::Duration;

use crate::segment::{Segment, TcpFlags};
use crate::tile::LEAST_TIMEOUT;
use crate::time::Timestamp;

/// Steps of exactly one before a gap means anything: for hosts that answered a SYN as
/// Linux does, and for others …
const REGULAR: u32 = 3;
const REGULAR_OF_OTHERS: u32 = 5;
/// … and so many for each gap that no loss explains: a counter that all connections of a
/// host share has gaps wherever another one sends.
const REGULAR_A_GAP: u32 = 4;
/// Behind a gap that losses explain, what was lost comes again: the end of a flight by a
/// probe, two round trips later, all of it by a timer.
const LEAST_REPAIR: Duration = Duration::from_millis(2);
/// Initial TTL of Linux (`ip_default_ttl`); other systems begin with more.
const LINUX_TTL: u8 = 64;
/// The longest timeout of a sender that knows nothing of the path yet …
const FIRST_TIMEOUT: Duration = Duration::from_secs(3);
/// … and how often it doubles before nobody waits any longer.
const MOST_DOUBLED: u16 = 6;
/// A jump over more than this is no count of lost segments.
const MAX_SKIPPED: u16 = 64;

/// Where a segment stands among those of its sender that came here before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// Nothing tells.
    #[default]
    Untold,
    /// Sent after all of them.
    Newer,
    /// Sent before one of them: overtaken on the way, or a copy.
    Older,
}

/// A sender's IPv4 identifications and timestamps. Linux counts the former up
/// by one for each segment of a connection (`ip_select_ident_segs()`), so a gap
/// means segments that never came here; the latter never go back (RFC 7323
/// §5.4).
///
/// Other systems number all that a host sends by one counter, by several or at
/// random, and so do routers that translate addresses: whether this connection has
/// a counter of its own is asked of each, and of each gap anew.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbering {
    expected: Option<u16>,
    /// Steps of exactly one.
    regular: u32,
    /// Numbers that were skipped, the one before `expected` in the lowest bit.
    missing: u64,
    /// Gaps behind which no byte was missing and that were long enough for a repair …
    repairs: u32,
    /// … and that were not.
    riddles: u32,
    /// True if it answered a SYN with identification 0, as Linux does.
    is_linux: bool,
    /// True if other connections of its host are seen to count on the same counter.
    is_shared: bool,
    last: Option<Timestamp>,
    /// The newest stamp (TSval), and the newest that came with it of those of the peer's that
    /// it echoes (TSecr).
    newest_stamp: Option<(u32, u32)>,
}

impl Numbering {
    /// Linux answers a SYN with identification 0 (`ip_build_and_send_pkt()` in
    /// `net/ipv4/ip_output.c`) and counts from the next segment on.
    pub(crate) fn meet(&mut self, syn: &Segment) {
        if syn.flags.contains(TcpFlags::ACK) && syn.ip.id == Some(0) {
            (self.regular, self.is_linux) = (REGULAR, true);
        }
    }

    /// Notes that other connections count on the same counter: a gap is theirs.
    pub(crate) fn share(&mut self) {
        self.is_shared = true;
    }

    /// Segments of this sender that were lost on the way here just before this
    /// one, as far as the identifications tell (0 where they do not), and
    /// where it stands in the order they were sent. `is_past_hole`: bytes before
    /// it are missing, so that a gap is no riddle.
    pub(crate) fn place(
        &mut self,
        segment: &Segment,
        mss: u32,
        is_past_hole: bool,
    ) -> (u16, Order) {
        let by_stamp = self.by_stamp(segment);
        // Zero in each stands for none (RFC 6864 §4.1).
        let is_counted = |&id: &u16| id != 0 || self.expected == Some(0);
        let counted = segment.ip.id.filter(is_counted);
        let Some(id) = counted.filter(|_| may_be_linux(segment)) else {
            return (0, by_stamp);
        };
        let parts = match segment.payload_len > mss {
            true => u16::try_from(segment.payload_len.div_ceil(mss)).unwrap_or(1),
            false => 1,
        };
        let since = self
            .last
            .replace(segment.at)
            .map(|last| segment.at.since(last));
        let skipped = self
            .expected
            .map_or(0, |expected| id.wrapping_sub(expected));
        let is_told = self.is_own_counter();
        if by_stamp != Order::Newer && self.fills_gap(id, parts) {
            // Only what counts upwards comes to a number that it had skipped.
            self.regular = self.regular.saturating_add(1);
            let order = if is_told { Order::Older } else { by_stamp };
            return (0, order);
        }
        match skipped {
            0 => self.regular = self.regular.saturating_add(1),
            // Something older, late: nothing to learn from it.
            _ if is_told && skipped > u16::MAX - MAX_SKIPPED => return (0, Order::Older),
            1..=MAX_SKIPPED if is_past_hole => {}
            1..=MAX_SKIPPED if is_repair(skipped, since.unwrap_or_default()) => {
                self.repairs = self.repairs.saturating_add(1)
            }
            1..=MAX_SKIPPED => self.riddles = self.riddles.saturating_add(1),
            _ => self.regular = 0,
        }
        self.expected = Some(id.wrapping_add(parts));
        self.remember_gap(skipped, parts);
        match is_told && skipped <= MAX_SKIPPED {
            true => (skipped, Order::Newer),
            false => (0, by_stamp),
        }
    }

    /// Returns true if segments are numbered, by a counter of the connection's own: gaps are
    /// losses, and where there is none nothing was lost.
    pub(crate) fn tells_losses(&self) -> bool {
        self.expected.is_some() && self.is_own_counter()
    }

    fn is_own_counter(&self) -> bool {
        let (least, a_repair) = match self.is_linux {
            true => (REGULAR, 1),
            false => (REGULAR_OF_OTHERS, 2),
        };
        let riddles = self.riddles.saturating_mul(REGULAR_A_GAP);
        let repairs = self.repairs.saturating_mul(a_repair);
        !self.is_shared && self.regular >= least.max(riddles).max(repairs)
    }

    /// Whether these numbers had been skipped, noting that they came.
    fn fills_gap(&mut self, id: u16, parts: u16) -> bool {
        let Some(expected) = self.expected else {
            return false;
        };
        let numbers = (0..parts.min(MAX_SKIPPED)).map(|part| id.wrapping_add(part));
        let places = numbers.map(|number| expected.wrapping_sub(number).wrapping_sub(1));
        let bits = places.fold(0, |bits, place| {
            bits | 1_u64.checked_shl(place.into()).unwrap_or_default()
        });
        let is_filler = self.missing & bits != 0;
        self.missing &= !bits;
        is_filler
    }

    /// Notes the numbers that were skipped before so many parts; behind a jump nothing is known.
    fn remember_gap(&mut self, skipped: u16, parts: u16) {
        if skipped > MAX_SKIPPED {
            self.missing = 0;
            return;
        }
        let shifted = |bits: u64, by: u16| bits.checked_shl(by.into()).unwrap_or_default();
        let gap = shifted(1, skipped).wrapping_sub(1);
        self.missing = shifted(shifted(self.missing, skipped) | gap, parts);
    }

    /// The same stamp as the newest one says nothing, since it counts milliseconds, but that of
    /// the peer's that it echoes does: neither goes back, and a sender that heard something
    /// between echoes what it heard.
    fn by_stamp(&mut self, segment: &Segment) -> Order {
        let Some(stamp @ (tsval, echo)) = segment.options.timestamps else {
            return Order::Untold;
        };
        let (newest, newest_echo) = *self.newest_stamp.get_or_insert(stamp);
        let by_echo = match (echo, newest_echo) {
            // None (RFC 7323 §3.2).
            (0, _) | (_, 0) => 0,
            _ => echo.wrapping_sub(newest_echo) as i32,
        };
        match (tsval.wrapping_sub(newest) as i32, by_echo) {
            (0, 0) => Order::Untold,
            (..0, _) | (0, ..0) => Order::Older,
            _ => {
                self.newest_stamp = Some(stamp);
                Order::Newer
            }
        }
    }
}

/// Returns true if so many lost segments can have been retransmitted within `since`, the last
/// of them just then.
fn is_repair(skipped: u16, since: Duration) -> bool {
    let is_soon_enough = since <= longest_repair(skipped);
    is_soon_enough && (since >= LEAST_TIMEOUT || (skipped == 1 && since >= LEAST_REPAIR))
}

/// The longest that a sender waits before it repeats what so many copies were lost of: its
/// timer is three seconds at first (RFC 1122 §4.2.3.1) and doubles each time.
pub(crate) fn longest_repair(skipped: u16) -> Duration {
    FIRST_TIMEOUT * ((1 << skipped.clamp(1, MOST_DOUBLED)) - 1)
}

/// Linux looks for the path's MTU, so it forbids fragments (`ip_no_pmtu_disc`).
fn may_be_linux(segment: &Segment) -> bool {
    segment.ip.dont_fragment && segment.ip.ttl <= LINUX_TTL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Endpoint;
    use crate::segment::{IpFacts, TcpOptions};

    /// A segment at so many milliseconds, with this identification and TSval.
    fn segment(ms: i64, id: Option<u16>, tsval: Option<u32>) -> Segment {
        let end = |last| Endpoint::new([10, 0, 0, last].into(), 80);
        Segment {
            payload_len: 100,
            options: TcpOptions {
                timestamps: tsval.map(|tsval| (tsval, 0)),
                ..TcpOptions::default()
            },
            ip: IpFacts {
                id,
                ttl: 64,
                dont_fragment: true,
                ..IpFacts::default()
            },
            ..Segment::sent(end(1), end(2), Timestamp::from_nanos(ms * 1_000_000))
        }
    }

    /// Segments lost before each of these (identification, TSval), and its order.
    fn placed(numbers: &[(Option<u16>, Option<u32>)]) -> Vec<(u16, Order)> {
        let mut numbering = Numbering::default();
        let place = |&(id, tsval)| numbering.place(&segment(0, id, tsval), 1448, false);
        numbers.iter().map(place).collect()
    }

    #[test]
    fn identifications_tell_what_was_skipped_and_what_is_late() {
        let ids = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 10, 13];
        let numbers = ids.map(|id| (Some(id), Some(1)));
        let last: Vec<_> = placed(&numbers).split_off(8);
        let expected = [
            (0, Order::Newer),
            (2, Order::Newer),
            (0, Order::Older),
            (0, Order::Newer),
        ];
        assert_eq!(last, expected);
    }

    /// Segments said to be lost before each of these (milliseconds, identification).
    fn skipped(stamps: &[(i64, u16)]) -> Vec<u16> {
        let mut numbering = Numbering::default();
        let place = |&(ms, id)| numbering.place(&segment(ms, Some(id), None), 1448, false).0;
        stamps.iter().map(place).collect()
    }

    #[test]
    fn a_zero_in_each_is_no_counter() {
        let mut numbering = Numbering::default();
        let answer = Segment {
            flags: TcpFlags::SYN.with(TcpFlags::ACK),
            ..segment(0, Some(0), None)
        };
        numbering.meet(&answer);
        for ms in 1..20 {
            let placed = numbering.place(&segment(ms * 30, Some(0), None), 1448, false);
            assert_eq!(placed, (0, Order::Untold));
        }
    }

    #[test]
    fn a_counter_of_its_own_tells_what_was_lost() {
        let steady = (0..8).map(|n| (n * 10, n as u16));
        let script: Vec<_> = steady.chain([(300, 9), (310, 10)]).collect();
        assert_eq!(skipped(&script)[7..], [0, 1, 0]);
    }

    #[test]
    fn a_counter_that_others_share_tells_nothing() {
        // Other connections send about as much.
        let others = [0, 1, 0, 2, 0, 0, 1, 3, 0, 1, 0, 5, 0, 2, 1, 0, 0, 4];
        let mut id = 0;
        let script: Vec<_> = (0..)
            .zip(others)
            .map(|(n, other)| {
                id += 1 + other;
                (n * 30, id)
            })
            .collect();
        assert_eq!(skipped(&script), [0; 18]);
        // Some count in twos.
        let twos: Vec<_> = (0..20).map(|n| (n * 30, n as u16 * 2)).collect();
        assert_eq!(skipped(&twos), [0; 20]);
    }

    #[test]
    fn without_identifications_stamps_tell_unless_they_are_equal() {
        let numbers = [7, 8, 8, 7, 9].map(|tsval| (None, Some(tsval)));
        let orders: Vec<_> = placed(&numbers)
            .into_iter()
            .map(|(_, order)| order)
            .collect();
        let expected = [
            Order::Untold,
            Order::Newer,
            Order::Untold,
            Order::Older,
            Order::Newer,
        ];
        assert_eq!(orders, expected);
    }
}
