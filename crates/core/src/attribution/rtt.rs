//! The round trip from an observation point to one end and back.

use core::time::Duration;

use crate::attribution::LEAST_DELAYED_ACK;

/// Assumed error of a round trip that was seen once or never varied: timestamps of the two
/// directions differ by this much.
pub(crate) const LEAST_ERROR: Duration = Duration::from_micros(50);
/// Factor above the minimum from which a sample's excess is attributed to the peer instead of the
/// path.
const QUICK_FACTOR: u32 = 2;

/// Maximum round trip of a path that only the replies of programs show. Paths over satellites take
/// less.
pub(crate) const LONGEST_PATH: Duration = Duration::from_secs(1);

/// Minimum time worth attributing to a program.
const LEAST_PROGRAM_TIME: Duration = Duration::from_millis(5);

/// Minimum ratio of an end's handshake time to the minimum reply time, from which another device is
/// taken to reply for that end.
const FARTHER: u32 = 8;

/// An estimate of the path's part in replies.
///
/// Minimum reply time seen. Too long if the end never answered immediately; it excludes occasional
/// queueing. The error is the mean deviation of the quick samples from the minimum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RoundTrip {
    least: Option<Duration>,
    deviation: Duration,
    /// True if a handshake was among the samples: a kernel answers it immediately, while every
    /// other reply may have waited for its program or a timer.
    has_handshake: bool,
    /// Minimum reply time in a handshake; if no handshake was seen, the minimum reply time to a
    /// FIN.
    handshake: Option<Duration>,
    /// True if a bare acknowledgement that no timer delayed was among the samples.
    has_receipt: bool,
}

impl RoundTrip {
    /// Returns the round trip to the host of the observation point itself.
    pub(crate) const fn none() -> Self {
        Self {
            least: Some(Duration::ZERO),
            deviation: Duration::ZERO,
            has_handshake: true,
            handshake: None,
            has_receipt: false,
        }
    }

    /// Returns true if a reply by the kernel bounds the round trip; otherwise the minimum may
    /// include the program's time.
    pub(crate) fn is_bounded(&self) -> bool {
        self.has_handshake
    }

    /// Returns true if the round trip can be distinguished from a program's time: by a kernel's
    /// reply, or because it is too short to matter.
    pub(crate) fn is_told(&self) -> bool {
        let is_short = self.least.is_some_and(|least| least < LEAST_PROGRAM_TIME);
        self.is_measured() || is_short
    }

    /// Returns true if a kernel's reply was among the samples.
    pub(crate) fn is_measured(&self) -> bool {
        self.has_handshake || self.has_receipt
    }

    /// Returns true if a device on the path acknowledges for an end that is much farther away: the
    /// handshake went all the way to that end, but later acknowledgements do not.
    pub(crate) fn is_relayed(&self) -> bool {
        let (Some(handshake), Some(least)) = (self.handshake, self.least) else {
            return false;
        };
        self.has_handshake && handshake >= LEAST_PROGRAM_TIME && least * FARTHER <= handshake
    }

    /// Takes in a bare acknowledgement of data, which only a kernel sends.
    pub(crate) fn sample_receipt(&mut self, took: Duration) {
        self.has_receipt |= took < LEAST_DELAYED_ACK;
        self.sample(took);
    }

    /// Returns the reply time to a FIN, if no handshake was seen: the reply is the kernel's ACK, or
    /// the program's own FIN.
    pub(crate) fn fin_trip(&self) -> Option<Duration> {
        self.handshake.filter(|_| !self.has_handshake)
    }

    /// Takes in the reply to a FIN. It comes too late to be used for the exchanges before it.
    pub(crate) fn sample_fin(&mut self, took: Duration) {
        if !self.has_handshake {
            self.handshake = self.handshake.into_iter().chain([took]).min();
        }
    }

    /// Takes in a reply within the handshake.
    pub(crate) fn sample_handshake(&mut self, took: Duration) {
        self.has_handshake = true;
        self.handshake = self.handshake.into_iter().chain([took]).min();
        self.sample(took);
    }

    /// Takes in a reply to data, which the peer may have delayed.
    pub(crate) fn sample(&mut self, took: Duration) {
        let Some(least) = self.least else {
            self.least = Some(took);
            return;
        };
        if took < least {
            self.deviation = self.deviation.max((least - took) / 4);
            self.least = Some(took);
        } else if took <= least * QUICK_FACTOR {
            // RFC 6298 §2.3's gain for the mean deviation.
            self.deviation = (self.deviation * 3 + (took - least)) / 4;
        }
    }

    /// Returns the path's round trip; `None` before any reply was timed, or if all replies took
    /// longer than a path and no kernel sent them immediately.
    pub(crate) fn floor(&self) -> Option<Duration> {
        self.least
            .filter(|&least| least < LONGEST_PATH || self.is_told())
    }

    /// Returns the maximum error when a reply time is split into propagation and the peer's share:
    /// the whole propagation time if no handshake bounds it.
    pub(crate) fn split_error(&self) -> Duration {
        if self.has_handshake {
            self.error()
        } else {
            self.error().max(self.least.unwrap_or_default())
        }
    }

    /// Returns the difference of a single reply time from the minimum that is not significant.
    pub(crate) fn error(&self) -> Duration {
        self.deviation.max(LEAST_ERROR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_second_is_no_path_unless_a_kernel_answered() {
        let mut trip = RoundTrip::default();
        trip.sample(ms(1370));
        assert_eq!(trip.floor(), None);
        trip.sample(ms(165));
        assert_eq!(trip.floor(), Some(ms(165)));
        let mut far = RoundTrip::default();
        far.sample_handshake(ms(1370));
        assert_eq!(far.floor(), Some(ms(1370)));
    }

    #[test]
    fn a_delayed_reply_moves_neither_floor_nor_error() {
        let mut trip = RoundTrip::default();
        for took in [8, 8, 48, 8, 52] {
            trip.sample(ms(took));
        }
        assert_eq!(trip.floor(), Some(ms(8)));
        assert_eq!(trip.error(), LEAST_ERROR);
    }

    #[test]
    fn without_a_handshake_all_of_the_travel_is_in_doubt() {
        let mut trip = RoundTrip::default();
        trip.sample(ms(9));
        assert_eq!(trip.split_error(), ms(9));
        trip.sample_handshake(ms(8));
        assert!(trip.split_error() < ms(1));
    }

    #[test]
    fn who_replies_much_sooner_than_the_handshake_is_a_relay() {
        let trip = |handshake: u64, receipts: [u64; 2]| {
            let mut trip = RoundTrip::default();
            trip.sample_handshake(Duration::from_micros(handshake));
            for receipt in receipts {
                trip.sample_receipt(Duration::from_micros(receipt));
            }
            trip.is_relayed()
        };
        assert!(trip(14_600, [527, 310]));
        assert!(trip(98_000, [90, 40_000]));
        assert!(!trip(14_600, [13_900, 2_500]), "a path that strays");
        assert!(!trip(900, [40, 40]), "too near to matter");
    }

    #[test]
    fn jitter_shows_in_the_error() {
        let mut trip = RoundTrip::default();
        for took in [8, 10, 9, 11, 9, 10, 8, 12] {
            trip.sample(ms(took));
        }
        assert!(
            trip.error() > Duration::from_micros(500),
            "{:?}",
            trip.error()
        );
    }
}
