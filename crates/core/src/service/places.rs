//! Time of exchanges by owner, exchange by exchange.

use core::time::Duration;

use crate::exchange::Exchange;
use crate::exchange::wait::{Owner, Wait, WaitKind};
use crate::observed::time::nanos;
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

/// The places where an exchange can spend its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TimePlace {
    Server,
    Client,
    Path,
    Unknown,
}

impl TimePlace {
    pub(crate) const ALL: [Self; 4] = [Self::Server, Self::Client, Self::Path, Self::Unknown];

    /// Returns the place of a wait. A full congestion window makes its sender wait for
    /// acknowledgements, which are in flight on the path. A resolver's time is in no exchange.
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

/// The time that each exchange spent in each place, excluding transmission and slow start.
/// Exchanges that spent no time in a place are not in its distribution.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Places {
    times: [Distribution; TimePlace::ALL.len()],
}

impl Places {
    /// Adds the waits of one exchange.
    pub(crate) fn add_exchange(&mut self, exchange: &Exchange) {
        let mut sums = [0_u64; TimePlace::ALL.len()];
        let spared = exchange
            .sending
            .deliveries
            .iter()
            .map(|delivery| delivery.stalled.spared);
        let mut spared = nanos(spared.sum());
        for wait in &exchange.waits {
            if matches!(
                wait.kind,
                WaitKind::RequestTransfer | WaitKind::ResponseTransfer | WaitKind::BetweenMessages
            ) {
                continue;
            }
            let time = match wait.kind {
                WaitKind::CongestionWindow => beyond(&mut spared, wait),
                _ => wait.nanos(),
            };
            if let Some(sum) = sums.get_mut(TimePlace::of(wait.kind, wait.owner) as usize) {
                *sum = sum.saturating_add(time);
            }
        }
        for (place, sum) in TimePlace::ALL.into_iter().zip(sums) {
            if sum > 0 {
                self.note(place, Duration::from_nanos(sum));
            }
        }
    }

    /// Records the time of one exchange in a place.
    pub(crate) fn note(&mut self, place: TimePlace, time: Duration) {
        if let Some(times) = self.times.get_mut(place as usize) {
            times.record(time);
        }
    }

    pub(crate) fn of(&self, place: TimePlace) -> &Distribution {
        let [server, client, path, unknown] = &self.times;
        match place {
            TimePlace::Server => server,
            TimePlace::Client => client,
            TimePlace::Path => path,
            TimePlace::Unknown => unknown,
        }
    }
}

/// Returns the part of a wait's time that exceeds what is left of `spared`.
fn beyond(spared: &mut u64, wait: &Wait) -> u64 {
    let inherent = wait.nanos().min(*spared);
    *spared -= inherent;
    wait.nanos() - inherent
}
