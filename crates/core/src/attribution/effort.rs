//! The work that a connection's exchanges may cost when they are tiled.
//!
//! Repairs are explained by all packets around them, and on a connection that carries several
//! exchanges in parallel each packet belongs to all of them. A sender that makes every segment a
//! repair, or every stream last as long as all others, would make each packet cost as much as
//! thousands. So packets pay for it in advance.

use core::cell::Cell;

/// Number of packets that may be looked at for each packet of a connection. This is enough for the
/// exchanges of a thousand concurrent streams, or for a repair in every fourth segment of a full list
/// [of packets](super::packet_record). Servers allow 100 to 250 streams (RFC 9113 §6.5.2 recommends at
/// least 100). With a quarter of this, a policed connection with 220 streams lost its cause.
const EACH: u32 = 8192;
/// Number of packets that a new connection may have looked at before it has earned them: some programs
/// begin with many exchanges at a time.
const FIRST: u32 = 512 * EACH;
/// The maximum that is saved. This is enough for a thousand exchanges that close at the same time and
/// to which all packets of a full list belong.
const MOST: u32 = 4096 * EACH;

/// The number of packets that may still be looked at.
#[derive(Clone, Debug)]
pub(crate) struct Effort {
    left: Cell<u32>,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            left: Cell::new(FIRST),
        }
    }
}

impl Effort {
    /// Records that a packet was kept.
    #[inline(always)]
    pub(crate) fn earn(&self) {
        self.left.set((self.left.get() + EACH).min(MOST));
    }

    /// Takes what it costs to look at this many packets. Returns false, and takes nothing, if less
    /// is left: what they would show stays unknown.
    pub(super) fn spend(&self, packets: usize) -> bool {
        let packets = u32::try_from(packets).unwrap_or(u32::MAX);
        let rest = self.left.get().checked_sub(packets);
        rest.map(|rest| self.left.set(rest)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::TILED;
    use super::*;

    proptest! {
        /// No more is spent than the first allowance and what packets have earned.
        #[test]
        fn what_is_spent_was_earned(steps in prop::collection::vec((0_u32..50, 0_usize..1_000_000), 1..50)) {
            let (effort, mut earned, mut spent) = (Effort::default(), u64::from(FIRST), 0);
            for (packets, cost) in steps {
                (0..packets).for_each(|_| effort.earn());
                earned += u64::from(packets * EACH);
                let is_enough = effort.left.get() >= cost as u32;
                prop_assert_eq!(effort.spend(cost), is_enough);
                spent += if is_enough { cost as u64 } else { 0 };
                prop_assert_eq!(u64::from(effort.left.get()), earned - spent);
            }
        }
    }

    /// Each request and each response comes in a packet of its own, while all other streams are open.
    #[test]
    fn as_many_streams_as_servers_allow_are_looked_at_without_end() {
        for streams in [100, 250, 1024] {
            let effort = Effort::default();
            for _ in 0..100_000 {
                effort.earn();
                effort.earn();
                assert!(effort.spend(TILED * 2 * streams), "{streams}");
            }
        }
    }

    #[test]
    fn savings_have_a_limit() {
        let effort = Effort::default();
        (0..MOST / EACH).for_each(|_| effort.earn());
        assert!(effort.spend(MOST as usize));
        assert!(!effort.spend(1));
    }
}
