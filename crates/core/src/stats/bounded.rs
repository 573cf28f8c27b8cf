//! Lists of bounded length, for keys of which traffic can create any number. The smallest keys are
//! kept, so that the result does not depend on the order of arrival.

use core::hash::Hash;
use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use super::Merge;

/// Maximum length of a merged list before it is sorted, in multiples of `MOST`.
const SHARES: usize = 8;

/// The `MOST` smallest of all elements added, without duplicates. New elements are only appended;
/// the list is sorted when it has reached twice its final size. This is fast, because elements
/// usually arrive in ascending order.
#[derive(Clone, Debug)]
pub(crate) struct Least<T, const MOST: usize> {
    list: Vec<T>,
    /// The greatest element kept. Greater ones are not added. `None` while there is room.
    until: Option<T>,
}

impl<T, const MOST: usize> Default for Least<T, MOST> {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            until: None,
        }
    }
}

impl<T: Ord + Copy, const MOST: usize> Least<T, MOST> {
    #[inline]
    pub(crate) fn add(&mut self, next: T) {
        if self.until.is_some_and(|until| next > until) {
            return;
        }
        self.list.push(next);
        if self.list.len() >= 2 * MOST {
            self.settle();
        }
    }

    /// Returns the elements in ascending order.
    pub(crate) fn sorted(&self) -> Vec<T> {
        let mut settled = self.clone();
        settled.settle();
        settled.list
    }

    #[cold]
    fn settle(&mut self) {
        self.list.sort_unstable();
        self.list.dedup();
        self.list.truncate(MOST);
        let is_full = self.list.len() == MOST;
        self.until = self.list.last().copied().filter(|_| is_full);
    }
}

impl<T: Ord + Copy, const MOST: usize> Merge for Least<T, MOST> {
    fn merge(&mut self, other: Self) {
        // The own limit stays true, and settling renews it.
        let Self { list, until: _ } = other;
        self.list.extend(list);
        if self.list.len() >= SHARES * MOST {
            self.settle();
        }
    }
}

/// The values of the `MOST` smallest of all keys added.
#[derive(Clone, Debug)]
pub(crate) struct Few<K, V, const MOST: usize> {
    /// The index of each key's value: values are expensive to move. Most keys that are asked for are
    /// here, and a hash finds them faster than their order.
    places: HashMap<K, usize, FixedState>,
    /// All indices in the order of their keys.
    ordered: BTreeMap<K, usize>,
    values: Vec<V>,
    /// The greatest key, above which no other is kept; `None` while there is room.
    until: Option<K>,
}

impl<K, V, const MOST: usize> Default for Few<K, V, MOST> {
    fn default() -> Self {
        Self {
            places: HashMap::default(),
            ordered: BTreeMap::new(),
            values: Vec::new(),
            until: None,
        }
    }
}

impl<K: Ord + Copy + Hash, V: Default, const MOST: usize> Few<K, V, MOST> {
    /// Returns the value of `key`, if the key is among the smallest.
    pub(crate) fn of(&mut self, key: K) -> Option<&mut V> {
        // If there are many keys, most of them are greater than all that are kept.
        if self.until.is_some_and(|until| until < key) {
            return None;
        }
        let place = match self.places.get(&key) {
            Some(&place) => place,
            None => self.begin(key)?,
        };
        self.values.get_mut(place)
    }

    /// Makes room for a new key, in place of the greatest one if there are enough; returns the index
    /// of its value.
    #[cold]
    fn begin(&mut self, key: K) -> Option<usize> {
        let place = if self.values.len() < MOST {
            self.values.push(V::default());
            self.values.len() - 1
        } else {
            let (greatest, place) = self.ordered.pop_last()?;
            self.places.remove(&greatest);
            *self.values.get_mut(place)? = V::default();
            place
        };
        self.places.insert(key, place);
        self.ordered.insert(key, place);
        let greatest = self.ordered.last_key_value().map(|(greatest, _)| *greatest);
        self.until = greatest.filter(|_| self.values.len() >= MOST);
        Some(place)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let ordered = self.ordered.iter();
        ordered.filter_map(|(key, &place)| Some((key, self.values.get(place)?)))
    }
}

impl<K: Ord + Copy + Hash, V: Default + Merge, const MOST: usize> Merge for Few<K, V, MOST> {
    fn merge(&mut self, other: Self) {
        let Self {
            ordered,
            mut values,
            places: _,
            until: _,
        } = other;
        for (key, place) in ordered {
            // All following keys are greater.
            let Some(own) = self.of(key) else { break };
            if let Some(value) = values.get_mut(place) {
                own.merge(core::mem::take(value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> impl Iterator<Item = u64> {
        (0..1000).map(|n| n * 7919 % 50)
    }

    #[test]
    fn the_least_stay_whatever_the_order_and_the_shares() {
        let mut all = Least::<u64, 8>::default();
        keys().for_each(|key| all.add(key));
        let mut shares = [Least::<u64, 8>::default(), Least::default()];
        for (key, share) in keys().zip([0, 1, 1].into_iter().cycle()) {
            shares[share].add(key);
        }
        let [mut one, other] = shares;
        one.merge(other);
        let expected: Vec<u64> = (0..8).collect();
        assert_eq!((all.sorted(), one.sorted()), (expected.clone(), expected));
    }

    #[test]
    fn the_least_keys_stay_with_all_that_belongs_to_them() {
        let mut shares = [Few::<u64, u64, 8>::default(), Few::default()];
        for (key, share) in keys().zip([0, 1, 1].into_iter().cycle()) {
            if let Some(count) = shares[share].of(key) {
                *count += 1;
            }
        }
        let [mut one, other] = shares;
        one.merge(other);
        let expected: Vec<(u64, u64)> = (0..8).map(|key| (key, 20)).collect();
        let kept = one.iter().map(|(&key, &value)| (key, value));
        assert_eq!(kept.collect::<Vec<_>>(), expected);
    }
}
