//! A map for small integer keys that are close together.

use super::Merge;

/// Values by number, found by direct indexing. The memory used is one entry per value, and one word
/// for each number from the minimum to the maximum.
#[derive(Clone, Debug)]
pub(crate) struct Slots<T> {
    /// The number of the first slot.
    first: usize,
    places: Vec<Option<Box<T>>>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            first: 0,
            places: Vec::new(),
        }
    }
}

impl<T> Slots<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(crate) fn get(&self, number: usize) -> Option<&T> {
        let place = number.checked_sub(self.first)?;
        self.places.get(place)?.as_deref()
    }

    /// Returns the value at `number`; inserts the result of `make` if there is none.
    #[inline]
    pub(crate) fn get_or_insert_with(&mut self, number: usize, make: impl FnOnce() -> T) -> &mut T {
        self.place(number).get_or_insert_with(|| Box::new(make()))
    }

    /// Returns the slot of `number`, with its value if there is one.
    #[inline]
    pub(crate) fn place(&mut self, number: usize) -> &mut Option<Box<T>> {
        let place = match number.checked_sub(self.first) {
            Some(place) if place < self.places.len() => place,
            _ => self.make_room(number),
        };
        &mut self.places[place]
    }

    /// Iterates over the values with their numbers, ascending.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, &T)> + '_ {
        let places = self.places.iter().enumerate();
        places.filter_map(|(place, value)| Some((self.first + place, value.as_deref()?)))
    }

    /// Iterates over the values with their numbers, ascending, and consumes the map.
    pub(crate) fn into_values(self) -> impl Iterator<Item = (usize, Box<T>)> {
        let places = self.places.into_iter().enumerate();
        places.filter_map(move |(place, value)| Some((self.first + place, value?)))
    }

    /// Creates a slot for `number`, and returns its index.
    #[cold]
    fn make_room(&mut self, number: usize) -> usize {
        if self.is_empty() {
            self.first = number;
        }
        let before = self.first.saturating_sub(number);
        self.places.splice(0..0, (0..before).map(|_| None));
        self.first -= before;
        let place = number - self.first;
        if place >= self.places.len() {
            self.places.resize_with(place + 1, || None);
        }
        place
    }
}

impl<T: Default + Merge> Merge for Slots<T> {
    fn merge(&mut self, other: Self) {
        let Self {
            first: _,
            places: _,
        } = other;
        for (number, value) in other.into_values() {
            self.get_or_insert_with(number, T::default).merge(*value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_again_wherever_they_were_put() {
        let mut slots = Slots::default();
        for number in [7, 3, 12, 3] {
            *slots.get_or_insert_with(number, || 0) += number;
        }
        let all: Vec<_> = slots
            .iter()
            .map(|(number, &value)| (number, value))
            .collect();
        assert_eq!(all, [(3, 6), (7, 7), (12, 12)]);
        assert_eq!(
            (slots.get(3), slots.get(8), slots.get(0)),
            (Some(&6), None, None)
        );
        assert_eq!(slots.into_values().last(), Some((12, Box::new(12))));
    }
}
