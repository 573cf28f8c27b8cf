//! The buckets of one power of two.

/// Buckets of a power of two: a value is off by less than this fraction.
pub(super) const BUCKETS: usize = 1 << 10;
/// With more of them in use, each gets its own place.
const FEW: usize = 48;

/// How many observations each bucket holds.
#[derive(Clone, Debug)]
pub(super) enum Octave {
    /// Those in use, sorted by index.
    Few(Vec<(u16, u64)>),
    /// All of them.
    Many(Box<[u64]>),
}

impl Default for Octave {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Octave {
    pub(super) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    #[inline]
    pub(super) fn add(&mut self, index: u16, count: u64) {
        match self {
            Self::Many(counts) => {
                if let Some(bucket) = counts.get_mut(usize::from(index)) {
                    *bucket = bucket.saturating_add(count);
                }
            }
            Self::Few(list) => match list.binary_search_by_key(&index, |&(i, _)| i) {
                Ok(at) => {
                    if let Some(bucket) = list.get_mut(at) {
                        bucket.1 = bucket.1.saturating_add(count);
                    }
                }
                Err(at) if list.len() < FEW => list.insert(at, (index, count)),
                Err(_) => self.widen().add(index, count),
            },
        }
    }

    #[cold]
    fn widen(&mut self) -> &mut Self {
        let mut counts = vec![0; BUCKETS].into_boxed_slice();
        for (index, count) in self.iter() {
            if let Some(bucket) = counts.get_mut(usize::from(index)) {
                *bucket = count;
            }
        }
        *self = Self::Many(counts);
        self
    }

    pub(super) fn subtract(&mut self, index: u16, count: u64) {
        match self {
            Self::Many(counts) => {
                if let Some(bucket) = counts.get_mut(usize::from(index)) {
                    *bucket = bucket.saturating_sub(count);
                }
            }
            Self::Few(list) => {
                list.retain_mut(|(i, n)| {
                    if *i == index {
                        *n = n.saturating_sub(count);
                    }
                    *n > 0
                });
            }
        }
    }

    /// The buckets in use and what they hold, ascending.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (u16, u64)> + '_ {
        let (few, many): (&[(u16, u64)], &[u64]) = match self {
            Self::Few(list) => (list, &[]),
            Self::Many(counts) => (&[], counts),
        };
        let many = many.iter().enumerate().filter(|&(_, &count)| count > 0);
        let many = many.map(|(index, &count)| (index as u16, count));
        few.iter().copied().chain(many)
    }
}
