//! The order in which a sender sent its segments, derived from its IP identifications and
//! timestamps.

mod count;

use core::time::Duration;

use count::{Count, MAX_SKIPPED, Step};

use crate::attribution::LEAST_TIMEOUT;
use crate::attribution::packet::{Order, longest_repair};
use crate::observed::segment::LINUX_TTL;
use crate::observed::segment::{Segment, TcpFlags};
use crate::observed::time::Timestamp;

/// Minimum number of increments of exactly one before a gap counts as a loss: for hosts that
/// answered a SYN as Linux does, and for others.
const REGULAR: u32 = 3;
const REGULAR_OF_OTHERS: u32 = 5;
/// Minimum number of increments of exactly one per gap that no loss explains: a counter shared by
/// all connections of a host has gaps wherever another connection sends.
const REGULAR_A_GAP: u32 = 4;
/// Minimum time of a repair. After a gap due to losses, the lost data is retransmitted: the end of
/// a flight by a probe, two round trips later; a whole flight by a timer.
const LEAST_REPAIR: Duration = Duration::from_millis(2);

/// A sender's IPv4 identifications and timestamps. Linux increments the identification by one for
/// each segment of a connection (`ip_select_ident_segs()`), so a gap means segments that never
/// arrived here; timestamps never go back (RFC 7323 §5.4).
///
/// Other systems number all packets of a host by one counter, by several or at random, and NAT
/// routers do the same. Whether this connection has a counter of its own is therefore tested for
/// each connection, and again for each gap. Whatever the counter, a segment that fills a gap in it
/// was sent before the segment that arrived ahead of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbering {
    count: Count,
    /// True if any segment may be numbered the way Linux does it.
    is_numbered: bool,
    /// Number of increments of exactly one, and of numbers that filled a gap.
    regular: u32,
    /// Number of gaps without a missing byte that were long enough for a repair.
    repairs: u16,
    /// Number of gaps without a missing byte that were too short for a repair.
    riddles: u16,
    /// True if the sender answered a SYN with identification 0, as Linux does.
    is_linux: bool,
    /// True if other connections of the host were seen to use the same counter.
    is_shared: bool,
    /// The time of the last numbered segment.
    last: Timestamp,
    /// True if that segment carried data.
    had_data: bool,
    /// The newest timestamp (TSval), and the newest echo of the peer's timestamp that came with it
    /// (TSecr).
    newest_timestamp: (u32, u32),
    has_timestamp: bool,
}

impl Numbering {
    /// Takes in a SYN. Linux answers a SYN with identification 0 (`ip_build_and_send_pkt()` in
    /// `net/ipv4/ip_output.c`) and counts from the next segment on.
    pub(crate) fn meet(&mut self, syn: &Segment) {
        if syn.flags.contains(TcpFlags::ACK) && syn.ip.id == Some(0) {
            (self.regular, self.is_linux) = (REGULAR, true);
        }
    }

    /// Records that other connections use the same counter, so that gaps are due to them.
    pub(crate) fn share(&mut self) {
        self.is_shared = true;
    }

    /// Returns the number of this sender's segments that were lost before the observation point
    /// just before this one (0 if the identifications do not show it), and the segment's position
    /// in sending order. `is_past_hole`: bytes before it are missing, which explains a gap.
    pub(crate) fn place(
        &mut self,
        segment: &Segment,
        mss: u32,
        is_past_hole: bool,
    ) -> (u16, Order) {
        let by_timestamp = self.by_timestamp(segment);
        // Two zeros in a row mean that the sender does not number its packets (RFC 6864 §4.1).
        let is_counted = |&id: &u16| id != 0 || self.count.expected == Some(0);
        let Some(id) = segment.ip.id.filter(is_counted) else {
            return (0, by_timestamp);
        };
        if segment.payload_len <= mss && self.count.goes_on_with(id) {
            return self.next(segment, by_timestamp);
        }
        let parts = if segment.payload_len > mss {
            u16::try_from(segment.payload_len.div_ceil(mss)).unwrap_or(1)
        } else {
            1
        };
        let step = self
            .count
            .observe_id(id, parts, by_timestamp == Order::Newer);
        let placed = if may_be_linux(segment) {
            self.weigh(segment, step, is_past_hole)
        } else {
            None
        };
        let is_late = matches!(step, Step::Late { .. }) || placed == Some((0, Order::Older));
        if !is_late {
            self.count.go_on(id, parts);
        }
        placed.unwrap_or(match step {
            Step::Late { is_certain: true } => (0, Order::Older),
            _ => (0, by_timestamp),
        })
    }

    /// Places a segment that has the next number while no earlier number is missing, as for most
    /// segments.
    #[inline]
    fn next(&mut self, segment: &Segment, by_timestamp: Order) -> (u16, Order) {
        if !may_be_linux(segment) {
            return (0, by_timestamp);
        }
        (self.last, self.is_numbered) = (segment.at, true);
        self.had_data = segment.payload_len > 0;
        let is_told = self.is_own_counter();
        self.regular = self.regular.saturating_add(1);
        (0, if is_told { Order::Newer } else { by_timestamp })
    }

