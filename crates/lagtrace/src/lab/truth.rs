//! Comparison of a report with the truth of a service of the lab.

use lagtrace_core::exchange::wait::Owner;
use lagtrace_core::registry::Id;
use lagtrace_core::report::{Finding, Report};
use lagtrace_lab::{Culprit, Expectation, Side, Truth};

use crate::words;

/// Returns the expected findings that the report lacks, and its false claims; empty if the report
/// is correct.
pub(super) fn misses(truth: &Truth, report: &Report) -> Vec<String> {
    let mut misses = Vec::new();
    let mut rest = report.causes();
    for expectation in &truth.expected {
        // Expected findings are sorted by cost, so each must come after the one before it in the
        // report.
        if !rest.any(|finding| fulfils(finding, expectation)) {
            let order = report.causes().any(|f| fulfils(f, expectation));
            let what = expected(expectation);
            misses.push(if order {
                format!("found too early: {what}")
            } else {
                format!("not found: {what}")
            });
            rest = report.causes();
        }
    }
    for cause in accused(truth, report) {
        misses.push(if truth.must_not.contains(&cause) {
            format!("found, but must not be: {cause}")
        } else {
            format!("found, but not expected: {cause}")
        });
    }
    misses
}

/// Returns the causes in the report that the truth does not allow.
pub(super) fn accused(truth: &Truth, report: &Report) -> Vec<Id> {
    let findings = report.causes().map(|finding| finding.cause);
    findings.filter(|&cause| !truth.admits(cause)).collect()
}

/// Returns the findings with an expected cause, regardless of their culprit.
pub(super) fn of_expected<'a>(
    truth: &'a Truth,
    report: &'a Report,
) -> impl Iterator<Item = &'a Finding> {
    let is_expected = |finding: &&Finding| {
        let mut expected = truth.expected.iter();
        expected.any(|expectation| expectation.cause.contains(&finding.cause))
    };
    report.causes().filter(is_expected)
}

/// Describes the truth in words, in lines.
pub(super) fn describe(truth: &Truth) -> Vec<String> {
    let expectations = truth.expected.iter();
    let mut lines: Vec<_> = expectations
        .map(|expectation| format!("to be found: {}", expected(expectation)))
        .collect();
    if lines.is_empty() {
        lines.push("to be found: nothing".to_owned());
    }
    for end in [Side::Client, Side::Server] {
        let reasons = truth.expected.iter().filter_map(|e| e.hidden.from(end));
        lines.extend(reasons.map(|why| format!("not visible in the packets of {end}: {why}")));
    }
    let lists = [
        ("may be found", &truth.allowed),
        ("must not be found", &truth.must_not),
    ];
    for (title, causes) in lists {
        if !causes.is_empty() {
            lines.push(format!("{title}: {}", listed(causes, ", ")));
        }
    }
    if let Some(added) = truth.added {
        lines.push(format!(
            "added to each affected request: {}",
            words::time(added)
        ));
    }
    if let Some(fraction) = truth.fraction {
        lines.push(format!("affects {:.0} % of all requests", fraction * 100.0));
    }
    if let Some(why) = &truth.no_cost {
        lines.push(format!("the cost cannot be measured: {why}"));
    }
    lines
}

/// Returns true if the finding has an expected cause and an expected culprit.
pub(super) fn fulfils(finding: &Finding, expectation: &Expectation) -> bool {
    expectation.cause.contains(&finding.cause) && is_of(finding, expectation)
}

/// Returns true if the finding has an expected owner, regardless of its cause.
pub(super) fn is_of(finding: &Finding, expectation: &Expectation) -> bool {
    let mut expected = expectation.culprit.iter();
    expected.any(|&culprit| owner(culprit) == finding.culprit)
}

fn expected(expectation: &Expectation) -> String {
    let culprits: Vec<_> = expectation.culprit.iter().map(|&c| name(c)).collect();
    format!(
        "{} ({})",
        listed(&expectation.cause, " or "),
        culprits.join(" or ")
    )
}

fn listed(causes: &[Id], between: &str) -> String {
    let ids: Vec<_> = causes.iter().map(|cause| cause.as_str()).collect();
    ids.join(between)
}

pub(super) fn owner(culprit: Culprit) -> Owner {
    match culprit {
        Culprit::Client => Owner::Client,
        Culprit::Server => Owner::Server,
        Culprit::Path => Owner::Path,
        Culprit::Resolver => Owner::Resolver,
        Culprit::Proxy => Owner::Proxy,
        Culprit::Unknown => Owner::Unknown,
    }
}

fn name(culprit: Culprit) -> &'static str {
    match culprit {
        Culprit::Client => "client",
        Culprit::Server => "server",
        Culprit::Path => "path",
        Culprit::Resolver => "resolver",
        Culprit::Proxy => "proxy",
        Culprit::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(findings: &[(Id, Owner)]) -> Report {
        let finding = |&(cause, culprit): &(Id, Owner)| Finding {
            cause,
            culprit,
            ..serde_json::from_value(blank()).expect("a blank finding reads")
        };
        Report {
            findings: findings.iter().map(finding).collect(),
            ..Report::default()
        }
    }

    fn blank() -> serde_json::Value {
        serde_json::json!({
            "cause": Id::ServerThink, "title": "", "verdict": "possible", "culprit": "unknown",
            "service": "", "cost_ns": 0, "cost_low_ns": 0, "cost_high_ns": 0, "wall_ns": 0,
            "share": 0.0, "affected": {"exchanges": 0, "of": 0}, "summary": "",
            "evidence": [], "ruled_out": [], "overturned_by": "", "fix": [],
            "predicted": null, "exemplars": [],
        })
    }

    fn expectation(cause: Id, culprit: Culprit) -> Expectation {
        Expectation {
            cause: vec![cause],
            culprit: vec![culprit],
            hidden: lagtrace_lab::Hidden::default(),
        }
    }

    fn truth() -> Truth {
        Truth {
            expected: vec![
                expectation(Id::PacketLoss, Culprit::Path),
                expectation(Id::NagleDelayedAck, Culprit::Server),
            ],
            allowed: vec![Id::PathQueueing],
            must_not: vec![Id::ServerThink],
            ..Truth::default()
        }
    }

    #[test]
    fn the_right_findings_in_order_pass() {
        let right = report(&[
            (Id::PacketLoss, Owner::Path),
            (Id::PathQueueing, Owner::Path),
            (Id::NagleDelayedAck, Owner::Server),
        ]);
        assert_eq!(misses(&truth(), &right), Vec::<String>::new());
    }

    #[test]
    fn order_culprit_and_false_claims_count() {
        let early = report(&[
            (Id::NagleDelayedAck, Owner::Server),
            (Id::PacketLoss, Owner::Path),
        ]);
        assert_eq!(
            misses(&truth(), &early),
            ["found too early: nagle-delayed-ack (server)"]
        );
        let wrong = report(&[
            (Id::PacketLoss, Owner::Path),
            (Id::NagleDelayedAck, Owner::Client),
        ]);
        assert_eq!(
            misses(&truth(), &wrong),
            ["not found: nagle-delayed-ack (server)"]
        );
        let false_claims = report(&[
            (Id::PacketLoss, Owner::Path),
            (Id::NagleDelayedAck, Owner::Server),
            (Id::ServerThink, Owner::Server),
            (Id::SynLoss, Owner::Path),
        ]);
        assert_eq!(
            misses(&truth(), &false_claims),
            [
                "found, but must not be: server-think",
                "found, but not expected: syn-loss"
            ]
        );
    }
}
