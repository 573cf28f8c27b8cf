//! The rule of the cause `syn-loss`.

use core::time::Duration;

use super::delays::whole_with_setup;
use super::evidence::{self, human, percent};
use super::first_packets::FirstPackets;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::connection::{Setup, SetupOutcome};
use crate::exchange::wait::{Owner, WaitKind};
use crate::observed::event::{ProbeAnswer, TargetId};
use crate::report::{Affected, EvidenceKind, Unit, counted};
use crate::service::tcp_handshakes::{self, WhyRepeated};
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

/// The kernel's reason for what a packet filter drops (`include/net/dropreason-core.h`).
const FILTERED: &str = "NETFILTER_DROP";

const WORDING: Wording = Wording {
    summary: "Connection attempts are lost: {odd} of the connections needed a second SYN and \
              started {late} (median) late. A lost SYN and a lost answer look the same at this \
              capture point.",
    ruled_out: &[(Id::FirewallDrop, "the retransmitted SYN was answered")],
    overturned_by: "a capture on the server that shows every SYN answered immediately",
    fix: &[
        (
            "server",
            "check the listen queues (nstat -az TcpExtListenDrops) and rate limits on SYNs",
        ),
        ("path", "find where packets are lost"),
        (
            "client",
            "reuse connections; race addresses (Happy Eyeballs)",
        ),
    ],
};

/// The wording if the SYNs were captured at the server, which did not answer them.
const IGNORED: Wording = Wording {
    summary: "The server's host ignores connection attempts: on {odd} of the connections the first \
        SYN reached it and was not answered, so that they started {late} (median) late.",
    fix: &[
        (
            "server",
            "check its listen queues (`nstat -az TcpExtListenDrops TcpExtListenOverflows`) and what \
             its packet filter drops (`nft list ruleset`, `iptables -nvL`): a limit on SYNs, a full \
             table of connections",
        ),
        (
            "client",
            "reuse connections; race addresses (Happy Eyeballs)",
        ),
    ],
    ..WORDING
};

/// The wording if answers to SYNs passed the capture point and did not reach the client in time.
const MISSED: Wording = Wording {
    summary: "Answers to connection attempts are lost or late: on {odd} of the connections the \
        client repeated its SYN although a SYN/ACK had passed this capture point. They started \
        {late} (median) late.",
    overturned_by: "a capture on the client in which every SYN/ACK arrives before the next SYN",
    fix: &[
        (
            "path",
            "find where packets to the client are lost or held (capture nearer to the client)",
        ),
        (
            "client",
            "reuse connections; race addresses (Happy Eyeballs)",
        ),
    ],
    ..WORDING
};

/// The wording if a capture point next to the client saw the answers that the client missed.
const MISSED_BY_CLIENT: Wording = Wording {
    summary: "The client's host loses or holds answers to connection attempts: on {odd} of the \
        connections it repeated its SYN although a SYN/ACK had reached this capture point next \
        to it. They started {late} (median) late.",
    overturned_by: "a trace on the client (`dropwatch`, `perf trace -e skb:kfree_skb`) that shows \
                    no dropped packet",
    fix: &[
        (
            "client",
            "find what stands between the device and the socket: packet filter, connection \
             tracking, VPN or inspection software, a stopped virtual machine",
        ),
        (
            "client",
            "reuse connections; race addresses (Happy Eyeballs)",
        ),
    ],
    ..WORDING
};

/// The wording if all attempts with lost SYNs were given up.
const GIVEN_UP: Wording = Wording {
    summary: "Connection attempts are lost: {given_up} of {attempts} were retransmitted for \
        {waited} (median) and given up. From this side lost SYNs and lost answers look the same.",
    ruled_out: &[],
    ..WORDING
};

/// The wording if only our own probes had lost SYNs.
const PROBED: Wording = Wording {
    summary: "Connection attempts are lost: lagtrace's own probes had to send SYNs again, a second or \
        more after the first ones.",
    ruled_out: &[],
    ..WORDING
};

/// Minimum share of connections with a lost SYN for a claim, unless they are a large part of the
/// time.
const SHARE: f64 = 0.01;

/// Minimum number of losses of other segments that must be expected at the rate of the SYNs for their
/// absence to mean something.
const EXPECTED: f64 = 10.0;
/// Other segments are spared if this many times fewer are lost than expected.
const SPARED: f64 = 4.0;

