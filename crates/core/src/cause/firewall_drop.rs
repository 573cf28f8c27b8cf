//! `firewall-drop`.

use super::attempts::{Attempts, repeats};
use super::evidence::{self, fix, ruled_out};
use super::{Case, Conclusion};
use crate::connection::{Setup, SetupOutcome};
use crate::event::{ProbeAnswer, RequestFailure};
use crate::report::{Affected, Evidence, EvidenceKind};
use crate::wait::Owner;

/// SYNs without answer in one attempt, from which silence means something:
/// a single one may just have been the last in the capture.
const SILENT_SYNS: u32 = 2;

/// Counts connection attempts that nothing answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    unanswered: u64,
    answered: u64,
    packets: Vec<u64>,
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        match setup.outcome {
            Some(SetupOutcome::Unanswered) if setup.retransmissions + 1 >= SILENT_SYNS => {
                self.unanswered += 1;
                if self.packets.len() < 5 {
                    self.packets.push(setup.first_packet);
                }
            }
            Some(SetupOutcome::Unanswered) | None => {}
            Some(_) => self.answered += 1,
        }
    }

    fn merge(&mut self, other: Self) {
        self.unanswered += other.unanswered;
        self.answered += other.answered;
        self.packets.extend(other.packets);
        self.packets.sort_unstable();
        self.packets.truncate(5);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let attempts = Attempts::of(case).unwrap_or_default();
        if self.answered > 0 || attempts.has_connected() {
            return Conclusion::Nothing;
        }
        let mut found = Vec::new();
        if self.unanswered > 0 {
            let text = format!("{} attempts repeated their SYN and got no answer", self.unanswered);
            found.push(
                Evidence::mechanism(EvidenceKind::Wire, text)
                    .count(self.unanswered)
                    .packets(&self.packets),
            );
        }
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
        let mut finding = evidence::bare_finding("firewall-drop", Owner::Path, case);
        finding.affected =
            Affected { exchanges: self.unanswered, of: self.unanswered + self.answered };
        // A host that is down is silent too, unless its neighbours say so.
        let tries = repeats(&found) + attempts.repeated_syns;
        finding.verdict = evidence::judge(&found, tries, false);
        finding.evidence = found;
        finding.summary = format!(
            "Nothing answers at {}: neither the service nor a refusal. A packet filter drops the \
             attempts, or the host is down.",
            case.endpoint
        );
        finding.ruled_out.push(ruled_out("connection-refused", "no reset came"));
        finding.ruled_out.push(ruled_out("syn-loss", "the repeated SYNs stayed unanswered too"));
        finding.overturned_by =
            "a capture on the server that shows no SYN arriving: then the path loses them".to_owned();
        finding.fix = vec![
            fix("server or path", format!("allow TCP port {} in the packet filter", case.endpoint.port)),
            fix("server or path", "reject instead of dropping, so that clients fail fast"),
            fix("server", "check that the host is up and the address is right"),
        ];
        Conclusion::Finding(Box::new(finding))
    }
}

/// ICMP's word for a filter that says no (RFC 1812 §5.2.7.1, RFC 4443 §3.1).
pub(crate) fn is_prohibited(answer: ProbeAnswer) -> bool {
    matches!(answer, ProbeAnswer::Unreachable(3, 9 | 10 | 13) | ProbeAnswer::Unreachable(1, 1 | 5))
}
