//! Orders in which a sender may make a list grow.

use std::collections::VecDeque;

use crate::draw::Draw;

/// An order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Rising,
    Falling,
    /// Drawn from the seed.
    Random,
    /// Each key splits the widest range between the keys before it.
    Splitting,
    /// All even keys rising, then the odd ones between them falling.
    Islands,
    /// Rising, and each key again after a few others.
    Again,
    /// The first and the last keys of those that are left, by turns.
    Inwards,
}

impl Order {
    pub(crate) const ALL: [(&'static str, Self); 7] = [
        ("rising", Self::Rising),
        ("falling", Self::Falling),
        ("random", Self::Random),
        ("splitting", Self::Splitting),
        ("islands", Self::Islands),
        ("again", Self::Again),
        ("inwards", Self::Inwards),
    ];

    /// Returns this many keys, from 0: each once, unless they come again.
    pub(crate) fn keys(self, count: u32, seed: u64) -> Vec<u32> {
        match self {
            Self::Rising => (0..count).collect(),
            Self::Falling => (0..count).rev().collect(),
            Self::Random => shuffled(count, seed),
            Self::Splitting => halves(count),
            Self::Islands => {
                let even = (0..count).step_by(2);
                even.chain((0..count).rev().filter(|key| key % 2 == 1))
                    .collect()
            }
            Self::Again => {
                let half = 0..count.div_ceil(2);
                half.flat_map(|key| [key, key.saturating_sub(3)])
                    .take(count as usize)
                    .collect()
            }
            Self::Inwards => {
                let both = (0..count.div_ceil(2)).flat_map(|key| [key, count - 1 - key]);
                both.take(count as usize).collect()
            }
        }
    }
}

fn shuffled(count: u32, seed: u64) -> Vec<u32> {
    let mut draw = Draw::new(seed);
    let mut keys: Vec<u32> = (0..count).collect();
    for last in (1..keys.len()).rev() {
        keys.swap(last, draw.below(last + 1));
    }
    keys
}

/// Returns the keys below `count`, each of which splits a range that none before it is in.
fn halves(count: u32) -> Vec<u32> {
    let (mut ranges, mut keys) = (VecDeque::from([(0, count)]), Vec::new());
    while let Some((start, end)) = ranges.pop_front() {
        if start < end {
            let middle = start.midpoint(end);
            keys.push(middle);
            ranges.extend([(start, middle), (middle + 1, end)]);
        }
    }
    keys
}
