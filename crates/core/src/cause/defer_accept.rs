//! The rule of the cause `defer-accept`.

use core::time::Duration;

use super::delays::Delays;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim};
use crate::connection::{Setup, SetupOutcome};
use crate::exchange::wait::Owner;
use crate::report::counted;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The listener at {service} has TCP_DEFER_ACCEPT, and its protocol lets the server \
              speak first: both sides wait until the kernel gives up waiting for data, {late} \
              (median) later.",
    ruled_out: &[
        (
            Id::SynLoss,
            "the client's ACK of the first SYN/ACK was seen",
        ),
        (
            Id::AcceptQueueOverflow,
            "every connection is equally late, however few there are",
        ),
    ],
    overturned_by: "`nstat -az TcpExtTCPDeferAcceptDrop` not rising on the server",
    fix: &[(
        "server",
        "listen without {TCP_DEFER_ACCEPT} (nginx: no `deferred`) if the server speaks first",
    )],
};

/// Minimum share of the connections that are late. The option belongs to the listener and affects
/// all of its connections.
const SHARE: f64 = 0.8;

/// Watches connections on which the server must send first. It does so only after its kernel has
/// retransmitted a SYN/ACK that the client had acknowledged (`tcp_check_req()` in
/// `net/ipv4/tcp_minisocks.c`). If the client sends first, nothing waits.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    delays: Delays,
    established: u64,
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        if setup.outcome != Some(SetupOutcome::Established) {
            return;
        }
        self.established += 1;
        let after = &setup.aftermath;
        let speaks_first = matches!(after.spoke, Some((_, true))) && after.request.is_none();
        let is_late = speaks_first && after.answer_repeats > 0;
        if let (true, Some(last), Some(end)) = (is_late, after.last_answer, setup.end) {
            let waited: Duration = last.since(end);
            self.delays.add_setup(waited, setup);
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let is_common = self.delays.count() as f64 >= self.established as f64 * SHARE;
        if self.delays.count() == 0 || !is_common || !self.delays.is_material(case) {
            return Conclusion::Nothing;
        }
        Conclusion::Claim(Box::new(self.claim(case)))
    }
}

impl Rule {
    fn claim(&self, case: &Case<'_>) -> Claim {
        let mut claim = self.delays.claim(Id::DeferAccept, Owner::Server, case);
        let text = format!(
            "on {} of {} the server's first data came only after it had retransmitted a SYN/ACK \
             that was already acknowledged, {} (median) late",
            self.delays.count(),
            counted(self.established, "connection", "connections"),
            self.delays.median(),
        );
        claim.evidence.push(self.delays.evidence(text));
        claim.basis = Basis::new(self.delays.count(), false);
        WORDING.tell(&mut claim, &[("late", &self.delays.median())]);
        claim
    }
}
