//! What the probes of a series differ in: the ports that they come from, their
//! sizes, their flags.

/// Which ports a series of probes is sent from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourcePorts {
    /// Another one each time, the kernel's choice.
    #[default]
    Fresh,
    /// From the first one to the last, again and again: one for a fixed port.
    /// A path's members are chosen by the ports, so each shows by its own.
    Range {
        /// The first one.
        first: u16,
        /// The last one.
        last: u16,
    },
}

impl SourcePorts {
    /// How many there are, where they are told.
    pub fn count(self) -> Option<u32> {
        match self {
            Self::Fresh => None,
            Self::Range { first, last } => Some(u32::from(last.saturating_sub(first)) + 1),
        }
    }

    /// The port of the probe of this number; 0 for the kernel's choice.
    pub(super) fn of(self, number: u32) -> u16 {
        match self {
            Self::Fresh => 0,
            Self::Range { first, last } => {
                let count = u32::from(last.saturating_sub(first)) + 1;
                first.saturating_add((number % count) as u16)
            }
        }
    }
}

/// The payload bytes of a series of probes: from the first to the last by equal
/// steps, again and again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// The first one.
    pub first: u16,
    /// The greatest that may be reached.
    pub last: u16,
    /// From one to the next; at least 1 counts.
    pub step: u16,
}

impl Sizes {
    /// One size for all.
    pub fn one(size: u16) -> Self {
        Self {
            first: size,
            last: size,
            step: 1,
        }
    }

    /// How many there are.
    pub fn count(self) -> u32 {
        u32::from(self.last.saturating_sub(self.first) / self.step.max(1)) + 1
    }

    /// The size of the probe of this number.
    pub(super) fn of(self, number: u32) -> u16 {
        let steps = (number % self.count()) as u16;
        self.first
            .saturating_add(steps.saturating_mul(self.step.max(1)))
    }

    /// All of them.
    pub(super) fn all(self) -> impl Iterator<Item = u16> {
        (self.first..=self.last).step_by(self.step.max(1).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_gone_through_again_and_again() {
        let sizes = Sizes {
            first: 100,
            last: 1_000,
            step: 400,
        };
        let got: Vec<u16> = (0..4).map(|number| sizes.of(number)).collect();
        assert_eq!(got, [100, 500, 900, 100]);
        assert_eq!(sizes.all().collect::<Vec<_>>(), [100, 500, 900]);
        assert_eq!((Sizes::one(7).count(), Sizes::one(7).of(9)), (1, 7));
        assert_eq!(Sizes::default().of(3), 0);
        let all = Sizes {
            first: 0,
            last: u16::MAX,
            step: 1,
        };
        assert_eq!((all.count(), all.of(65_535)), (65_536, 65_535));
    }

    #[test]
    fn a_range_is_gone_through_again_and_again() {
        let range = SourcePorts::Range {
            first: 65_534,
            last: 65_535,
        };
        let ports: Vec<u16> = (0..5).map(|number| range.of(number)).collect();
        assert_eq!(ports, [65_534, 65_535, 65_534, 65_535, 65_534]);
        let fixed = SourcePorts::Range { first: 7, last: 7 };
        assert_eq!((fixed.of(0), fixed.of(9)), (7, 7));
        assert_eq!(SourcePorts::Fresh.of(3), 0);
    }
}