/// Watches SYNs that were answered only after a retransmission.
///
/// All handshakes of the service together show the reason. The reason is loss unless they show a
/// full queue of the server or a flood of SYNs.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    established: u64,
    repeated: u64,
    /// Number of attempts whose first SYN was captured at the server and not answered.
    ignored: u64,
    /// Number of attempts whose SYN was answered before the client repeated it.
    missed: u64,
    /// Number of these at which the capture point is next to the client.
    missed_by_client: u64,
    lost: Distribution,
    packets: FirstPackets,
    /// The times for which attempts retransmitted their SYN until they were given up.
    given_up: Distribution,
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        let is_turned_down = setup.icmp_rejection.is_some();
        match setup.outcome {
            Some(SetupOutcome::Established) => self.established += 1,
            Some(SetupOutcome::Unanswered) if setup.syns.retransmissions > 0 && !is_turned_down => {
                self.given_up.record(setup.repeated_for());
                return self.show(setup);
            }
            _ => return,
        }
        if !tcp_handshakes::is_repeated(setup) {
            return;
        }
        self.repeated += 1;
        self.ignored += u64::from(setup.was_ignored());
        self.missed += u64::from(setup.is_answer_missed());
        self.missed_by_client += u64::from(setup.is_missed_by_client());
        let recovery = setup
            .waits
            .iter()
            .filter(|wait| wait.kind == WaitKind::Recovery);
        self.lost.record(recovery.map(|wait| wait.duration()).sum());
        self.show(setup);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let probed = probed(case);
        let odd = self.repeated + self.given_up.count();
        // If no attempt is answered, another rule reports that.
        let is_answered = self.established > 0;
        let is_large = odd >= evidence::REPEATS
            && self.lost_ns() as f64
                >= case.ledger.total_with_setup().max(1) as f64 * evidence::MATERIAL_SHARE;
        let is_frequent = is_large || odd as f64 >= self.attempts() as f64 * SHARE;
        let is_frequent = is_answered && odd > 0 && is_frequent;
        let is_lost = || case.why_syns_repeat() == WhyRepeated::Loss;
        if (!is_frequent && probed.is_none()) || !is_lost() {
            return Conclusion::Nothing;
        }
        Conclusion::Claim(Box::new(self.claim(case, probed)))
    }
}

impl Rule {
    /// Returns the number of attempts that were established or given up.
    fn attempts(&self) -> u64 {
        self.established + self.given_up.count()
    }

    /// Returns the time that attempts lost, in nanoseconds.
    fn lost_ns(&self) -> u64 {
        let lost = self.lost.sum_ns() + self.given_up.sum_ns();
        u64::try_from(lost).unwrap_or(u64::MAX)
    }

    fn show(&mut self, setup: &Setup) {
        self.packets.add(setup.syns.packets.first);
    }

    /// Returns the evidence of attempts that were never answered although others were. A packet
    /// filter, or a server that was down for some time, would look the same.
    fn silence(&self) -> Option<Statement> {
        let count = self.given_up.count();
        let text = format!(
            "{count} of {} attempts retransmitted their SYN for {} (median) and were given up, \
             although others were answered",
            self.attempts(),
            evidence::median(&self.given_up)
        );
        let circumstance = Statement::fits(EvidenceKind::Wire, text).count(count);
        (count > 0).then(|| circumstance.packets(&self.packets))
    }

    /// Returns true if `count` is the greater part of the attempts that were repeated.
    fn is_most(&self, count: u64) -> bool {
        count * 2 > self.repeated
    }

    fn culprit(&self) -> Owner {
        if self.is_most(self.ignored) {
            Owner::Server
        } else if self.is_most(self.missed_by_client) {
            Owner::Client
        } else {
            Owner::Path
        }
    }

