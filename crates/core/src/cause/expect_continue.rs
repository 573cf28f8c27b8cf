//! The rule of the cause `expect-continue`.

use core::time::Duration;

use super::evidence::{self, ORDINARY_WORK, median};
use super::first_packets::FirstPackets;
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::Exchange;
use crate::exchange::wait::Owner;
use crate::observed::time::nanos;
use crate::report::{EvidenceKind, counted};
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The client asks whether it may send the request's body, but the server does not \
              reply: the client waits {waited} (median) before it sends the body anyway, {share} \
              of all request time.",
    ruled_out: &[(
        Id::SlowRequestUpload,
        "the pause is exactly between a head that asks for permission and the body",
    )],
    overturned_by: "a `100 Continue` that the server sent and the path or the capture lost",
    fix: &[
        (
            "client",
            "send no `Expect` field (curl -H 'Expect:'), or switch it off in the HTTP library",
        ),
        (
            "server",
            "answer `100 Continue` as soon as the head is accepted (RFC 9110 §10.1.1)",
        ),
    ],
};

/// Watches requests with `Expect: 100-continue` whose body is sent although no `100 Continue`
/// arrived. The wait before the body is the client's timeout.
///
/// The sign is the header field. Without it, a pause within the request is the client's own work.
/// If the server answers before the body is sent, the wait is one round trip, which the field
/// always costs.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    tally: Tally,
    /// Number of bodies that followed a `100 Continue`.
    answered: u64,
    /// The first packets in which a body began without a `100 Continue`.
    packets: FirstPackets,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::EXPECTATION;

    fn observe(&mut self, exchange: &Exchange) {
        let Some(expectation) = exchange.particulars.expectation.as_deref() else {
            return;
        };
        if expectation.is_answered {
            self.answered += 1;
            return;
        }
        let lost = expectation.waited.saturating_sub(expectation.propagation);
        if lost < ORDINARY_WORK {
            return;
        }
        // Without the header field, the client would not even wait the round trip for a `100
        // Continue`.
        let cost = Cost {
            low: nanos(lost),
            likely: nanos(lost),
            high: nanos(expectation.waited),
        };
        self.tally.add(exchange, cost, Duration::ZERO);
        self.packets.add(expectation.packet);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let tally = &self.tally;
        if !evidence::is_material(case, tally) || !evidence::is_repeated(case, tally) {
            return Conclusion::Nothing;
        }
        Conclusion::Claim(Box::new(self.claim(case)))
    }
}

impl Rule {
    fn claim(&self, case: &Case<'_>) -> Claim {
        let tally = &self.tally;
        let mut claim = evidence::claim(Id::ExpectContinue, Owner::Client, case, tally);
        let answered = (self.answered > 0).then(|| {
            let others = counted(self.answered, "other", "others");
            format!("; {others} got one")
        });
        let text = format!(
            "{} with `Expect: 100-continue` and got no `100 Continue`: the body was sent {} \
             (median) later than if a `100 Continue` had come at once{}",
            counted(
                tally.affected,
                "request announced its body",
                "requests announced their body"
            ),
            median(&tally.saved),
            answered.unwrap_or_default(),
        );
        claim.evidence.push(
            Statement::shows(EvidenceKind::Wire, text)
                .count(tally.affected)
                .median(&tally.saved)
                .packets(&self.packets),
        );
        claim.basis = Basis::new(tally.affected, false);
        WORDING.tell(&mut claim, &[("waited", &median(&tally.saved))]);
        claim
    }
}
