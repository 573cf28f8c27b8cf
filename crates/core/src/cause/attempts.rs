//! Our own probes and load requests to one target, counted by outcome. The rules on failed
//! connection attempts and requests use them.

use std::collections::BTreeMap;

use super::Case;
use crate::claim::Statement;
use crate::observed::event::{ProbeAnswer, ProbeMethod, RequestFailure};
use crate::report::EvidenceKind;

/// Our own probes and load requests to a target, by outcome.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attempts {
    /// Answers to SYNs from a raw socket. They count as evidence from packets.
    raw: BTreeMap<ProbeAnswer, u64>,
    connects: BTreeMap<ProbeAnswer, u64>,
    requests: BTreeMap<ProbeAnswer, u64>,
    failures: BTreeMap<RequestFailure, u64>,
    /// True if a response began that was not complete in the time allowed.
    has_begun: bool,
    /// Number of SYNs retransmitted during the probes and the load.
    pub(crate) repeated_syns: u64,
    /// Number of complete responses by status.
    pub(crate) statuses: BTreeMap<u16, u64>,
}

impl Attempts {
    /// Returns the attempts at the target of `case`; `None` for a capture without a run.
    pub(crate) fn of(case: &Case<'_>) -> Option<Self> {
        let target = case.target?;
        let mut attempts = Self::default();
        for (key, group) in case
            .facts
            .probes
            .iter()
            .filter(|(key, _)| key.target == target)
        {
            let answers = match key.method {
                ProbeMethod::TcpSyn => &mut attempts.raw,
                ProbeMethod::TcpConnect => &mut attempts.connects,
                ProbeMethod::HttpFresh | ProbeMethod::HttpKeptAlive => &mut attempts.requests,
                // These probes do not reach the service.
                ProbeMethod::TcpFlags | ProbeMethod::Icmp | ProbeMethod::Udp => continue,
                // The sample of the HTTP request already contains the handshake's outcome.
                ProbeMethod::TlsFull | ProbeMethod::TlsResumed => continue,
            };
            attempts.repeated_syns += group.counts.syn_retransmissions;
            for (&answer, &count) in &group.answers {
                *answers.entry(answer).or_default() += count;
            }
        }
        let mut overdue = case.facts.loads.samples_of(target);
        attempts.has_begun = attempts.requests.contains_key(&ProbeAnswer::Unfinished)
            || overdue.any(|(sample, _)| sample.is_unfinished());
        let load = case.facts.loads.all(target);
        attempts.failures = load.failures;
        attempts.statuses = load.statuses;
        for (&answer, &count) in &attempts.requests {
            if let ProbeAnswer::Status(status) = answer {
                *attempts.statuses.entry(status).or_default() += count;
            }
        }
        Some(attempts)
    }

    /// Returns true if any handshake or request succeeded.
    pub(crate) fn has_connected(&self) -> bool {
        let open = |answers: &BTreeMap<ProbeAnswer, u64>| answers.contains_key(&ProbeAnswer::Open);
        open(&self.raw) || open(&self.connects) || !self.statuses.is_empty()
    }

    /// Returns true if one of our probes got this answer, or if one of our load requests failed in
    /// this way.
    pub(crate) fn has_met(&self, answer: ProbeAnswer, failure: Option<RequestFailure>) -> bool {
        let has_failed = failure.is_some_and(|failure| self.failures.contains_key(&failure));
        self.requests.contains_key(&answer) || has_failed
    }

    /// Returns true if any response was complete, or began and was not complete in time.
    pub(crate) fn has_answer(&self) -> bool {
        self.has_response() || self.has_begun
    }

    /// Returns true if one of our own TLS handshakes failed.
    pub(crate) fn has_failed_tls(&self) -> bool {
        let is_tls = |failure: &RequestFailure| {
            matches!(
                failure,
                RequestFailure::Certificate | RequestFailure::Tls | RequestFailure::TlsTimeout
            )
        };
        let mut answers = self.requests.keys();
        answers.any(|answer| answer.is_tls_failure()) || self.failures.keys().any(is_tls)
    }

    /// Returns true if any response was complete.
    pub(crate) fn has_response(&self) -> bool {
        !self.statuses.is_empty()
    }

    /// Returns the evidence of the handshakes whose answers `is_meant` selects.
    pub(crate) fn handshakes(
        &self,
        is_meant: impl Fn(ProbeAnswer) -> bool,
        what: &str,
    ) -> Vec<Statement> {
        let kinds = [
            (&self.raw, EvidenceKind::Wire, "SYNs from a raw socket"),
            (&self.connects, EvidenceKind::OwnSocket, "connect() calls"),
        ];
        kinds
            .into_iter()
            .filter_map(|(answers, kind, how)| {
                let count = sum(answers, &is_meant);
                let of: u64 = answers.values().sum();
                let text = format!("{count} of {of} {how} {what}");
                (count > 0).then(|| Statement::shows(kind, text).count(count))
            })
            .collect()
    }

    /// Returns the evidence of the requests whose outcomes the two predicates select.
    pub(crate) fn requests(
        &self,
        is_answer: impl Fn(ProbeAnswer) -> bool,
        is_failure: impl Fn(RequestFailure) -> bool,
        what: &str,
    ) -> Vec<Statement> {
        let failed: u64 = self
            .failures
            .iter()
            .filter(|(f, _)| is_failure(**f))
            .map(|(_, n)| n)
            .sum();
        let count = failed + sum(&self.requests, &is_answer);
        let what = match (count, what.strip_prefix("were ")) {
            (1, Some(rest)) => format!("was {rest}"),
            _ => what.to_owned(),
        };
        let text = format!("{count} of our own requests {what}");
        let evidence =
            (count > 0).then(|| Statement::shows(EvidenceKind::OwnSocket, text).count(count));
        evidence.into_iter().collect()
    }
}

fn sum(answers: &BTreeMap<ProbeAnswer, u64>, is_meant: impl Fn(ProbeAnswer) -> bool) -> u64 {
    answers
        .iter()
        .filter(|(answer, _)| is_meant(**answer))
        .map(|(_, count)| count)
        .sum()
}

/// Returns the sum of the counts of all evidence.
pub(crate) fn repeats(evidence: &[Statement]) -> u64 {
    evidence.iter().filter_map(Statement::observed).sum()
}
