//! Numbers of packets.

use core::num::NonZeroU64;

use crate::observed::time::Timestamp;

/// The number of a packet in its source, from 1, as Wireshark shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketNumber(NonZeroU64);

impl PacketNumber {
    /// Returns the packet number for a record's number; `None` for 0.
    #[inline]
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// Returns the number.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

/// The time and the number of a packet; `None` if no packet was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketTime {
    pub(crate) at: Timestamp,
    pub(crate) number: Option<PacketNumber>,
}

impl PacketTime {
    #[inline]
    pub(crate) const fn of(at: Timestamp, number: u64) -> Self {
        Self {
            at,
            number: PacketNumber::new(number),
        }
    }
}

/// Numbers of the first and the last of several packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PacketRange {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl PacketRange {
    /// Returns the range of a single packet.
    pub(crate) const fn of_one(number: u64) -> Self {
        Self {
            first: number,
            last: number,
        }
    }

    pub(crate) const fn numbers(self) -> [u64; 2] {
        [self.first, self.last]
    }
}
