//! `qdisc-dwell`: in a capture at the server, the server's segments appear later than their
//! timestamps. The kernel sets a segment's TSval before it passes the segment to the device's
//! queue. A capture on the host sees the segment after that queue (`dev_queue_xmit_nit()` in
//! `net/core/dev.c`). If the program were late, its segments would have later timestamps.
//!
//! If the server's kernel was watched, it shows the delay directly, even if the queue is never
//! empty. The delay is the time from TCP's own timestamp, which includes pacing, until the device's
//! driver received the response's first segment. The delay of the other segments depends on the
//! length of the response.

use core::time::Duration;

use super::evidence::{self, human, median};
use super::kernel_place::KernelPlace;
use super::served;
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::Exchange;
use crate::exchange::wait::Owner;
use crate::observed::segment::INITIAL_TTLS;
use crate::report::{EvidenceKind, counted};
use crate::service::tally::{Cost, Tally};
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "Responses wait in the queue of the server's own device for {saved} (median), after \
              other data: {share} of all request time. They have not reached the network yet.",
    ruled_out: &[
        (
            Id::ServerThink,
            "the responses were created and timestamped before that time",
        ),
        (
            Id::PathQueueing,
            "the packets were seen as they left the host",
        ),
    ],
    overturned_by: "`tc -s qdisc` on the server without a backlog while it happens",
    fix: &[
        (
            "server",
            "fq_codel or CAKE as the device's queue, so that small responses overtake bulk traffic \
             (tc qdisc replace dev eth0 root fq_codel)",
        ),
        (
            "server",
            "shorter queues: a class for bulk traffic, byte queue limits, no leftover netem or tbf",
        ),
        (
            "server",
            "pace the bulk below the device's or the shaper's rate (fq, BBR)",
        ),
    ],
};

/// The wording if the server's own kernel was watched.
const WATCHED: Wording = Wording {
    summary: " in the queueing disciplines of its own device, after other data: TCP has sent the \
              answer, but it has not reached the network yet.",
    ruled_out: &[(
        Id::Pacing,
        "the time for which pacing holds a segment is not counted",
    )],
    ..WORDING
};

/// Maximum round trip from the capture point to the host, for a capture on the host or next to it.
/// A kernel answers on its own host within microseconds; a switch and a cable take longer.
const BESIDE: Duration = Duration::from_micros(200);
/// Minimum delay that counts. A smaller delay may be a tick of either clock.
const LEAST_DWELL: Duration = Duration::from_millis(5);
/// Minimum spread of the delays. A queue grows and shrinks. If a clock was changed, all later
/// segments are late by the same amount.
const STEADY: Duration = Duration::from_millis(1);

/// Watches responses that leave the host later than their timestamps.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule(Tally);

impl super::Rule for Rule {
    const CONCERNS: Features = Features::QUEUED;

    fn observe(&mut self, exchange: &Exchange) {
        let queued = exchange.path.queued.response;
        // Next to the client, the queue may be anywhere on a short path.
        let is_beside = exchange
            .path
            .to_server
            .is_some_and(|trip| trip <= BESIDE.min(exchange.path.to_client));
        // Each router would have decremented an initial TTL.
        if queued >= LEAST_DWELL && is_beside && INITIAL_TTLS.contains(&exchange.path.ttl) {
            self.0.add(exchange, Cost::exactly(queued), Duration::ZERO);
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let watched = served::claim(Id::QdiscDwell, case, |place| place == KernelPlace::Qdisc);
        watched.map_or_else(
            || self.lagging(case),
            |(claim, _)| Conclusion::Claim(Box::new(told(claim))),
        )
    }
}

fn told(mut claim: Claim) -> Claim {
    WATCHED.tell(&mut claim, &[]);
    claim
}

impl Rule {
    fn lagging(&self, case: &Case<'_>) -> Conclusion {
        let tally = &self.0;
        let at = |part| tally.saved.quantile(part).unwrap_or_default();
        let is_steady = at(0.9).saturating_sub(at(0.1)) < STEADY;
        if is_steady || !evidence::is_material(case, tally) || !evidence::recurs(case, tally) {
            return Conclusion::Nothing;
        }
        let mut claim = evidence::claim(Id::QdiscDwell, Owner::Server, case, tally);
        let text = format!(
            "{} left the server's device {} (median) after its kernel had created them, by the \
             server's own clock; the capture point is at most {} (round trip) from the server",
            counted(tally.affected, "response", "responses"),
            median(&tally.saved),
            human(BESIDE),
        );
        claim.evidence.push(
            Statement::shows(EvidenceKind::Wire, text)
                .count(tally.affected)
                .median(&tally.saved)
                .packets(&evidence::answers(&claim.exemplars)),
        );
        claim.basis = Basis::new(tally.affected, false);
        WORDING.tell(&mut claim, &[("saved", &median(&tally.saved))]);
        Conclusion::Claim(Box::new(claim))
    }
}