    /// Determines whether the counter is the connection's own; if so, returns the number of lost
    /// segments and the segment's order.
    fn weigh(&mut self, segment: &Segment, step: Step, is_past_hole: bool) -> Option<(u16, Order)> {
        let last = core::mem::replace(&mut self.last, segment.at);
        let was_numbered = core::mem::replace(&mut self.is_numbered, true);
        let had_data = core::mem::replace(&mut self.had_data, segment.payload_len > 0);
        let since = || {
            if was_numbered {
                segment.at.since(last)
            } else {
                Duration::ZERO
            }
        };
        let is_told = self.is_own_counter();
        let mut is_riddle = false;
        match step {
            // Only an ascending counter yields a late segment with a number that was skipped.
            Step::On(0) | Step::Late { .. } => self.regular = self.regular.saturating_add(1),
            // An older segment that came late shows nothing about the counter.
            Step::Away(skipped) if is_told && skipped > u16::MAX - MAX_SKIPPED => {
                return Some((0, Order::Older));
            }
            Step::On(_) if is_past_hole => {}
            Step::On(skipped) if is_repair(skipped, since(), had_data) => {
                self.repairs = self.repairs.saturating_add(1)
            }
            Step::On(_) => {
                is_riddle = true;
                self.riddles = self.riddles.saturating_add(1);
            }
            Step::Away(_) => self.regular = 0,
        }
        match step {
            // Lost acknowledgements leave such gaps, and packets to others.
            Step::On(_) if is_told && is_riddle => Some((0, Order::Newer)),
            Step::On(skipped) if is_told => Some((skipped, Order::Newer)),
            Step::Late { .. } if is_told => Some((0, Order::Older)),
            _ => None,
        }
    }

    /// Returns true if the connection has a counter of its own: a gap then means a loss, and
    /// without a gap nothing was lost.
    pub(crate) fn tells_losses(&self) -> bool {
        self.is_numbered && self.is_own_counter()
    }

    #[inline]
    fn is_own_counter(&self) -> bool {
        let (least, a_repair) = if self.is_linux {
            (REGULAR, 1)
        } else {
            (REGULAR_OF_OTHERS, 2)
        };
        if self.riddles == 0 && self.repairs == 0 {
            return !self.is_shared && self.regular >= least;
        }
        let riddles = u32::from(self.riddles).saturating_mul(REGULAR_A_GAP);
        let repairs = u32::from(self.repairs).saturating_mul(a_repair);
        !self.is_shared && self.regular >= least.max(riddles).max(repairs)
    }

    /// Returns the order by timestamps. A timestamp equal to the newest one decides nothing,
    /// because it counts milliseconds; then the echoed timestamp of the peer does: neither goes
    /// back, and a sender that received something in between echoes its timestamp.
    fn by_timestamp(&mut self, segment: &Segment) -> Order {
        let Some(stamp @ (tsval, echo)) = segment.options.timestamps else {
            return Order::Untold;
        };
        if !core::mem::replace(&mut self.has_timestamp, true) {
            self.newest_timestamp = stamp;
        }
        let (newest, newest_echo) = self.newest_timestamp;
        let by_echo = match (echo, newest_echo) {
            // None (RFC 7323 §3.2).
            (0, _) | (_, 0) => 0,
            _ => echo.wrapping_sub(newest_echo) as i32,
        };
        match (tsval.wrapping_sub(newest) as i32, by_echo) {
            (0, 0) => Order::Untold,
            (..0, _) | (0, ..0) => Order::Older,
            _ => {
                self.newest_timestamp = stamp;
                Order::Newer
            }
        }
    }
}

/// Returns true if `skipped` lost segments may have been retransmitted within `since`, the last of
/// them at its end. A probe comes so soon only for the end of a flight, of which other data arrived
/// just before (`had_data`): for a lone segment, a sender first waits as long as its acknowledgement
/// may be delayed (RFC 8985 §7.2).
fn is_repair(skipped: u16, since: Duration, had_data: bool) -> bool {
    let is_soon_enough = since <= longest_repair(skipped);
    let is_probe = skipped == 1 && had_data && since >= LEAST_REPAIR;
    is_soon_enough && (since >= LEAST_TIMEOUT || is_probe)
}

