//! `connection-closed`.

use super::attempts::{Attempts, repeats};
use super::evidence::{self, fix};
use super::{Case, Conclusion};
use crate::event::{ProbeAnswer, RequestFailure};
use crate::wait::Owner;

/// Looks at requests that were answered by a close or reset.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn merge(&mut self, _other: Self) {}

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let attempts = Attempts::of(case).unwrap_or_default();
        if attempts.has_response() {
            return Conclusion::Nothing;
        }
        let found = attempts.requests(
            |answer| answer == ProbeAnswer::Closed,
            |failure| matches!(failure, RequestFailure::Closed | RequestFailure::Reset),
            "were closed or reset before a whole response",
        );
        if found.is_empty() {
            return Conclusion::Nothing;
        }
        let mut finding = evidence::bare_finding("connection-closed", Owner::Server, case);
        finding.verdict = evidence::judge(&found, repeats(&found), false);
        finding.evidence = found;
        finding.summary = format!("{} accepts connections and closes them before it answers.", case.endpoint);
        finding.overturned_by = "a whole response to the same request from elsewhere".to_owned();
        finding.fix = vec![fix("server", "read its error log: a crash, a limit on connections, or another protocol"), fix("client", "check that the port speaks plain HTTP")];
        Conclusion::Finding(Box::new(finding))
    }
}
