//! `http-error`.

use super::attempts::Attempts;
use super::evidence::{self, fix, percent};
use super::{Case, Conclusion};
use crate::exchange::{Exchange, Outcome};
use crate::report::{Affected, Evidence, EvidenceKind};
use crate::wait::Owner;

/// Errors in this share of the responses are a finding.
const SHARE: f64 = 0.01;

/// Counts responses by whether they are errors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    errors: u64,
    all: u64,
}

impl super::Rule for Rule {
    fn observe(&mut self, exchange: &Exchange) {
        if let Outcome::Complete(Some(status)) = exchange.outcome {
            self.all += 1;
            self.errors += u64::from(is_error(status));
        }
    }

    fn merge(&mut self, other: Self) {
        self.errors += other.errors;
        self.all += other.all;
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let attempts = Attempts::of(case).unwrap_or_default();
        let own: u64 = attempts.statuses.values().sum();
        let own_errors: u64 =
            attempts.statuses.iter().filter(|(status, _)| is_error(**status)).map(|(_, n)| n).sum();
        let is_frequent = |errors: u64, all: u64| errors > 0 && errors as f64 >= all as f64 * SHARE;
        let mut found = Vec::new();
        if is_frequent(self.errors, self.all) && case.has_packets {
            let text = format!("{} of {} responses seen were errors", self.errors, self.all);
            found.push(Evidence::mechanism(EvidenceKind::Wire, text).count(self.errors));
        }
        if is_frequent(own_errors, own) {
            let list: Vec<String> =
                attempts.statuses.iter().map(|(status, n)| format!("{status} ×{n}")).collect();
            let text = format!("our own requests were answered by {}", list.join(", "));
            found.push(Evidence::mechanism(EvidenceKind::OwnSocket, text).count(own_errors));
        }
        if found.is_empty() {
            return Conclusion::Nothing;
        }
        let (errors, all) = if own > 0 { (own_errors, own) } else { (self.errors, self.all) };
        let mut finding = evidence::bare_finding("http-error", Owner::Server, case);
        finding.affected = Affected { exchanges: errors, of: all };
        finding.verdict = evidence::judge(&found, errors, false);
        finding.evidence = found;
        finding.summary = format!(
            "{} answers with errors: {} of its responses have a status of 400 or more. Their \
             latency is not the service's.",
            case.endpoint,
            percent(errors as f64 / all.max(1) as f64)
        );
        finding.overturned_by = "the same request answered well from elsewhere".to_owned();
        finding.fix = vec![
            fix("client", "check path and Host of the URL if the status is 4xx"),
            fix("server", "read its error log"),
        ];
        Conclusion::Finding(Box::new(finding))
    }
}

fn is_error(status: u16) -> bool {
    status >= 400
}
