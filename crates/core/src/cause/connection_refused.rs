//! `connection-refused`.

use super::attempts::{Attempts, repeats};
use super::evidence::{self, fix, ruled_out};
use super::{Case, Conclusion};
use crate::connection::{Setup, SetupOutcome};
use crate::event::{ProbeAnswer, RequestFailure};
use crate::report::{Affected, Evidence, EvidenceKind};
use crate::wait::Owner;

/// Counts SYNs that were answered by a reset.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    refused: u64,
    others: u64,
    packets: Vec<u64>,
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        if setup.outcome == Some(SetupOutcome::Refused) {
            self.refused += 1;
            if self.packets.len() < 5 {
                self.packets.push(setup.first_packet);
            }
        } else {
            self.others += 1;
        }
    }

    fn merge(&mut self, other: Self) {
        self.refused += other.refused;
        self.others += other.others;
        self.packets.extend(other.packets);
        self.packets.sort_unstable();
        self.packets.truncate(5);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let mut found = Vec::new();
        if self.refused > 0 {
            let text = format!("{} SYNs were answered by a reset", self.refused);
            found.push(
                Evidence::mechanism(EvidenceKind::Wire, text)
                    .count(self.refused)
                    .packets(&self.packets),
            );
        }
        let attempts = Attempts::of(case).unwrap_or_default();
        found.extend(attempts.handshakes(|a| a == ProbeAnswer::Refused, "were refused"));
        found.extend(attempts.requests(
            |answer| answer == ProbeAnswer::Refused,
            |failure| failure == RequestFailure::Refused,
            "could not connect: refused",
        ));
        if found.is_empty() || attempts.has_connected() && self.refused == 0 {
            return Conclusion::Nothing;
        }
        let mut finding = evidence::bare_finding("connection-refused", Owner::Server, case);
        finding.affected =
            Affected { exchanges: self.refused, of: self.refused + self.others };
        let has_look_alike = self.others > 0 && self.others > self.refused;
        finding.verdict = evidence::judge(&found, repeats(&found), has_look_alike);
        finding.evidence = found;
        finding.summary = format!(
            "Nobody listens on {}: its host answers each connection attempt with a reset.",
            case.endpoint
        );
        finding.ruled_out.push(ruled_out(
            "firewall-drop",
            "an answer came; a packet filter that rejects by reset would look the same and cannot \
             be told apart from here",
        ));
        finding.overturned_by = format!("`ss -ltn` on the server listing port {}", case.endpoint.port);
        finding.fix = vec![
            fix("server", format!("start the service, or bind it to {}", case.endpoint)),
            fix("client", "check host and port of the URL"),
        ];
        Conclusion::Finding(Box::new(finding))
    }
}
