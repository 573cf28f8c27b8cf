//! The time of exchanges by whose it is, exchange by exchange.

use core::time::Duration;

use crate::histogram::Distribution;
use crate::wait::{Owner, Wait, WaitKind};

/// The places that the time of an exchange can be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Server,
    Client,
    Path,
    Unknown,
}

impl Place {
    pub(crate) const ALL: [Self; 4] = [Self::Server, Self::Client, Self::Path, Self::Unknown];

    /// The place of a wait. A congestion window keeps its sender waiting for
    /// acknowledgements, which are on their way. A resolver's time is in no exchange.
    pub(crate) const fn of(kind: WaitKind, owner: Owner) -> Self {
        match owner {
            _ if matches!(kind, WaitKind::CongestionWindow) => Self::Path,
            Owner::Server | Owner::Proxy => Self::Server,
            Owner::Client => Self::Client,
            Owner::Path => Self::Path,
            Owner::Resolver | Owner::Unknown => Self::Unknown,
        }
    }
}

/// The time that each exchange spent in each place, transmission aside; exchanges that
/// spent none there are in no distribution.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    times: [Distribution; Place::ALL.len()],
}

impl Places {
    /// Books one exchange's waits.
    pub(crate) fn take(&mut self, waits: &[Wait]) {
        let mut sums = [0_u64; Place::ALL.len()];
        for wait in waits {
            if matches!(
                wait.kind,
                WaitKind::RequestTransfer | WaitKind::ResponseTransfer
            ) {
                continue;
            }
            if let Some(sum) = sums.get_mut(Place::of(wait.kind, wait.owner) as usize) {
                *sum = sum.saturating_add(wait.nanos());
            }
        }
        for (times, sum) in self.times.iter_mut().zip(sums) {
            if sum > 0 {
                times.record(Duration::from_nanos(sum));
            }
        }
    }

    pub(crate) fn of(&self, place: Place) -> &Distribution {
        let [server, client, path, unknown] = &self.times;
        match place {
            Place::Server => server,
            Place::Client => client,
            Place::Path => path,
            Place::Unknown => unknown,
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (ours, theirs) in self.times.iter_mut().zip(other.times) {
            ours.absorb(theirs);
        }
    }
}
