//! Lists that traffic can grow, bounded: the least are kept, so that it does not
//! matter in which order they come.

/// The `MOST` least of all keys that came, each with the sum of what came with
/// it. They are put in order a list at a time, for that is quicker than to find
/// each one's place.
#[derive(Clone, Debug)]
pub(super) struct Least<K, const MOST: usize, V = ()> {
    list: Vec<(K, V)>,
    /// What is greater is not among them; `None`: there is room.
    until: Option<K>,
}

/// What adds up.
pub(super) trait Sum: Copy {
    fn add(&mut self, other: Self);
}

impl Sum for () {
    fn add(&mut self, (): Self) {}
}

impl<K, const MOST: usize, V> Default for Least<K, MOST, V> {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            until: None,
        }
    }
}

impl<K: Ord + Copy, const MOST: usize, V: Sum> Least<K, MOST, V> {
    #[inline]
    pub(super) fn add(&mut self, key: K, value: V) {
        if self.until.is_some_and(|until| key > until) {
            return;
        }
        self.list.push((key, value));
        if self.list.len() >= 2 * MOST {
            self.settle();
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.list.extend(other.list);
        if self.list.len() >= 2 * MOST {
            self.settle();
        }
    }

    /// They, in order.
    pub(super) fn sorted(&self) -> Vec<(K, V)> {
        let mut settled = self.clone();
        settled.settle();
        settled.list
    }

    #[cold]
    fn settle(&mut self) {
        self.list.sort_unstable_by_key(|&(key, _)| key);
        self.list.dedup_by(|next, kept| {
            let is_same = next.0 == kept.0;
            if is_same {
                kept.1.add(next.1);
            }
            is_same
        });
        self.list.truncate(MOST);
        let is_full = self.list.len() == MOST;
        self.until = self.list.last().filter(|_| is_full).map(|&(key, _)| key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Sum for u64 {
        fn add(&mut self, other: Self) {
            *self += other;
        }
    }

    #[test]
    fn the_least_stay_with_all_that_came_with_them() {
        let keys = || (0..1000_u64).map(|n| n * 7919 % 50);
        let mut all = Least::<u64, 8, u64>::default();
        keys().for_each(|key| all.add(key, 1));
        let mut halves = [Least::<u64, 8, u64>::default(), Least::default()];
        for (key, half) in keys().zip([0, 1, 1].into_iter().cycle()) {
            halves[half].add(key, 1);
        }
        let [mut one, other] = halves;
        one.merge(other);
        let expected: Vec<(u64, u64)> = (0..8).map(|key| (key, 20)).collect();
        assert_eq!(all.sorted(), expected);
        assert_eq!(one.sorted(), expected);
    }
}
