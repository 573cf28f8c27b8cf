//! The programs of a watch that a kernel may lack.

use serde::{Deserialize, Serialize};

/// Optional programs, each with a description of the data that is missing without it.
#[cfg(feature = "live")]
const OPTIONAL: [(&str, &str); 7] = [
    ("sock_recv_length", "when programs read"),
    (
        "sock_send_length",
        "when programs wrote, and what was held back",
    ),
    (
        "inet_sock_set_state",
        "the last request of connections that end",
    ),
    ("sched_switch", "what threads wait for"),
    ("sched_waking", "what threads wait for"),
    ("kfree_skb", "which packets the host drops"),
    (OPEN_TURNS, "the last request of connections that go on"),
];

/// The program that runs at the end of watching, over the storage of all sockets.
#[cfg(feature = "live")]
pub(super) const OPEN_TURNS: &str = "open_turns";

/// A set of optional programs of a watch, one bit each. Other bits mean nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hooks(pub u16);

#[cfg(feature = "live")]
impl Hooks {
    /// The set of all optional programs.
    pub(super) const ALL: Self = Self((1 << OPTIONAL.len()) - 1);

    /// Returns the set of the programs that `is_in` selects.
    pub(super) fn of(is_in: impl Fn(&str) -> bool) -> Self {
        let mut set = Self::default();
        for (name, _) in OPTIONAL.iter().filter(|(name, _)| is_in(name)) {
            set.add(name);
        }
        set
    }

    /// Adds a program. Returns false if the program is not optional.
    pub(super) fn add(&mut self, name: &str) -> bool {
        let bit = bit(name);
        self.0 |= bit;
        bit > 0
    }

    /// Returns true if the program is in the set.
    pub(super) fn has(self, name: &str) -> bool {
        self.0 & bit(name) > 0
    }

    /// Returns the programs that are in one of two sets.
    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the sets of one program each.
    pub(super) fn singles() -> impl Iterator<Item = Self> {
        (0..OPTIONAL.len()).map(|place| Self(1 << place))
    }

    /// Returns the names of the programs in the set.
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        let names = OPTIONAL.iter().map(|&(name, _)| name);
        names.filter(move |name| self.has(name))
    }

    /// Describes each program in the set and the data that is missing without it.
    pub(super) fn what_is_missing(self) -> Vec<String> {
        let missing = OPTIONAL.iter().filter(|(name, _)| self.has(name));
        let described = missing.map(|&(name, unseen)| {
            if name == OPEN_TURNS {
                format!("the iterator of sockets: {unseen} is not seen")
            } else {
                format!("the tracepoint {name}: {unseen} is not seen")
            }
        });
        described.collect()
    }
}

/// Returns the bit of a program; 0 if it is not optional.
#[cfg(feature = "live")]
fn bit(name: &str) -> u16 {
    let place = OPTIONAL.iter().position(|(other, _)| *other == name);
    place.map_or(0, |place| 1 << place)
}
