//! Sets that traffic can grow, bounded: the least are kept, so that it does not
//! matter in which order they come.

use std::collections::BTreeSet;

/// Puts `next` in, if it is among the `most` least.
pub(super) fn keep_least<T: Ord>(set: &mut BTreeSet<T>, next: T, most: usize) {
    let is_full = set.len() >= most;
    if is_full && set.last().is_some_and(|last| next >= *last) {
        return;
    }
    set.insert(next);
    if set.len() > most {
        set.pop_last();
    }
}
