//! A sample of limited size, evenly selected from a stream of unknown length.

/// A sample of at most `most` of the offered items. All items have the same chance to be selected
/// (Vitter's algorithm R). The same stream always gives the same sample.
#[derive(Debug)]
pub(super) struct Reservoir<T> {
    kept: Vec<T>,
    most: usize,
    offered: u64,
    state: u64,
}

impl<T> Reservoir<T> {
    /// Creates an empty reservoir for at most `most` items.
    pub(super) fn new(most: usize) -> Self {
        Self {
            kept: Vec::new(),
            most,
            offered: 0,
            state: 0x6c61_6774_7261_6365,
        }
    }

    /// Offers one item. `make` is called only if the item is selected.
    pub(super) fn offer(&mut self, make: impl FnOnce() -> T) {
        self.offered += 1;
        if self.kept.len() < self.most {
            self.kept.push(make());
            return;
        }
        let place = usize::try_from(self.next_random() % self.offered).unwrap_or(usize::MAX);
        if let Some(kept) = self.kept.get_mut(place) {
            *kept = make();
        }
    }

    /// Returns the selected items, in no order.
    pub(super) fn into_items(self) -> Vec<T> {
        self.kept
    }

    /// Returns the next number of the SplitMix64 generator.
    fn next_random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_stream_is_kept_whole() {
        let mut reservoir = Reservoir::new(10);
        (0..7).for_each(|i| reservoir.offer(|| i));
        assert_eq!(reservoir.into_items(), [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_long_stream_is_kept_evenly() {
        let mut reservoir = Reservoir::new(1000);
        (0..50_000).for_each(|i| reservoir.offer(|| i));
        let kept = reservoir.into_items();
        assert_eq!(kept.len(), 1000);
        for tenth in 0..10 {
            let share = kept.iter().filter(|&&i| i / 5000 == tenth).count();
            assert!((60..=140).contains(&share), "{share} of tenth {tenth}");
        }
    }

    #[test]
    fn nothing_is_kept_where_nothing_may_be() {
        let mut reservoir = Reservoir::new(0);
        (0..5).for_each(|i| reservoir.offer(|| i));
        assert!(reservoir.into_items().is_empty());
    }
}
