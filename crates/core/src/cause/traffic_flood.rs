//! The rule of the cause `traffic-flood`.

use super::delays::Delays;
use super::first_packets::FirstPackets;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::connection::{Setup, SetupOutcome};
use crate::exchange::wait::Owner;
use crate::report::{EvidenceKind, counted};
use crate::service::tcp_handshakes::{self, WhyRepeated};
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "A flood of SYNs at {service} fills the table of half-open connections. Real clients \
        find no room and retransmit their SYN a second later.",
    ruled_out: &[
        (
            Id::SynQueueFull,
            "few of the clients that send a SYN complete the handshake",
        ),
        (Id::SynLoss, "SYNs are ignored while the table is full"),
    ],
    overturned_by: "senders of the SYNs that turn out to be clients of this service, whose ACKs \
        the capture missed",
    fix: &[
        (
            "path",
            "filter the flood before it arrives (the provider, a scrubbing service, XDP drop by \
             source)",
        ),
        (
            "server",
            "`sysctl net.ipv4.tcp_syncookies=1` and a larger net.ipv4.tcp_max_syn_backlog",
        ),
    ],
};

/// Watches abandoned attempts that far outnumber the established connections. A real client would
/// retransmit its SYN, or send the last ACK.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    delays: Delays,
    unfinished: FirstPackets,
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        if tcp_handshakes::is_repeated(setup) {
            self.delays.add_setup(setup.repeated_for(), setup);
        }
        let is_left = matches!(
            setup.outcome,
            Some(SetupOutcome::Cut | SetupOutcome::Unanswered)
        );
        if is_left {
            self.unfinished.add(setup.syns.packets.first);
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let is_flood = || case.why_syns_repeat() == WhyRepeated::Flood;
        if !self.delays.is_material(case) || !is_flood() {
            return Conclusion::Nothing;
        }
        Conclusion::Claim(Box::new(self.claim(case)))
    }
}

impl Rule {
    fn claim(&self, case: &Case<'_>) -> Claim {
        let mut claim = self.delays.claim(Id::TrafficFlood, Owner::Client, case);
        let (count, rate) = case.ledger.setups.handshakes.unfinished();
        let text = format!(
            "{}, {rate:.0} per second, came from senders that never completed the handshake, {} \
             for each established connection",
            counted(count, "SYN", "SYNs"),
            count / self.delays.count().max(1),
        );
        claim.evidence.push(
            Statement::shows(EvidenceKind::Wire, text)
                .count(count)
                .packets(&self.unfinished),
        );
        let text = format!(
            "{} real connections had to retransmit their SYN and were {} (median) late",
            self.delays.count(),
            self.delays.median()
        );
        claim.evidence.push(self.delays.evidence(text));
        claim.affected.of = claim
            .affected
            .of
            .saturating_sub(count)
            .max(self.delays.count());
        claim.basis = Basis::new(count, false);
        WORDING.tell(&mut claim, &[]);
        claim
    }
}
