//! The rule of the cause `nagle-round-trip`.

use super::evidence::{self, median};
use super::held::HeldSegments;
use super::wording::Wording;
use super::{Case, Conclusion, Id, nagle_delayed_ack};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::HoldPackets;
use crate::exchange::Side;
use crate::exchange::wait::Owner;
use crate::report::{EvidenceKind, counted};
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The {sender} writes in small parts, and Nagle's algorithm holds each until the \
              previous one is acknowledged: this adds a round trip, {saved} (median), {share} of \
              all request time.",
    ruled_out: &[(Id::NagleDelayedAck, "the ACKs came immediately; {delayed}")],
    overturned_by: "a small segment of the {sender} leaving while an earlier small one is unacknowledged",
    fix: &[
        ("{sender}", "set {TCP_NODELAY} on the connection"),
        ("{sender}", "or write head and body in one call"),
    ],
};

/// The wording if no handshake shows how soon the other end can acknowledge.
const UNTOLD: Wording = Wording {
    summary: "The {sender} writes in small parts, and Nagle's algorithm holds each until the \
              previous one is acknowledged: this adds {saved} (median), {share} of all request \
              time. Without a handshake, the capture does not show whether the ACKs were delayed.",
    ruled_out: &[],
    ..WORDING
};

/// Watches small segments of both sides that follow other small segments.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let sides = [
            (&case.gathered.held_responses, Side::Server),
            (&case.gathered.held_requests, Side::Client),
        ];
        for (held, side) in sides {
            // If delayed ACKs cause much of the wait, `nagle-delayed-ack` explains all holds.
            let is_seen = held.is_by_acknowledgement() && !held.is_delayed();
            if is_seen && evidence::is_material(case, &held.tally) && has_round_trip(case, held) {
                return Conclusion::Claim(Box::new(claim(case, held, side)));
            }
        }
        Conclusion::Nothing
    }
}

/// Returns true if the round trip is long enough for a conclusion. On a very short path, the ACK
/// comes back at once. A segment that leaves together with the ACK may then have been written only
/// at that time. Without a handshake, the round trip has no upper bound. A segment that left sooner
/// than a round trip may then have left before the ACK arrived.
fn has_round_trip(case: &Case<'_>, held: &HeldSegments) -> bool {
    let Some(trip) = case.round_trip() else {
        return false;
    };
    let typical = held.tally.saved.quantile(0.5).unwrap_or_default();
    let is_bounded = case.ledger.trips.handshake.is_some();
    trip >= nagle_delayed_ack::LEAST_DROP && (is_bounded || typical >= trip * 7 / 8)
}

fn claim(case: &Case<'_>, held: &HeldSegments, side: Side) -> Claim {
    let (culprit, sender, receiver) = match side {
        Side::Server => (Owner::Server, "server", "client"),
        Side::Client => (Owner::Client, "client", "server"),
    };
    let mut claim = evidence::claim(Id::NagleRoundTrip, culprit, case, &held.tally);
    claim.time.cost.low = case.weigh(held.cost_low_ns());
    let has_handshake = case.ledger.trips.handshake.is_some();
    let (prompt, later) = if has_handshake {
        ("prompt ", ", one round trip later")
    } else {
        ("", "")
    };
    let text = format!(
        "{} the {sender}'s second small segment left as soon as the {receiver}'s {prompt}\
         acknowledgement of the first arrived{later}",
        counted(held.tally.affected, "time", "times"),
    );
    let shown = held.prompt.packets.map(HoldPackets::numbers);
    claim.evidence.push(
        Statement::shows(EvidenceKind::Wire, text)
            .count(held.tally.affected)
            .median(&held.tally.saved)
            .packets(&shown.unwrap_or_default()),
    );
    claim.basis = Basis::new(held.tally.affected, held.prompt.may_be_crowded());
    let delayed = match held.delayed {
        0 => "none was delayed".to_owned(),
        delayed => counted(delayed, "was delayed", "were delayed"),
    };
    wording(has_handshake).tell(
        &mut claim,
        &[
            ("sender", &sender),
            ("saved", &median(&held.tally.saved)),
            ("delayed", &delayed),
        ],
    );
    claim
}

fn wording(has_handshake: bool) -> &'static Wording {
    if has_handshake { &WORDING } else { &UNTOLD }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_handshake_no_ack_is_said_to_come_at_once() {
        let rules_out_delays = |has_handshake| !wording(has_handshake).ruled_out.is_empty();
        assert!(rules_out_delays(true));
        assert!(!rules_out_delays(false));
    }
}
