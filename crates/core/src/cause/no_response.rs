//! `no-response`.

use super::attempts::{Attempts, repeats};
use super::evidence::{self, fix};
use super::{Case, Conclusion};
use crate::event::{ProbeAnswer, RequestFailure};
use crate::wait::Owner;

/// Looks at requests that were taken and never answered.
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
            |answer| answer == ProbeAnswer::Silence && attempts.has_connected(),
            |failure| failure == RequestFailure::Timeout,
            "were accepted and not answered in the time allowed",
        );
        if found.is_empty() {
            return Conclusion::Nothing;
        }
        let mut finding = evidence::bare_finding("no-response", Owner::Server, case);
        finding.verdict = evidence::judge(&found, repeats(&found), false);
        finding.evidence = found;
        finding.summary = format!("{} accepts connections and requests and sends no response in the time allowed.", case.endpoint);
        finding.overturned_by = "a response that comes after the time allowed (--timeout)".to_owned();
        finding.fix = vec![fix("server", "find what its workers wait for: all busy, a deadlock, a backend that hangs"), fix("client", "allow more time (--timeout) if the answer is only late")];
        Conclusion::Finding(Box::new(finding))
    }
}
