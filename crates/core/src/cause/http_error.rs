//! The rule of the cause `http-error`.

use super::attempts::Attempts;
use super::evidence;
use super::settings::Measured;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::exchange::Outcome;
use crate::exchange::wait::Owner;
use crate::report::{Affected, Evidence, EvidenceKind, counted};

const WORDING: Wording = Wording {
    summary: "{service} answers with errors: {part} of its responses have a status of 400 or more. \
        Their latency says nothing about requests that succeed.",
    ruled_out: &[],
    overturned_by: "the same request succeeding from elsewhere",
    fix: &[
        (
            "client",
            "check path and Host of the URL if the status is 4xx",
        ),
        ("server", "read its error log"),
    ],
};

/// Minimum share of error responses for a finding.
const SHARE: f64 = 0.01;

/// Counts error responses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn merge(&mut self, _: Self) {}

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let attempts = Attempts::of(case).unwrap_or_default();
        let own: u64 = attempts.statuses.values().sum();
        let own_errors: u64 = attempts
            .statuses
            .iter()
            .filter(|(status, _)| is_error(**status))
            .map(|(_, n)| n)
            .sum();
        let (seen_errors, seen) = seen(case);
        let is_frequent = |errors: u64, all: u64| errors > 0 && errors as f64 >= all as f64 * SHARE;
        let mut found = Vec::new();
        if is_frequent(seen_errors, seen) && case.has_packets {
            let text = format!(
                "{seen_errors} of {} were errors",
                counted(seen, "response", "responses"),
            );
            found.push(Evidence::mechanism(EvidenceKind::Wire, text).count(seen_errors));
        }
        if is_frequent(own_errors, own) {
            let list: Vec<String> = attempts
                .statuses
                .iter()
                .map(|(status, n)| format!("{status} ×{n}"))
                .collect();
            let text = format!("our own requests were answered by {}", list.join(", "));
            found.push(Evidence::mechanism(EvidenceKind::OwnSocket, text).count(own_errors));
        }
        if found.is_empty() {
            return Conclusion::Nothing;
        }
        let (errors, all) = if own > 0 {
            (own_errors, own)
        } else {
            (seen_errors, seen)
        };
        let mut finding = evidence::bare_finding(Id::HttpError, Owner::Server, case);
        finding.affected = Affected {
            exchanges: errors,
            of: all,
        };
        finding.verdict = evidence::judge(&found, errors, false);
        finding.evidence = found;
        WORDING.tell(&mut finding, &[]);
        Conclusion::Finding(Box::new(finding))
    }

    fn measured(&self, case: &Case<'_>) -> Measured {
        Measured {
            status: most_frequent(case),
            connections: case.facts.loads.connections(case.target),
            ..Measured::default()
        }
    }
}

/// Returns the number of error responses, and the number of all responses with a status. A
/// challenge (401, 407) only asks the client to authenticate (RFC 9110 §11.1). It is no error if at
/// least as many other responses follow.
fn seen(case: &Case<'_>) -> (u64, u64) {
    let count_of = |is: fn(u16) -> bool| -> u64 {
        let outcomes = case.ledger.counts.outcomes.iter();
        let of = outcomes.filter(|(outcome, _)| match outcome {
            Outcome::Complete(Some(status)) => is(*status),
            _ => false,
        });
        of.map(|(_, count)| count).sum()
    };
    let (errors, challenges) = (count_of(is_error), count_of(is_challenge));
    let others = count_of(|status| !is_challenge(status));
    let is_met = challenges <= others;
    let errors = if is_met { errors - challenges } else { errors };
    (errors, count_of(|_| true))
}

/// Returns the most frequent status of error responses: to our own requests if there are any,
/// otherwise in the capture.
fn most_frequent(case: &Case<'_>) -> Option<u16> {
    let own = Attempts::of(case).unwrap_or_default().statuses;
    let seen = case.ledger.counts.outcomes.iter();
    let seen = seen.filter_map(|(outcome, count)| match outcome {
        Outcome::Complete(Some(status)) => Some((status, count)),
        _ => None,
    });
    let most = |counts: &mut dyn Iterator<Item = (u16, u64)>| {
        let errors = counts.filter(|&(status, _)| is_error(status));
        errors.max_by_key(|&(status, count)| (count, status))
    };
    let found = most(&mut own.into_iter()).or_else(|| most(&mut seen.into_iter()));
    found.map(|(status, _)| status)
}

fn is_error(status: u16) -> bool {
    status >= 400
}

fn is_challenge(status: u16) -> bool {
    matches!(status, 401 | 407)
}
