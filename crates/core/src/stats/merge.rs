//! Merging of accumulators: each shard has its own, and at the end they become one.

use core::time::Duration;
use std::collections::BTreeMap;

pub(crate) use lagtrace_merge::Merge;

use super::histogram::Distribution;

/// An accumulator that can take over the observations of another one. Derive it: what is written by
/// hand begins with all its fields by name, so that one that is added cannot be forgotten.
///
/// Counts and times are sums. Nothing else has a way of its own: it may be a maximum, a minimum or
/// the first of both, which the field says with an attribute.
pub(crate) trait Merge {
    /// Adds the observations of another one, of other exchanges.
    fn merge(&mut self, other: Self);
}

/// Implements the trait for numbers, as sums that stay at the greatest number.
macro_rules! sums {
    ($($number:ty),*) => {
        $(impl Merge for $number {
            fn merge(&mut self, other: Self) {
                *self = self.saturating_add(other);
            }
        })*
    };
}

sums!(u32, u64, u128, usize, Duration);

impl Merge for Distribution {
    fn merge(&mut self, other: Self) {
        self.absorb(other);
    }
}

impl<T: Merge, const N: usize> Merge for [T; N] {
    fn merge(&mut self, other: Self) {
        let both = self.iter_mut().zip(other);
        both.for_each(|(own, other)| own.merge(other));
    }
}

impl<A: Merge, B: Merge> Merge for (A, B) {
    fn merge(&mut self, other: Self) {
        self.0.merge(other.0);
        self.1.merge(other.1);
    }
}

impl<T: Merge> Merge for Box<T> {
    fn merge(&mut self, other: Self) {
        self.as_mut().merge(*other);
    }
}

/// Keeps the greater one.
pub(crate) fn max<T: Ord>(own: &mut T, other: T) {
    if other > *own {
        *own = other;
    }
}

/// Keeps the lesser one, if there are two.
pub(crate) fn least<T: Ord>(own: &mut Option<T>, other: Option<T>) {
    *own = own.take().into_iter().chain(other).min();
}

/// Keeps whether one of them is true.
pub(crate) fn any(own: &mut bool, other: bool) {
    *own |= other;
}

/// Takes over the elements.
pub(crate) fn extend<T: IntoIterator + Extend<T::Item>>(own: &mut T, other: T) {
    own.extend(other);
}

/// Merges the entries of each key.
pub(crate) fn entries<K: Ord, V: Default + Merge>(own: &mut BTreeMap<K, V>, other: BTreeMap<K, V>) {
    for (key, value) in other {
        own.entry(key).or_default().merge(value);
    }
}

/// Merges what there is.
pub(crate) fn inner<T: Default + Merge>(own: &mut Option<T>, other: Option<T>) {
    if let Some(other) = other {
        own.get_or_insert_default().merge(other);
    }
}

/// Keeps the earlier beginning and the later end.
pub(crate) fn span<T: Ord>(own: &mut Option<(T, T)>, other: Option<(T, T)>) {
    let both = own.take().into_iter().chain(other);
    *own = both.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
}

/// Keeps the sum of two counts, and the greater value.
pub(crate) fn sum_and_max<T: Ord>(own: &mut (u64, T), other: (u64, T)) {
    own.0.merge(other.0);
    max(&mut own.1, other.1);
}
