//! The rule of the cause `pacing`.
//!
//! The lack of a queue distinguishes it from `bandwidth-limit`: the time on the path stays at its
//! minimum, by the sender's timestamps or by the ACKs at the sender. Full segments distinguish it
//! from a program that writes at a constant rate.

use core::time::Duration;

use super::limited::{LimitRule, Limited, Together, beyond_slow_start};
use super::wording::Wording;
use super::{Case, Id};
use crate::claim::{Basis, Ceiling, Claim};
use crate::exchange::delivery::{Delivery, Limit};
use crate::observed::time::Timestamp;

/// The evidence in the packets.
const SEEN: &str = "the {from}'s full segments left at a constant {rate}. The {from} waited \
    {stops} times although nothing required this: the window was open, and no queue had built up \
    on the path";

const WORDING: Wording = Wording {
    summary: "The {from}'s kernel paces the segments of its {message} at {rate}, although neither \
        the path nor a window requires it: {cost}.",
    ruled_out: &[
        (
            Id::BandwidthLimit,
            "nothing queued: the time on the path did not grow",
        ),
        (
            Id::RateLimit,
            "the sender stopped after full segments, not at the ends of writes",
        ),
    ],
    overturned_by: "`ss -ti` at the {from} showing a pacing_rate far above {rate}",
    fix: &[
        (
            "{from}",
            "look for {SO_MAX_PACING_RATE} (systemd, HAProxy, nginx modules, video servers) and \
             raise it",
        ),
        (
            "{from}",
            "look for fq's maxrate (`tc qdisc show`); with BBR, find out why its bandwidth \
             estimate is low",
        ),
    ],
};

/// The wording if the rate may follow the estimate of a congestion control.
const MAY_FOLLOW: Wording = Wording {
    summary: "The {from}'s kernel paces the segments of its {message} at {rate}, although neither \
        the path nor a window requires it: {cost}. A congestion control that paces, such as BBR, \
        does so at the rate that it estimates; a rate that is set looks the same.",
    fix: &[
        (
            "{from}",
            "look which congestion control the connections use (`ss -ti`): with BBR, find out why its \
             bandwidth estimate is low",
        ),
        (
            "{from}",
            "with another one, look for {SO_MAX_PACING_RATE} (systemd, HAProxy, nginx modules, video \
             servers) and fq's maxrate (`tc qdisc show`), and raise it",
        ),
    ],
    ..WORDING
};

/// Maximum ratio of the rates of messages that are paced at a rate that is set.
const SAME_RATE: f64 = 1.1;

/// Returns true if the rate is set, and does not follow an estimate. BBR sends the beginning of a
/// connection faster and faster, to find out what the path carries, and its estimate changes.
fn is_set(together: &Together) -> bool {
    let is_same = |[least, most]: [f64; 2]| most <= least * SAME_RATE;
    together.has_first && together.rates.is_some_and(is_same)
}

/// The period in which there were captures, but no kernel paced: from 1990 to November 2013, when
/// Linux 3.12 introduced pacing. Earlier timestamps come from a clock that was not set.
const BEFORE_PACING: [Timestamp; 2] = [
    Timestamp::from_nanos(631_152_000_000_000_000),
    Timestamp::from_nanos(1_383_436_800_000_000_000),
];

/// Returns true if no kernel paced at this time.
fn is_before_pacing(at: Timestamp) -> bool {
    let [from, until] = BEFORE_PACING;
    (from..until).contains(&at)
}

/// Watches messages that leave their sender at a constant rate.
pub(crate) type Rule = Limited<Paced>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Paced;

impl LimitRule for Paced {
    const ID: Id = Id::Pacing;

    fn cost(delivery: &Delivery) -> Option<Duration> {
        (delivery.limit == Limit::Pacing).then(|| beyond_slow_start(delivery))
    }

    /// Returns false if even the longest message was paced for less than a round trip. A congestion
    /// control that paces, such as BBR, spreads each window over about a round trip.
    fn is_fault(limited: &Limited<Self>, _: &Case<'_>) -> bool {
        let worst = limited.worst();
        worst.is_some_and(|worst| worst.stalled.held >= worst.round_trip)
    }

    fn words(_: &Delivery) -> (&'static str, &'static Wording) {
        (SEEN, &WORDING)
    }

    fn words_together(
        _: &Delivery,
        together: &Together,
    ) -> Option<(&'static str, &'static Wording)> {
        (!is_set(together)).then_some((SEEN, &MAY_FOLLOW))
    }

    fn complete(claim: &mut Claim, case: &Case<'_>, _: &Delivery, together: &Together) {
        if !is_set(together) {
            claim.basis = Basis::new(claim.affected.exchanges, true);
        }
        let begin = case.ledger.span.map(|(begin, _)| begin);
        if begin.is_some_and(is_before_pacing) {
            // A slow device at the sender, or a hub, may be the reason instead.
            claim.basis.cap(Ceiling::BeforeItsTime);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_changes_or_was_not_seen_from_the_start_may_be_an_estimate() {
        let together = |least, most, has_first| Together {
            rate: most,
            side_by_side: 1.0,
            rates: Some([least, most]),
            has_first,
        };
        assert!(is_set(&together(1e6, 1.05e6, true)));
        assert!(!is_set(&together(1e6, 1.4e6, true)), "it changes");
        assert!(!is_set(&together(1e6, 1.05e6, false)), "no beginning");
    }

    #[test]
    fn what_no_kernel_did_yet_is_only_possible() {
        let at = |seconds: i64| Timestamp::from_nanos(seconds * 1_000_000_000);
        assert!(is_before_pacing(at(1_000_000_000)), "2001");
        assert!(!is_before_pacing(at(1_400_000_000)), "2014");
        assert!(!is_before_pacing(at(3_600)), "a clock that was not set");
    }
}
