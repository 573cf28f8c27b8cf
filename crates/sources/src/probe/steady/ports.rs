//! The ports that probes come from.

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

#[cfg(test)]
mod tests {
    use super::*;

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
