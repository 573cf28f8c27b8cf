//! Orders in which a sender may place the pieces of a stream, for tests of lists that have a limit.

use proptest::prelude::*;
use proptest::sample::Index;

/// Returns the numbers below `count`, rising, falling, splitting what is left into halves, in any
/// order, or in any order with some of them again and again.
pub(crate) fn orders(count: u64) -> impl Strategy<Value = Vec<u64>> {
    let rising: Vec<u64> = (0..count).collect();
    let falling = rising.iter().rev().copied().collect::<Vec<_>>();
    let splitting = halves(0, count);
    let again = proptest::collection::vec(any::<Index>(), count as usize);
    prop_oneof![
        Just(rising.clone()),
        Just(falling),
        Just(splitting),
        Just(rising).prop_shuffle(),
        again.prop_map(move |list| {
            let one = |index: Index| index.index(count as usize) as u64;
            list.into_iter().map(one).collect()
        }),
    ]
}

/// Returns the numbers of a range: each splits a part that none of those before it is in.
fn halves(start: u64, end: u64) -> Vec<u64> {
    let (mut parts, mut list) = (std::collections::VecDeque::from([(start, end)]), Vec::new());
    while let Some((start, end)) = parts.pop_front() {
        if start < end {
            let middle = start.midpoint(end);
            list.push(middle);
            parts.extend([(start, middle), (middle + 1, end)]);
        }
    }
    list
}
