//! The addresses of the hosts whose kernels captured the packets.
//!
//! A cooked capture says of each packet if it left or arrived. The sources of packets that leave are
//! addresses of this host, or of hosts for which it forwards. The latter's packets arrive as well.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use crate::observed::event::PointId;
use crate::observed::segment::SentBy;

/// Maximum number of addresses that are remembered. The host itself has few.
const MAX_ADDRESSES: usize = 256;

/// The source addresses of a capture, by the ways that their packets took.
#[derive(Clone, Debug, Default)]
pub(super) struct LocalAddresses {
    seen: BTreeMap<(PointId, IpAddr), Ways>,
    /// The last source, which mostly is the next one as well.
    last: Option<(PointId, IpAddr, SentBy)>,
}

/// The ways of an address's packets: out of the host, and in.
#[derive(Clone, Copy, Debug, Default)]
struct Ways {
    left: bool,
    arrived: bool,
}

impl LocalAddresses {
    #[inline]
    pub(super) fn observe(&mut self, point: PointId, source: &IpAddr, sent_by: SentBy) {
        if sent_by != SentBy::Unknown && self.last != Some((point, *source, sent_by)) {
            self.add(point, *source, sent_by);
        }
    }

    fn add(&mut self, point: PointId, source: IpAddr, sent_by: SentBy) {
        self.last = Some((point, source, sent_by));
        let key = (point, source);
        if self.seen.len() >= MAX_ADDRESSES && !self.seen.contains_key(&key) {
            return;
        }
        let ways = self.seen.entry(key).or_default();
        let is_other = sent_by == SentBy::AnotherHost;
        ways.left |= !is_other;
        ways.arrived |= is_other;
    }

    /// Returns the addresses of the capturing hosts themselves, by observation point.
    pub(super) fn own(&self) -> BTreeSet<(PointId, IpAddr)> {
        let own = self
            .seen
            .iter()
            .filter(|(_, ways)| ways.left && !ways.arrived);
        own.map(|(address, _)| *address).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_packets_only_leave_is_this_host_and_not_one_that_it_forwards_for() {
        let [own, other, behind] = [1, 2, 3].map(|last| IpAddr::from([10, 0, 0, last]));
        let mut local = LocalAddresses::default();
        for (source, sent_by) in [
            (own, SentBy::ThisHostOrBehind),
            (other, SentBy::AnotherHost),
            (behind, SentBy::AnotherHost),
            (behind, SentBy::ThisHostOrBehind),
            (IpAddr::from([127, 0, 0, 1]), SentBy::Unknown),
        ] {
            local.observe(PointId(0), &source, sent_by);
        }
        // What leaves one host arrives at the other one.
        local.observe(PointId(1), &own, SentBy::AnotherHost);
        assert_eq!(local.own(), BTreeSet::from([(PointId(0), own)]));
    }
}
