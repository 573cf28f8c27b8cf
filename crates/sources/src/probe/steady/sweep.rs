//! The property in which the probes of a series differ: source ports, sizes or flags.

/// The source ports of a series of probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourcePorts {
    /// A different port for each probe. The kernel chooses the ports.
    #[default]
    Fresh,
    /// The ports from `first` to `last`, repeatedly. For a fixed port, both are equal. Multipath
    /// routing selects a path by the port, among other fields, so the results of one port belong to
    /// one path.
    Range {
        /// First port.
        first: u16,
        /// Last port.
        last: u16,
    },
}

impl SourcePorts {
    /// Returns the number of ports; `None` if the kernel chooses them.
    pub fn count(self) -> Option<u32> {
        match self {
            Self::Fresh => None,
            Self::Range { first, last } => Some(u32::from(last.saturating_sub(first)) + 1),
        }
    }

    /// Returns the port of probe number `number`; 0 if the kernel chooses it.
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

/// The payload sizes of a series of probes in bytes, from the first to the last in equal steps,
/// repeatedly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// First size.
    pub first: u16,
    /// Maximum size.
    pub last: u16,
    /// Step from one size to the next; 0 counts as 1.
    pub step: u16,
}

impl Sizes {
    /// Returns sizes with a single value.
    pub fn one(size: u16) -> Self {
        Self {
            first: size,
            last: size,
            step: 1,
        }
    }

    /// Returns the number of sizes.
    pub fn count(self) -> u32 {
        u32::from(self.last.saturating_sub(self.first) / self.step.max(1)) + 1
    }

    /// Returns the size of probe number `number`.
    pub(super) fn of(self, number: u32) -> u16 {
        let steps = (number % self.count()) as u16;
        self.first
            .saturating_add(steps.saturating_mul(self.step.max(1)))
    }

    /// Returns all sizes.
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