    fn wording(&self, culprit: Owner) -> &'static Wording {
        match (self.repeated, culprit) {
            (0, _) if self.given_up.is_empty() => &PROBED,
            (0, _) => &GIVEN_UP,
            (_, Owner::Server) => &IGNORED,
            (_, Owner::Client) => &MISSED_BY_CLIENT,
            _ if self.is_most(self.missed) => &MISSED,
            _ => &WORDING,
        }
    }

    fn tell(&self, claim: &mut Claim, culprit: Owner) {
        let late = self.lost.quantile(0.5).unwrap_or(Duration::from_secs(1));
        let odd = self.repeated as f64 / self.established.max(1) as f64;
        self.wording(culprit).tell(
            claim,
            &[
                ("odd", &percent(odd)),
                ("late", &human(late)),
                ("given_up", &self.given_up.count()),
                ("attempts", &self.attempts()),
                ("waited", &evidence::median(&self.given_up)),
            ],
        );
    }

    fn claim(&self, case: &Case<'_>, probed: Option<Statement>) -> Claim {
        let culprit = self.culprit();
        let mut claim = evidence::bare_claim(Id::SynLoss, culprit, case);
        let cost = self.lost_ns();
        claim.unit = Unit::Connections;
        claim.time.cost_exactly(cost);
        claim.time.wall_ns = cost;
        claim.time.whole_ns = whole_with_setup(case, cost);
        claim.affected = Affected {
            exchanges: self.repeated + self.given_up.count(),
            of: self.attempts(),
        };
        if self.repeated > 0 {
            let text = format!(
                "{} of {} established only after a retransmitted SYN, {} (median) late",
                self.repeated,
                counted(self.established, "connection was", "connections were"),
                evidence::median(&self.lost),
            );
            claim.evidence.push(
                Statement::shows(EvidenceKind::Wire, text)
                    .count(self.repeated)
                    .median(&self.lost)
                    .packets(&self.packets),
            );
        }
        claim.evidence.extend(self.silence());
        // Probes show the same as packets: a SYN that was repeated, and not why.
        let is_same = self.repeated > 0;
        claim
            .evidence
            .extend(probed.map(|probed| probed.shown_if(!is_same)));
        // If the point saw who did not answer, or who missed the answer, no rate is needed.
        let is_inferred = culprit == Owner::Path && !self.is_most(self.missed);
        let only_syns = self.only_syns(case).filter(|_| is_inferred);
        let is_rare = self.repeated * 20 < self.established;
        claim.basis = Basis::new(self.repeated, is_rare || only_syns.is_some());
        claim.evidence.extend(only_syns);
        if culprit == Owner::Server {
            claim.evidence.push(self.unanswered());
            claim.evidence.extend(filtered(case));
        }
        self.tell(&mut claim, culprit);
        claim
    }

    /// Returns the evidence that a path that loses SYNs this often does not lose other segments:
    /// then something drops SYNs only, such as a limit of a packet filter, or a full backlog.
    fn only_syns(&self, case: &Case<'_>) -> Option<Statement> {
        let odd = (self.repeated + self.given_up.count()) as f64;
        let rate = odd / self.attempts().max(1) as f64;
        // Each exchange has at least one segment whose loss is seen at any point: that of the request
        // is repeated at the client, and that of the response at the server.
        let exchanges = case.ledger.counts.count;
        let expected = (rate * exchanges as f64).floor();
        let seen = case.ledger.losses.repaired.sum();
        let text = format!(
            "of the segments of {} on open connections {} lost; at the rate of the SYNs at least \
             {expected:.0} would be: something may drop SYNs only",
            counted(exchanges, "exchange", "exchanges"),
            match seen {
                0 => "none was".to_owned(),
                seen => counted(seen, "was", "were"),
            },
        );
        let is_spared = expected >= EXPECTED && seen as f64 * SPARED < expected;
        (is_spared && case.has_packets)
            .then(|| Statement::fits(EvidenceKind::Wire, text).count(exchanges))
    }

    fn unanswered(&self) -> Statement {
        let text = format!(
            "of {} first SYNs that had to be retransmitted, {} were captured next to the server, \
             which sent no SYN/ACK for them",
            self.repeated, self.ignored
        );
        Statement::fits(EvidenceKind::Wire, text).count(self.ignored)
    }
}

/// Returns the evidence that the packet filter of a watched host drops packets of the service's port.
/// The kernel counts all of them together, not SYNs alone.
fn filtered(case: &Case<'_>) -> Option<Statement> {
    let dropped = case.facts.turns.dropped(FILTERED);
    let text = format!(
        "a packet filter of the server's host dropped {} of the watched ports ({FILTERED})",
        counted(dropped, "packet", "packets")
    );
    (dropped > 0).then(|| Statement::fits(EvidenceKind::KernelTrace, text).count(dropped))
}

/// Returns the evidence of our own probes whose SYN had to be retransmitted.
pub(super) fn probed(case: &Case<'_>) -> Option<Statement> {
    let target = case.target.unwrap_or(TargetId::Subject);
    let (mut repeated, mut open) = (0, 0);
    for (key, group) in &case.facts.probes {
        if key.target == target && key.endpoint == case.endpoint {
            repeated += group.counts.syn_retransmissions;
            open += group
                .answers
                .get(&ProbeAnswer::Open)
                .copied()
                .unwrap_or_default();
        }
    }
    let text = format!(
        "our own probes had to retransmit {} for {}",
        counted(repeated, "SYN", "SYNs"),
        counted(open, "answer", "answers"),
    );
    (repeated > 0 && open > 0)
        .then(|| Statement::shows(EvidenceKind::OwnSocket, text).count(repeated))
}
