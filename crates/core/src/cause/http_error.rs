//! The rule of the cause `http-error`.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use super::attempts::Attempts;
use super::evidence;
use super::settings::{self, Measured};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::exchange::Outcome;
use crate::exchange::wait::Owner;
use crate::report::{Affected, Evidence, EvidenceKind, counted};

/// The server failed, or its configuration has it answer so.
const FAILS: Wording = Wording {
    summary: "{service} answers {part} of the requests with an error (status 400 or more). The \
        latency of errors says nothing about requests that succeed.",
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
/// Only statuses that say that the request was wrong.
const REJECTS: Wording = Wording {
    summary: "{service} rejects {part} of the requests with a status of 4xx. Either these requests \
        are wrong, or the server lacks what they ask for. The latency of errors says nothing about \
        requests that succeed.",
    ruled_out: &[],
    overturned_by: "the same request succeeding from elsewhere",
    fix: &[
        ("client", "check path, Host and credentials of the requests"),
        (
            "server",
            "if the requests are right, find in its error log why it rejects them",
        ),
    ],
};

/// Minimum share of error responses for a finding.
const SHARE: f64 = 0.01;
/// Maximum number of statuses in the evidence of a capture.
const MOST_TOLD: usize = 4;

/// Counts error responses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn merge(&mut self, _: Self) {}

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let own = Attempts::of(case).unwrap_or_default().statuses;
        let seen = if case.has_packets {
            statuses(case)
        } else {
            Statuses::new()
        };
        let unmet = unmet(&seen);
        let mut found = Vec::new();
        if is_frequent(&unmet, &seen, is_error) {
            let errors = count(&unmet, is_error);
            let met = match count(&seen, is_challenge) - count(&unmet, is_challenge) {
                0 => String::new(),
                met => format!(
                    ", not counting {} (401, 407)",
                    counted(met, "challenge", "challenges")
                ),
            };
            let text = format!(
                "{errors} of {} were errors ({}){met}",
                counted(count(&seen, |_| true), "response", "responses"),
                list(&most_frequent(&unmet)),
            );
            found.push(Evidence::mechanism(EvidenceKind::Wire, text).count(errors));
        }
        if is_frequent(&own, &own, is_error) {
            let all: Vec<(u16, u64)> = own.iter().map(|(&status, &n)| (status, n)).collect();
            let text = format!("our own requests were answered by {}", list(&all));
            let errors = count(&own, is_error);
            found.push(Evidence::mechanism(EvidenceKind::OwnSocket, text).count(errors));
        }
        if found.is_empty() {
            return Conclusion::Nothing;
        }
        let has_failed =
            is_frequent(&own, &own, is_failure) || is_frequent(&seen, &seen, is_failure);
        let culprit = if has_failed || self.is_configured(case) {
            Owner::Server
        } else {
            Owner::Unknown
        };
        let (errors, all) = if is_frequent(&own, &own, is_error) {
            (&own, &own)
        } else {
            (&unmet, &seen)
        };
        let mut finding = evidence::bare_finding(Id::HttpError, culprit, case);
        finding.affected = Affected {
            exchanges: count(errors, is_error),
            of: count(all, |_| true),
        };
        finding.verdict = evidence::judge(&found, finding.affected.exchanges, false);
        finding.evidence = found;
        let wording = if culprit == Owner::Server {
            &FAILS
        } else {
            &REJECTS
        };
        wording.tell(&mut finding, &[]);
        Conclusion::Finding(Box::new(finding))
    }

    fn measured(&self, case: &Case<'_>) -> Measured {
        let own = Attempts::of(case).unwrap_or_default().statuses;
        let own = most_frequent(&own);
        let seen = || most_frequent(&statuses(case));
        let most = own.first().copied().or_else(|| seen().first().copied());
        Measured {
            status: most.map(|(status, _)| status),
            connections: case.facts.loads.connections(case.target),
            ..Measured::default()
        }
    }
}

impl Rule {
    /// Returns true if the server's configuration has it answer with this error.
    fn is_configured(&self, case: &Case<'_>) -> bool {
        let measured = super::Rule::measured(self, case);
        settings::supporting(case, Id::HttpError, Owner::Server, &measured).is_some()
    }
}

/// Number of responses by status.
type Statuses = BTreeMap<u16, u64>;

/// Returns the responses in the capture.
fn statuses(case: &Case<'_>) -> Statuses {
    let mut statuses = Statuses::new();
    for (outcome, n) in case.ledger.counts.outcomes.iter() {
        if let Outcome::Complete(Some(status)) = outcome {
            *statuses.entry(status).or_default() += n;
        }
    }
    statuses
}

/// Returns the responses without those challenges that other responses followed: a challenge (401,
/// 407) only asks the client to authenticate (RFC 9110 §11.1). It is no error if there are at least
/// as many other responses.
fn unmet(seen: &Statuses) -> Statuses {
    let mut unmet = seen.clone();
    if count(seen, is_challenge) * 2 <= count(seen, |_| true) {
        unmet.retain(|&status, _| !is_challenge(status));
    }
    unmet
}

fn count(statuses: &Statuses, is_meant: fn(u16) -> bool) -> u64 {
    let meant = statuses.iter().filter(|(status, _)| is_meant(**status));
    meant.map(|(_, n)| n).sum()
}

fn is_frequent(of: &Statuses, all: &Statuses, is_meant: fn(u16) -> bool) -> bool {
    let (errors, all) = (count(of, is_meant), count(all, |_| true));
    errors > 0 && errors as f64 >= all as f64 * SHARE
}

/// Returns the most frequent statuses of errors, with their counts, the most frequent first.
fn most_frequent(statuses: &Statuses) -> Vec<(u16, u64)> {
    let errors = statuses.iter().filter(|(status, _)| is_error(**status));
    let mut errors: Vec<(u16, u64)> = errors.map(|(&status, &n)| (status, n)).collect();
    errors.sort_by_key(|&(status, n)| Reverse((n, status)));
    errors.truncate(MOST_TOLD);
    errors
}

fn list(statuses: &[(u16, u64)]) -> String {
    let list: Vec<String> = statuses.iter().map(|(s, n)| format!("{s} ×{n}")).collect();
    list.join(", ")
}

fn is_error(status: u16) -> bool {
    status >= 400
}

/// Returns true if the server says that it failed (RFC 9110 §15.6); the other errors say that the
/// request was wrong.
fn is_failure(status: u16) -> bool {
    status >= 500
}

fn is_challenge(status: u16) -> bool {
    matches!(status, 401 | 407)
}
