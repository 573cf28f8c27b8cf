//! A counter that numbers what a sender sends, with the numbers that it has skipped so far.

/// The longest jump that counts segments that did not come.
pub(super) const MAX_SKIPPED: u16 = 64;
/// Minimum numbers in a row that are close enough before what comes late is told from a number by
/// chance: of random ones two in a thousand are as close.
const RISING: u8 = 5;

/// The numbers of a sender, its own or those of a counter that others share.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) expected: Option<u16>,
    /// The numbers among the last 32 that were skipped, the one before `expected` in the lowest
    /// bit.
    missing: u32,
    /// Numbers in a row that followed closely or filled a gap.
    rising: u8,
}

/// The place of a number among those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A number on from the last one, with the count of numbers between that did not come.
    On(u16),
    /// A number in a gap; `is_told`: all before it rise, so it was sent before what came in front
    /// of it.
    Late { is_told: bool },
    /// A number further back than what is remembered, or on by more.
    Away(u16),
}

impl Count {
    /// Takes in the number of a segment that stands for `parts` segments. `is_newer`: something
    /// else says that it was sent after all before it.
    #[inline]
    pub(super) fn take(&mut self, id: u16, parts: u16, is_newer: bool) -> Step {
        let is_told = self.rising >= RISING;
        if !is_newer && self.fills_gap(id, parts) {
            self.rising = self.rising.saturating_add(1);
            return Step::Late { is_told };
        }
        let skipped = self
            .expected
            .map_or(0, |expected| id.wrapping_sub(expected));
        if skipped <= MAX_SKIPPED {
            Step::On(skipped)
        } else {
            Step::Away(skipped)
        }
    }

    /// Counts on where a number is the one expected and none before it is missing; returns false,
    /// and does nothing else, where it is not so.
    #[inline]
    pub(super) fn goes_on_with(&mut self, id: u16) -> bool {
        let is_next = self.expected == Some(id) && self.missing == 0;
        if is_next {
            self.expected = Some(id.wrapping_add(1));
            self.rising = self.rising.saturating_add(1);
        }
        is_next
    }

    /// Counts on from a number that is no gap's.
    #[inline]
    pub(super) fn go_on(&mut self, id: u16, parts: u16) {
        let skipped = self
            .expected
            .replace(id.wrapping_add(parts))
            .map_or(0, |expected| id.wrapping_sub(expected));
        if skipped > MAX_SKIPPED {
            (self.missing, self.rising) = (0, 0);
            return;
        }
        self.rising = self.rising.saturating_add(1);
        let gap = shifted(1, skipped).wrapping_sub(1);
        self.missing = shifted(shifted(self.missing, skipped) | gap, parts);
    }

    /// Returns true if any of these numbers had been skipped, and notes that they came.
    fn fills_gap(&mut self, id: u16, parts: u16) -> bool {
        let Some(expected) = self.expected.filter(|_| self.missing != 0) else {
            return false;
        };
        let numbers = (0..parts.min(MAX_SKIPPED)).map(|part| id.wrapping_add(part));
        let places = numbers.map(|number| expected.wrapping_sub(number).wrapping_sub(1));
        let bits = places.fold(0, |bits, place| bits | shifted(1, place));
        let is_filler = self.missing & bits != 0;
        self.missing &= !bits;
        is_filler
    }
}

fn shifted(bits: u32, by: u16) -> u32 {
    bits.checked_shl(by.into()).unwrap_or_default()
}