/// Returns true if the segment may come from Linux, which does path MTU discovery and therefore
/// forbids fragments (`ip_no_pmtu_disc`).
fn may_be_linux(segment: &Segment) -> bool {
    segment.ip.dont_fragment && segment.ip.ttl <= LINUX_TTL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::flow::Endpoint;
    use crate::observed::segment::{IpFacts, TcpOptions};

    /// A segment at this millisecond, with this identification and TSval.
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

    /// Returns the segments lost before each of these (identification, TSval), and its order.
    fn placed(numbers: &[(Option<u16>, Option<u32>)]) -> Vec<(u16, Order)> {
        let mut numbering = Numbering::default();
        let place = |&(id, tsval)| numbering.place(&segment(0, id, tsval), 1448, false);
        numbers.iter().map(place).collect()
    }

    #[test]
    fn identifications_tell_what_was_skipped_and_what_is_late() {
        let ids = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 10, 13];
        let mut numbering = Numbering::default();
        let place = |id| numbering.place(&segment(0, Some(id), Some(1)), 1448, id == 12);
        let last = ids.map(place)[8..].to_vec();
        let expected = [
            (0, Order::Newer),
            (2, Order::Newer),
            (0, Order::Older),
            (0, Order::Newer),
        ];
        assert_eq!(last, expected);
    }

    /// Returns the orders of segments without the flag "don't fragment". Few senders with a counter
    /// of their own omit this flag.
    fn orders_of_others(ids: &[u16]) -> Vec<Order> {
        let mut numbering = Numbering::default();
        let place = |&id| {
            let mut segment = segment(0, Some(id), None);
            segment.ip.dont_fragment = false;
            numbering.place(&segment, 1448, true)
        };
        let placed: Vec<_> = ids.iter().map(place).collect();
        assert!(placed.iter().all(|&(lost, _)| lost == 0), "{placed:?}");
        assert!(!numbering.tells_losses());
        placed.into_iter().map(|(_, order)| order).collect()
    }

    #[test]
    fn a_counter_that_is_reordered_from_its_start_is_one_all_the_same() {
        let ids = [1, 2, 3, 5, 4, 6, 7, 9, 8, 11, 13, 10, 12, 14];
        let mut numbering = Numbering::default();
        let place = |id| numbering.place(&segment(0, Some(id), None), 1448, true);
        let last = ids.map(place)[8..].to_vec();
        let (late, lost) = ((0, Order::Older), |lost| (lost, Order::Newer));
        assert_eq!(last, [late, lost(1), lost(1), late, late, lost(0)]);
    }

    #[test]
    fn what_fills_a_gap_was_sent_before_whosever_the_counter_is() {
        // Other connections send in between. The late segments arrived before the retransmissions
        // 40 and 41.
        let ids = [1, 9, 10, 11, 13, 12, 14, 16, 18, 20, 15, 17, 19, 21, 40, 41];
        let orders = orders_of_others(&ids);
        let late: Vec<_> = (0..16).filter(|&n| orders[n] == Order::Older).collect();
        assert_eq!(late, [5, 10, 11, 12]);
        assert!(!orders.contains(&Order::Newer));
        // Random numbers, and those of two counters far apart.
        let random = (0..200_u16).map(|n| n.wrapping_mul(40_503).rotate_left(5));
        let apart = (1..40).flat_map(|n| [n, 30_000 + n]);
        for ids in [random.collect::<Vec<_>>(), apart.collect()] {
            let orders = orders_of_others(&ids);
            assert!(orders.iter().all(|&order| order == Order::Untold));
        }
    }

    /// A controller that answers one request at a time, and that numbers packets to others too. Its
    /// answers come `pause` ms after a bare ACK or, if `follows`, after other data of their flight.
    fn losses_told(pause: i64, follows: bool) -> u32 {
        let mut numbering = Numbering::default();
        let (mut id, mut ms, mut lost) = (100, 0, 0);
        for turn in 0..60 {
            for part in 0..3_u32 {
                let skips = part == 2 && turn % 5 == 4;
                id += if skips { 2 } else { 1 };
                ms += if skips { pause } else { 1 };
                let mut segment = segment(ms, Some(id), None);
                segment.payload_len = if part == 1 && !follows { 0 } else { 72 };
                lost += u32::from(numbering.place(&segment, 1448, false).0);
            }
        }
        lost
    }

    #[test]
    fn a_lone_segment_is_not_sent_again_within_a_few_round_trips() {
        for pause in [3, 22, 150] {
            assert_eq!(losses_told(pause, false), 0, "{pause} ms");
            assert!(losses_told(pause, true) > 5, "{pause} ms");
        }
        assert!(losses_told(210, false) > 5);
    }

    #[test]
    fn two_counters_close_together_are_told_from_reordering_by_stamps() {
        let ids = (1..20).flat_map(|n| [n, 30 + n]);
        let numbers: Vec<_> = ids.zip(1..).map(|(id, ms)| (Some(id), Some(ms))).collect();
        let is_late = |&(_, order): &(u16, Order)| order == Order::Older;
        assert!(!placed(&numbers).iter().any(is_late));
    }

    #[test]
    fn of_equal_stamps_the_echo_tells() {
        let mut numbering = Numbering::default();
        let mut order = |tsval, echo| {
            let mut segment = segment(0, None, None);
            segment.options.timestamps = Some((tsval, echo));
            numbering.place(&segment, 1448, false).1
        };
        assert_eq!(order(7, 20), Order::Untold);
        assert_eq!(order(7, 20), Order::Untold);
        assert_eq!(order(7, 21), Order::Newer);
        assert_eq!(order(7, 20), Order::Older);
        assert_eq!(order(7, 0), Order::Untold);
        assert_eq!(order(8, 20), Order::Newer);
    }

    /// Returns the number of segments that count as lost before each of these (milliseconds,
    /// identification).
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
        // Other connections send about as many.
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
        // Some hosts count in twos.
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
