//! `host-unreachable`.

use super::attempts::{Attempts, repeats};
use super::evidence::{self, fix};
use super::firewall_drop::is_prohibited;
use super::{Case, Conclusion};
use crate::event::{ProbeAnswer, RequestFailure};
use crate::wait::Owner;

/// Looks at attempts that the network itself turned down.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn merge(&mut self, _other: Self) {}

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let attempts = Attempts::of(case).unwrap_or_default();
        if attempts.has_connected() {
            return Conclusion::Nothing;
        }
        let is_meant = |answer| {
            matches!(answer, ProbeAnswer::Unreachable(..)) && !is_prohibited(answer)
        };
        let mut found = attempts.handshakes(is_meant, "were turned down as unreachable");
        found.extend(attempts.requests(
            is_meant,
            |failure| failure == RequestFailure::Unreachable,
            "were turned down as unreachable",
        ));
        if found.is_empty() {
            return Conclusion::Nothing;
        }
        let mut finding = evidence::bare_finding("host-unreachable", Owner::Path, case);
        finding.verdict = evidence::judge(&found, repeats(&found), false);
        finding.evidence = found;
        finding.summary = format!(
            "The network says that {} cannot be reached: no route, or nobody has that address.",
            case.endpoint.addr
        );
        finding.overturned_by = "an answer from the host by another path".to_owned();
        finding.fix = vec![
            fix("client", format!("check the address and the route (`ip route get {}`)", case.endpoint.addr)),
            fix("server", "check that the host is up"),
        ];
        Conclusion::Finding(Box::new(finding))
    }
}
