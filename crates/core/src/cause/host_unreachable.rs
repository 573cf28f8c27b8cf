//! The rule of the cause `host-unreachable`.

use super::attempts::{Attempts, repeats};
use super::evidence;
use super::firewall_drop::is_prohibited;
use super::refusals::Refusals;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::connection::Setup;
use crate::exchange::wait::Owner;
use crate::facts::icmp_errors::Word;
use crate::observed::event::{ProbeAnswer, RequestFailure};
use crate::report::{Affected, EvidenceKind, counted};
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The network reports that {host} cannot be reached: there is no route, or no host has \
              that address.",
    ruled_out: &[],
    overturned_by: "an answer from the host by another path",
    fix: &[
        (
            "client",
            "check the address and the route (`ip route get {host}`)",
        ),
        ("server", "check that the host is up"),
    ],
};

/// The wording for packets other than SYNs.
const TOLD: Wording = Wording {
    fix: &[
        WORDING.fix[0],
        (
            "path",
            "look at the sender of the ICMP message: its routes, its filter, its neighbour table",
        ),
    ],
    ..WORDING
};

/// The wording for packets other than SYNs that a packet filter rejected.
const REJECTED: Wording = Wording {
    summary: "A packet filter rejects packets to {host} with ICMP errors.",
    ..TOLD
};

/// The wording for packets that the host itself rejected.
const REJECTED_BY_HOST: Wording = Wording {
    summary: "A packet filter of {host} itself, or a device in its name, rejects packets with ICMP \
              errors.",
    overturned_by: "an answer from the host to the same packets",
    fix: &[(
        "server",
        "look at its packet filter, and at devices that answer in its name",
    )],
    ..WORDING
};

/// Watches connection attempts that the network rejected. The evidence is ICMP errors about SYNs,
/// except those of packet filters.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    refusals: Refusals,
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        self.refusals.add_setup(setup);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let attempts = Attempts::of(case).unwrap_or_default();
        if attempts.has_connected() || self.refusals.others > 0 {
            return Conclusion::Nothing;
        }
        let is_meant =
            |answer| matches!(answer, ProbeAnswer::Unreachable(..)) && !is_prohibited(answer);
        let mut found = attempts.handshakes(is_meant, "were rejected as unreachable");
        found.extend(attempts.requests(
            is_meant,
            |failure| failure == RequestFailure::Unreachable,
            "were rejected as unreachable",
        ));
        let turned_down = self.refusals.unreachable();
        found.extend(turned_down.evidence(
            "SYN was answered by ICMP as unreachable",
            "SYNs were answered by ICMP as unreachable",
        ));
        if found.is_empty() {
            return Conclusion::Nothing;
        }
        let mut claim = evidence::bare_claim(Id::HostUnreachable, Owner::Path, case);
        claim.affected = Affected {
            exchanges: turned_down.count,
            of: turned_down.count,
        };
        claim.basis = Basis::new(repeats(&found), false);
        claim.evidence = found;
        WORDING.tell(&mut claim, &[("host", &case.endpoint.addr)]);
        Conclusion::Claim(Box::new(claim))
    }
}

/// Returns the claim that a router or host rejected packets other than SYNs, under the cause
/// `id`. `said` quotes the ICMP error, and `asked` is the number of such packets sent.
pub(crate) fn told(case: &Case<'_>, id: Id, word: &Word, said: &str, asked: u64) -> Claim {
    let is_by_host = id == Id::FirewallDrop && word.is_by_target();
    let culprit = if is_by_host {
        Owner::Server
    } else {
        Owner::Path
    };
    let mut claim = evidence::bare_claim(id, culprit, case);
    claim.affected = Affected {
        exchanges: word.count,
        of: asked,
    };
    let text = format!("{}: {said}", counted(word.count, "time", "times"));
    claim.evidence.push(
        Statement::shows(EvidenceKind::Wire, text)
            .count(word.count)
            .packets(&word.packets),
    );
    claim.basis = Basis::new(word.count, false);
    let wording = match id {
        Id::FirewallDrop if is_by_host => &REJECTED_BY_HOST,
        Id::FirewallDrop => &REJECTED,
        _ => &TOLD,
    };
    wording.tell(&mut claim, &[("host", &word.target)]);
    claim
}
