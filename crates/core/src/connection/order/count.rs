//! A counter with which a sender numbers its packets, and the numbers skipped so far.

/// Maximum jump that counts as segments that did not arrive.
pub(super) const MAX_SKIPPED: u16 = 64;
/// Minimum number of consecutive close numbers before a late one that distinguishes a counter from
/// random numbers: two in a thousand random numbers are as close.
const RISING: u8 = 5;

/// The numbers of a sender, from its own counter or from one shared with others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) expected: Option<u16>,
    /// The skipped numbers among the last 32, one bit for each; the lowest bit is the number before
    /// `expected`.
    missing: u32,
    /// Length of the current run of numbers that followed closely or filled a gap.
    rising: u8,
}

/// The position of a number relative to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A number after the last one, with the count of numbers in between that did not come.
    On(u16),
    /// A number that fills a gap. `is_certain`: true if the order of sending is certain, because
    /// all earlier numbers were ascending: this packet was sent before the one that arrived just
    /// ahead of it.
    Late { is_certain: bool },
    /// A number further back than what is remembered, or too far ahead.
    Away(u16),
}

impl Count {
    /// Takes in the identification of a segment that consists of `parts` segments. `is_newer` is
    /// true if other evidence shows that it was sent after all earlier ones.
    #[inline]
    pub(super) fn observe_id(&mut self, id: u16, parts: u16, is_newer: bool) -> Step {
        let is_certain = self.rising >= RISING;
        if !is_newer && self.fills_gap(id, parts) {
            self.rising = self.rising.saturating_add(1);
            return Step::Late { is_certain };
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

    /// Advances the counter if the number is the expected one and no earlier number is missing;
    /// otherwise returns false and does nothing.
    #[inline]
    pub(super) fn goes_on_with(&mut self, id: u16) -> bool {
        let is_next = self.expected == Some(id) && self.missing == 0;
        if is_next {
            self.expected = Some(id.wrapping_add(1));
            self.rising = self.rising.saturating_add(1);
        }
        is_next
    }

    /// Continues the count from a number that fills no gap.
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

    /// Returns true if any of these numbers had been skipped, and records that they came.
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
