//! The rule of the cause `syn-queue-full`.

use super::delays::Delays;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::connection::Setup;
use crate::exchange::wait::Owner;
use crate::report::{EvidenceKind, counted};
use crate::service::tcp_handshakes::{self, WhyRepeated};
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "{service} has room for {room} half-open connections and ignores further SYNs while \
        these are pending. Clients retransmit an ignored SYN after a second.",
    ruled_out: &[
        (
            Id::SynLoss,
            "loss on the path would not depend on how many handshakes are pending",
        ),
        (
            Id::AcceptQueueOverflow,
            "no request on an open connection was ignored",
        ),
        (
            Id::TrafficFlood,
            "clients that connect go on to use their connections; the senders of a flood do not",
        ),
    ],
    overturned_by: "`nstat -az TcpExtTCPReqQFullDrop TcpExtListenDrops` not rising on the server",
    fix: &[
        (
            "server",
            "a longer queue: listen(backlog) (nginx `listen … backlog=`), net.core.somaxconn and net.ipv4.tcp_max_syn_backlog",
        ),
        (
            "server",
            "`sysctl net.ipv4.tcp_syncookies=1`: the kernel answers with SYN cookies instead of \
             ignoring SYNs",
        ),
        (
            "client",
            "keep connections alive; do not open all at the same time",
        ),
    ],
};

/// Watches SYNs that are ignored exactly while a certain number of handshakes are pending. A lossy
/// path would not depend on this number. SYN cookies are SYN/ACKs of a server whose queue is full.
/// Handshakes that cookies make late count too.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    delays: Delays,
    cookies: u64,
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        self.cookies += u64::from(setup.opening.is_cookie());
        if tcp_handshakes::is_repeated(setup) {
            self.delays.add_setup(setup.repeated_for(), setup);
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        if !self.delays.is_material(case) {
            return Conclusion::Nothing;
        }
        match case.why_syns_repeat() {
            WhyRepeated::SynQueue { room } => Conclusion::Claim(Box::new(self.claim(case, room))),
            _ => Conclusion::Nothing,
        }
    }
}

impl Rule {
    fn claim(&self, case: &Case<'_>, room: usize) -> Claim {
        let mut claim = self.delays.claim(Id::SynQueueFull, Owner::Server, case);
        let text = format!(
            "{} had to retransmit their SYN and were {} (median) late: SYNs were ignored whenever \
             {} pending, and answered whenever fewer were",
            counted(self.delays.count(), "connection", "connections"),
            self.delays.median(),
            counted(room as u64, "handshake was", "handshakes were"),
        );
        claim.evidence.push(self.delays.evidence(text));
        if self.cookies > 0 {
            let text = format!("{} SYN/ACKs were cookies, without options", self.cookies);
            claim
                .evidence
                .push(Statement::fits(EvidenceKind::Wire, text).count(self.cookies));
        }
        claim.basis = Basis::new(self.delays.count(), false);
        WORDING.tell(&mut claim, &[("room", &room)]);
        claim
    }
}
