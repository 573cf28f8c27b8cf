//! A radio link that sleeps when it is idle.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::quantity::duration;

/// A radio that falls asleep when no packet crossed the path in either direction for a while.
/// Packets in this direction then wait until it is awake. Packets in the other direction wake it
/// immediately, unless that direction has such a setting too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SleepSpec {
    /// The idle time after which the radio falls asleep.
    #[serde(with = "duration")]
    pub after: Duration,
    /// The time to wake up.
    #[serde(with = "duration")]
    pub wake: Duration,
}

/// The radio, which both directions share. It is asleep at first.
#[derive(Debug, Clone, Default)]
pub(super) struct Radio {
    last: Option<Duration>,
    awake_from: Duration,
}

impl Radio {
    /// Returns the time at which a packet that arrives at `arrival` is sent.
    pub(super) fn pass(&mut self, arrival: Duration, sleep: Option<SleepSpec>) -> Duration {
        let Some(SleepSpec { after, wake }) = sleep else {
            self.last = self.last.max(Some(arrival));
            return arrival;
        };
        let idle = self.last.map(|last| arrival.saturating_sub(last));
        if idle.is_none_or(|idle| idle > after) {
            self.awake_from = arrival.saturating_add(wake);
        }
        let leaves = arrival.max(self.awake_from);
        self.last = self.last.max(Some(leaves));
        leaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_first_packet_after_an_idle_time_waits_and_those_behind_it_too() {
        let sleep = Some(SleepSpec {
            after: 200 * MS,
            wake: 80 * MS,
        });
        let mut radio = Radio::default();
        let sent =
            [0, 10, 100, 250, 400, 601, 650, 700].map(|at| radio.pass(MS * at, sleep).as_millis());
        assert_eq!(sent, [80, 80, 100, 250, 400, 681, 681, 700]);
        // Packets of the other direction keep it awake.
        assert_eq!(radio.pass(1_000 * MS, None), 1_000 * MS);
        assert_eq!(radio.pass(1_150 * MS, sleep), 1_150 * MS);
        assert_eq!(radio.pass(1_351 * MS, sleep), 1_431 * MS);
    }
}
