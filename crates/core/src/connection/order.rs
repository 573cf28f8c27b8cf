//! The order in which a sender sent its segments, from what it numbers them by.

use crate::segment::{Segment, TcpFlags};

/// Segments in a row with consecutive identifications before a gap means anything.
const REGULAR: u8 = 3;
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
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbering {
    expected: Option<u16>,
    /// How many in a row came as expected.
    regular: u8,
    newest_tsval: Option<u32>,
}

impl Numbering {
    /// Linux answers a SYN with identification 0 (`ip_build_and_send_pkt()` in
    /// `net/ipv4/ip_output.c`) and counts from the next segment on.
    pub(crate) fn meet(&mut self, syn: &Segment) {
        if syn.flags.contains(TcpFlags::ACK) && syn.ip.id == Some(0) {
            self.regular = REGULAR;
        }
    }

    /// Segments of this sender that were lost on the way here just before this
    /// one, as far as the identifications tell (0 where they do not), and
    /// where it stands in the order they were sent.
    pub(crate) fn place(&mut self, segment: &Segment, mss: u32) -> (u16, Order) {
        let by_stamp = self.by_stamp(segment);
        let Some(id) = segment.ip.id else {
            return (0, by_stamp);
        };
        let parts = match segment.payload_len > mss {
            true => u16::try_from(segment.payload_len.div_ceil(mss)).unwrap_or(1),
            false => 1,
        };
        let skipped = self
            .expected
            .map_or(0, |expected| id.wrapping_sub(expected));
        let was_regular = self.regular >= REGULAR;
        match skipped {
            0 => self.regular = self.regular.saturating_add(1),
            1..=MAX_SKIPPED if was_regular => {}
            // Something older, late: nothing to learn from it.
            _ if was_regular && skipped > u16::MAX - MAX_SKIPPED => return (0, Order::Older),
            _ => self.regular = 0,
        }
        self.expected = Some(id.wrapping_add(parts));
        match was_regular && skipped <= MAX_SKIPPED {
            true => (skipped, Order::Newer),
            false => (0, by_stamp),
        }
    }

    /// The same stamp as the newest one says nothing: it counts milliseconds.
    fn by_stamp(&mut self, segment: &Segment) -> Order {
        let Some((tsval, _)) = segment.options.timestamps else {
            return Order::Untold;
        };
        let newest = *self.newest_tsval.get_or_insert(tsval);
        match tsval.wrapping_sub(newest) as i32 {
            0 => Order::Untold,
            ..0 => Order::Older,
            _ => {
                self.newest_tsval = Some(tsval);
                Order::Newer
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::PointId;
    use crate::flow::{Endpoint, FlowKey, Transport};
    use crate::segment::{IpFacts, TcpOptions};
    use crate::time::Timestamp;

    /// Where segments given as (identification, TSval) stand.
    fn placed(numbers: &[(Option<u16>, Option<u32>)]) -> Vec<(u16, Order)> {
        let end = |last| Endpoint::new([10, 0, 0, last].into(), 80);
        let (flow, direction) = FlowKey::new(Transport::Tcp, end(1), end(2));
        let mut numbering = Numbering::default();
        let segment = |&(id, tsval): &(Option<u16>, Option<u32>)| Segment {
            at: Timestamp::from_nanos(0),
            number: 1,
            point: PointId(0),
            flow,
            direction,
            seq: 0,
            ack: 0,
            flags: TcpFlags::ACK,
            window: 0,
            payload_len: 100,
            options: TcpOptions {
                timestamps: tsval.map(|tsval| (tsval, 0)),
                ..TcpOptions::default()
            },
            ip: IpFacts {
                id,
                ..IpFacts::default()
            },
        };
        numbers
            .iter()
            .map(|numbers| numbering.place(&segment(numbers), 1448))
            .collect()
    }

    #[test]
    fn identifications_tell_what_was_skipped_and_what_is_late() {
        let ids = [5, 6, 7, 8, 9, 12, 10, 13];
        let numbers = ids.map(|id| (Some(id), Some(1)));
        let last: Vec<_> = placed(&numbers).split_off(4);
        let expected = [
            (0, Order::Newer),
            (2, Order::Newer),
            (0, Order::Older),
            (0, Order::Newer),
        ];
        assert_eq!(last, expected);
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
