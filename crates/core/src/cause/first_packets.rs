//! The packets that a claim shows: the first ones, in whatever order they are found.

use core::ops::Deref;

use crate::stats::Merge;

/// Maximum number of packets that are kept.
const MOST: usize = 5;

/// The numbers of the first packets that show something, in rising order.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstPackets(Vec<u64>);

impl FirstPackets {
    /// Keeps a packet if it is among the first.
    pub(super) fn add(&mut self, packet: u64) {
        let at = self.0.partition_point(|&kept| kept <= packet);
        if at < MOST {
            self.0.insert(at, packet);
            self.0.truncate(MOST);
        }
    }
}

impl Extend<u64> for FirstPackets {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, packets: I) {
        packets.into_iter().for_each(|packet| self.add(packet));
    }
}

impl Merge for FirstPackets {
    fn merge(&mut self, other: Self) {
        let Self(packets) = other;
        self.extend(packets);
    }
}

impl IntoIterator for FirstPackets {
    type Item = u64;
    type IntoIter = <Vec<u64> as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl Deref for FirstPackets {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_are_kept_in_any_order(numbers in prop::collection::vec(0..50_u64, 0..40)) {
            let (mut kept, mut sorted) = (FirstPackets::default(), numbers.clone());
            kept.extend(numbers);
            sorted.sort_unstable();
            sorted.truncate(MOST);
            prop_assert_eq!(&*kept, &*sorted);
        }
    }
}
