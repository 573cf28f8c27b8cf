//! `socket-memory-pressure`: packets show only that data arrived and was retransmitted. The
//! receiver's kernel shows that it dropped the data.

use super::evidence::{self, human, median};
use super::wording::Wording;
use super::{Case, Conclusion, Features, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::Exchange;
use crate::exchange::wait::Owner;
use crate::report::{EvidenceKind, counted};
use crate::service::tally::Tally;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The server's kernel drops parts of requests that have arrived, because their sockets \
        have no memory for them; the client retransmits them when its timer expires, {saved} \
        (median) later, {share} of all request time.",
    ruled_out: &[
        (
            Id::PacketLoss,
            "the retransmitted data had arrived before: the path lost nothing",
        ),
        (
            Id::ZeroWindow,
            "the window had room for the dropped data; its retransmission took {mean} (mean)",
        ),
    ],
    overturned_by: "`TcpExtRcvPruned`, `TcpExtTCPRcvQDrop` and `TcpExtTCPBacklogDrop` (nstat) not \
                    rising on the server while it happens",
    fix: &[
        (
            "server",
            "no small SO_RCVBUF on accepted sockets (nginx: `listen … rcvbuf=`): without it the \
             kernel chooses the size; if it is needed, set it before listen()",
        ),
        (
            "server",
            "a higher `net.ipv4.tcp_rmem` maximum, and `net.ipv4.tcp_mem` where `TCPMemoryPressures` grows",
        ),
        (
            "server",
            "read requests sooner: data that has been read takes no socket memory",
        ),
        (
            "client",
            "fewer and larger writes: a segment of a few bytes takes as much memory as a full one",
        ),
    ],
};

/// Watches requests whose data was retransmitted.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    repeated: u64,
}

impl super::Rule for Rule {
    const CONCERNS: Features = Features::REPEATED;

    fn observe(&mut self, exchange: &Exchange) {
        self.repeated += u64::from(exchange.signs.request_repeats > 0);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let Some(turns) = case.facts.turns.services.get(&case.endpoint) else {
            return Conclusion::Nothing;
        };
        let tally = &turns.refused;
        if !evidence::is_material(case, tally) || !evidence::recurs(case, tally) {
            return Conclusion::Nothing;
        }
        Conclusion::Claim(Box::new(self.claim(case, tally, turns.turns)))
    }
}

impl Rule {
    fn claim(&self, case: &Case<'_>, tally: &Tally, watched: u64) -> Claim {
        let mut claim = evidence::claim(Id::SocketMemoryPressure, Owner::Server, case, tally);
        claim.exemplars = case.ledger.latency.slowest.exemplars();
        let seen = format!(
            "its kernel dropped parts of {} of {} because their sockets had no memory, after its \
             device had received them; the requests were complete {} (median) after that",
            tally.affected,
            counted(watched, "request", "requests"),
            median(&tally.saved),
        );
        claim.evidence.push(
            Statement::shows(EvidenceKind::KernelTrace, seen)
                .count(tally.affected)
                .median(&tally.saved),
        );
        if self.repeated > 0 {
            let again = format!(
                "parts of {} were retransmitted",
                counted(self.repeated, "request", "requests"),
            );
            let again = if self.repeated >= tally.affected / 2 {
                Statement::shows(EvidenceKind::Wire, again)
            } else {
                Statement::fits(EvidenceKind::Wire, again)
            };
            claim.evidence.push(again.count(self.repeated));
        }
        claim.basis = Basis::new(tally.affected, false);
        let mean = tally.saved.mean().unwrap_or_default();
        WORDING.tell(
            &mut claim,
            &[("saved", &median(&tally.saved)), ("mean", &human(mean))],
        );
        claim
    }
}
