//! `not-http`.

use super::attempts::{Attempts, repeats};
use super::evidence::{self, fix};
use super::{Case, Conclusion};
use crate::event::{ProbeAnswer, RequestFailure};
use crate::wait::Owner;

/// Looks at answers that are no HTTP.
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
            |answer| answer == ProbeAnswer::NotHttp,
            |failure| failure == RequestFailure::NotHttp,
            "got bytes that are no HTTP response",
        );
        if found.is_empty() {
            return Conclusion::Nothing;
        }
        let mut finding = evidence::bare_finding("not-http", Owner::Server, case);
        finding.verdict = evidence::judge(&found, repeats(&found), false);
        finding.evidence = found;
        finding.summary = format!("What {} answers is no HTTP/1.x: another protocol, or TLS.", case.endpoint);
        finding.overturned_by = "an HTTP response from the same port".to_owned();
        finding.fix = vec![fix("client", "check scheme and port of the URL; a TLS port wants https")];
        Conclusion::Finding(Box::new(finding))
    }
}
