//! The addresses of the two hosts. They exist only in the lab's namespaces, so that every run may
//! use the same ones.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use crate::path::PathSpec;
use crate::side::Side;

/// A host's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Addresses {
    pub(crate) v4: Ipv4Addr,
    pub(crate) v6: Ipv6Addr,
}

impl Addresses {
    /// The addresses of a host that talks to itself.
    pub(super) const ITSELF: Self = Self {
        v4: Ipv4Addr::LOCALHOST,
        v6: Ipv6Addr::LOCALHOST,
    };

    /// Returns the addresses of a host of this path.
    pub(crate) fn of(path: &PathSpec, side: Side) -> Self {
        match side {
            _ if path.loopback => Self::ITSELF,
            Side::Client => Self::of_host(1),
            Side::Server => Self::of_host(2),
        }
    }

    const fn of_host(number: u8) -> Self {
        Self {
            v4: Ipv4Addr::new(10, 77, 0, number),
            v6: Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, number as u16),
        }
    }
}
