//! The rule of the cause `firewall-drop`.

use super::attempts::{Attempts, repeats};
use super::evidence;
use super::refusals::{Refusals, SeenRefusals};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::Basis;
use crate::connection::{Setup, SetupOutcome};
use crate::exchange::wait::Owner;
use crate::observed::event::{ProbeAnswer, RequestFailure};
use crate::report::Affected;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "{service} does not answer at all, not even with a refusal. A packet filter drops the \
              attempts, or the host is down.",
    ruled_out: &[
        (Id::ConnectionRefused, "{resets}"),
        (
            Id::SynLoss,
            "no SYN was answered by a SYN/ACK, however often it was sent",
        ),
    ],
    overturned_by: "a capture on the server that shows no SYN arriving: then the path loses them",
    fix: &[
        (
            "server or path",
            "allow TCP port {port} in the packet filter",
        ),
        (
            "server or path",
            "reject instead of dropping, so that clients fail fast",
        ),
        (
            "server",
            "check that the host is up and the address is right",
        ),
    ],
};

/// The wording for a port of a host that is up.
const UP: Wording = Wording {
    summary: "{service} does not answer at all, not even with a refusal, but its host answers on \
              other ports: a packet filter drops the attempts.",
    fix: &[WORDING.fix[0], WORDING.fix[1]],
    ..WORDING
};

/// The wording for a filter that answers in the host's place.
const TURNED_DOWN: Wording = Wording {
    summary: "A packet filter on the path, not the host itself, rejects connection attempts to \
        {service}.",
    fix: &[WORDING.fix[0]],
    ..WORDING
};

/// The wording for a filter of the host itself.
const TURNED_DOWN_BY_HOST: Wording = Wording {
    summary: "A packet filter of the host {service}, or a device in its name, rejects connection \
        attempts with ICMP errors.",
    overturned_by: "a packet filter on the server without a rule for these packets",
    fix: &[(
        "server",
        "allow TCP port {port} in the host's packet filter",
    )],
    ..WORDING
};

/// The evidence that the host itself did not refuse the connections, if no RST came.
const NO_RESETS: &str = "no reset came";
/// The evidence that the host itself did not refuse the connections, if another device sent the
/// RSTs.
const FOREIGN_RESETS: &str = "the resets come from a different distance (hop count) than the \
    host's packets";

/// An unanswered attempt counts only after this many SYNs. A single SYN may just be the last packet
/// of the capture.
const SILENT_SYNS: u32 = 2;

/// Counts connection attempts that got no answer, or an answer that is not from the host's TCP. Such
/// an answer is an ICMP error "prohibited", an ICMP error of the host itself, or a RST whose TTL
/// shows another distance than the host's SYN/ACKs.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    silent: SeenRefusals,
    answered: u64,
    refusals: Refusals,
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        match (setup.outcome, setup.icmp_rejection) {
            (Some(SetupOutcome::Refused), _) | (Some(SetupOutcome::Unanswered), Some(_)) => {
                self.refusals.add_setup(setup);
            }
            (Some(SetupOutcome::Unanswered), None) => {
                if setup.syns.retransmissions + 1 >= SILENT_SYNS {
                    self.silent.add(&setup.syns.packets.numbers());
                }
            }
            (None, _) => {}
            (Some(_), _) => self.answered += 1,
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let attempts = Attempts::of(case).unwrap_or_default();
        let (own, foreign) = self.refusals.resets(case);
        if self.answered + own.count > 0 || attempts.has_connected() {
            return Conclusion::Nothing;
        }
        let prohibited = self.refusals.prohibited();
        let mut found = Vec::new();
        found.extend(self.silent.evidence(
            "attempt retransmitted its SYN and got no answer",
            "attempts retransmitted their SYN and got no answer",
        ));
        found.extend(prohibited.evidence(
            "SYN was answered by an ICMP error of a packet filter",
            "SYNs were answered by ICMP errors of a packet filter",
        ));
        found.extend(foreign.evidence(
            "SYN was answered by a reset from a different distance (hop count) than the host's own \
             answers on other ports",
            "SYNs were answered by resets from a different distance (hop count) than the host's \
             own answers on other ports",
        ));
        let turned_down = self.silent.count + prohibited.count + foreign.count;
        found.extend(attempts.handshakes(|a| a == ProbeAnswer::Silence, "got no answer"));
        found.extend(attempts.handshakes(is_prohibited, "were rejected by ICMP as prohibited"));
        found.extend(attempts.requests(
            |answer| answer == ProbeAnswer::Silence,
            |failure| failure == RequestFailure::ConnectTimeout,
            "could not connect in the time allowed",
        ));
        if found.is_empty() {
            return Conclusion::Nothing;
        }
        let is_by_host = self.refusals.by_host * 2 > turned_down;
        let culprit = if is_by_host {
            Owner::Server
        } else {
            Owner::Path
        };
        let mut claim = evidence::bare_claim(Id::FirewallDrop, culprit, case);
        claim.affected = Affected {
            exchanges: turned_down,
            of: turned_down + self.refusals.unreachable().count,
        };
        // A host that is down is silent too, unless its neighbours send ICMP errors.
        let tries = repeats(&found) + attempts.repeated_syns;
        claim.basis = Basis::new(tries, false);
        claim.evidence = found;
        let wording = match foreign.count + prohibited.count {
            0 => silence(case.facts.hosts.answers(case.endpoint.addr)),
            _ if is_by_host => &TURNED_DOWN_BY_HOST,
            _ => &TURNED_DOWN,
        };
        let resets = match foreign.count {
            0 => NO_RESETS,
            _ => FOREIGN_RESETS,
        };
        wording.tell(
            &mut claim,
            &[("resets", &resets), ("port", &case.endpoint.port)],
        );
        Conclusion::Claim(Box::new(claim))
    }
}

/// Returns the texts for a silent port. `is_up` is true if its host answered something else.
fn silence(is_up: bool) -> &'static Wording {
    if is_up { &UP } else { &WORDING }
}

/// Returns true if the answer is an ICMP error of a packet filter (RFC 1812 §5.2.7.1, RFC 4443
/// §3.1).
pub(crate) fn is_prohibited(answer: ProbeAnswer) -> bool {
    matches!(
        answer,
        ProbeAnswer::Unreachable(3, 9 | 10 | 13) | ProbeAnswer::Unreachable(1, 1 | 5)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_answers_elsewhere_is_not_said_to_be_down() {
        let says = |is_up| {
            let wording = silence(is_up);
            let changes = wording.fix.iter().map(|(_, change)| *change);
            [wording.summary]
                .into_iter()
                .chain(changes)
                .collect::<String>()
        };
        assert!(says(false).contains("the host is down"));
        assert!(says(false).contains("the host is up"));
        assert!(!says(true).contains("the host is"));
    }
}
