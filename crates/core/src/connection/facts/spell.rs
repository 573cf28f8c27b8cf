//! A state that is entered and left repeatedly.

use core::time::Duration;

use crate::observed::time::Timestamp;

/// Number of times that a state was entered, and its total duration.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spell {
    pub(crate) times: u32,
    total: Duration,
    since: Option<Timestamp>,
}

impl Spell {
    /// Records that the state holds, or does not, from `at` on.
    pub(crate) fn set(&mut self, is_so: bool, at: Timestamp) {
        match (self.since, is_so) {
            (None, true) => {
                self.times = self.times.saturating_add(1);
                self.since = Some(at);
            }
            (Some(since), false) => {
                self.total = self.total.saturating_add(at.since(since));
                self.since = None;
            }
            _ => {}
        }
    }

    /// Returns the total time in the state, observed until `end`.
    pub(crate) fn total(&self, end: Timestamp) -> Duration {
        let open = self.since.map_or(Duration::ZERO, |since| end.since(since));
        self.total.saturating_add(open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spells_add_up_and_an_open_one_lasts_to_the_end() {
        let at = |ms: i64| Timestamp::from_nanos(ms * 1_000_000);
        let mut spell = Spell::default();
        for (ms, is_so) in [(0, false), (10, true), (12, true), (15, false), (90, true)] {
            spell.set(is_so, at(ms));
        }
        assert_eq!(spell.times, 2);
        assert_eq!(spell.total(at(100)), Duration::from_millis(15));
    }
}
