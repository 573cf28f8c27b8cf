use lagtrace_core::exchange::wait::{Owner, WaitKind};
use lagtrace_core::registry::Id;
use lagtrace_core::report::{Candidate, Exchanges, Finding, Report, WaitShare};
use lagtrace_lab::Label;
use serde_json::{Value, json};

use super::case::{Candidacy, Case, End, Kind, Verdict};
use super::fresh::Refused;
use super::sum::{Score, Together};
use crate::render;

fn label(expected: &Value, without: &Value) -> Label {
    let label = json!({
        "schema": 1, "scenario": "it", "service": "it", "title": "", "variant": "0ms",
        "round_trip_ns": 0, "offload": null, "seed": 1, "ipv6": false, "port": 80,
        "truth": {"expected": expected, "allowed": ["path-distance"], "must_not": []},
        "requests": {
            "with": {"count": 10, "errors": 0, "mean_ns": 50, "p50_ns": 50, "p99_ns": 50},
            "without": without,
        },
        "proof": [],
    });
    serde_json::from_value(label).expect("a label")
}

/// Returns a report with these findings, in which a quarter of the time is unexplained.
fn report(findings: &[(&str, Owner, u64)]) -> Report {
    let finding = |&(cause, culprit, cost_ns): &(&str, Owner, u64)| -> Finding {
        let finding = json!({
            "cause": cause, "title": "", "verdict": "strong", "culprit": culprit,
            "service": "", "cost_ns": cost_ns, "cost_low_ns": 0, "cost_high_ns": 0,
            "wall_ns": 0, "share": 0.0, "affected": {"exchanges": 0, "of": 0}, "summary": "",
            "evidence": [], "ruled_out": [], "overturned_by": "", "fix": [],
            "predicted": null, "exemplars": [],
        });
        serde_json::from_value(finding).expect("a finding")
    };
    let unknown = WaitShare {
        kind: WaitKind::Unknown,
        owner: Owner::Unknown,
        total_ns: 1,
        share: 0.25,
    };
    Report {
        findings: findings.iter().map(finding).collect(),
        exchanges: Exchanges {
            count: 10,
            waits: vec![unknown],
            ..Exchanges::default()
        },
        ..Report::default()
    }
}

fn case(name: &str, label: &Label, findings: &[(&str, Owner, u64)]) -> Case {
    Case::new(name, End::Client, label, &report(findings))
}

fn think() -> Value {
    json!([{"cause": ["server-pause", "server-think"], "culprit": ["server"]}])
}

/// Returns a fault that is not visible in the client's packets.
fn hidden() -> Value {
    json!([{"cause": ["downstream-wait"], "culprit": ["server"],
        "hidden": {"client": "whom the server asks is not in the client's packets"}}])
}

#[test]
fn each_verdict_is_given_for_what_it_says() {
    let (fault, healthy) = (
        label(&think(), &Value::Null),
        label(&json!([]), &Value::Null),
    );
    let (client, server) = (Owner::Client, Owner::Server);
    let think = ("server-think", server, 400);
    let far = ("path-distance", Owner::Path, 1);
    let loss = ("packet-loss", Owner::Path, 1);
    for (label, findings, verdict, is_wrong) in [
        (&fault, &[think][..], Verdict::Right, false),
        (&fault, &[think, far], Verdict::Right, false),
        (&fault, &[think, loss], Verdict::Right, true),
        (
            &fault,
            &[("server-think", client, 400)],
            Verdict::WrongCulprit,
            true,
        ),
        (&fault, &[far, think], Verdict::OtherFirst, true),
        (&fault, &[], Verdict::Missed, true),
        (&healthy, &[], Verdict::LeftAlone, false),
        (&healthy, &[far], Verdict::LeftAlone, false),
        (&healthy, &[loss], Verdict::Accused, true),
    ] {
        let case = case("it", label, findings);
        assert_eq!(case.verdict, verdict, "{findings:?}");
        assert_eq!(case.is_wrong(), is_wrong, "{findings:?}: {:?}", case.misses);
    }
}

#[test]
fn what_an_end_cannot_show_is_neither_missed_nor_guessed() {
    let far = json!([{"cause": ["proxy-buffering"], "culprit": ["proxy"],
        "hidden": {"client": "the proxy's other leg is not in the client's packets"}}]);
    let far = label(&far, &Value::Null);
    let buffering = ("proxy-buffering", Owner::Proxy, 1);
    let shows = ("path-distance", Owner::Path, 1);
    for (end, findings, kind, verdict) in [
        (End::Client, &[][..], Kind::Hidden, Verdict::LeftAlone),
        (End::Client, &[shows], Kind::Hidden, Verdict::LeftAlone),
        (End::Client, &[buffering], Kind::Hidden, Verdict::Accused),
        (End::Server, &[buffering], Kind::Known, Verdict::Right),
        (End::Server, &[], Kind::Known, Verdict::Missed),
    ] {
        let case = Case::new("it", end, &far, &report(findings));
        assert_eq!((case.kind, case.verdict), (kind, verdict), "{findings:?}");
        assert_eq!(case.expected_first(), Some(Id::ProxyBuffering));
    }
}

#[test]
fn a_loopback_shows_what_either_end_would() {
    let near = json!([{"cause": ["server-think"], "culprit": ["server"],
        "hidden": {"client": "it is behind a proxy"}}]);
    let nowhere = json!([{"cause": ["server-think"], "culprit": ["server"],
        "hidden": {"client": "in no packet", "server": "in no packet"}}]);
    let think = ("server-think", Owner::Server, 1);
    for (truth, kind, verdict) in [
        (near, Kind::Known, Verdict::Right),
        (nowhere, Kind::Hidden, Verdict::Accused),
    ] {
        let label = label(&truth, &Value::Null);
        let case = Case::new("it", End::Loopback, &label, &report(&[think]));
        assert_eq!((case.kind, case.verdict), (kind, verdict));
    }
}

#[test]
fn what_was_drawn_is_told_where_it_is_wrong() {
    let mut fault = label(&think(), &Value::Null);
    fault.seed = 51;
    let drawn = json!({"loopback": true, "mtu": 4000});
    fault.drawn = Some(serde_json::from_value(drawn).expect("it reads"));
    let refused = |scenario: &str, seed| Refused {
        scenario: scenario.to_owned(),
        seed,
        drawn: format!("seed {seed}"),
        reason: format!("no proof of {scenario}"),
        is_for_want_of_a_tool: false,
    };
    let mut score = Score::of(vec![case("it-loopback", &fault, &[])]);
    score.seed = Some(51);
    score.redrawn = vec![refused("it", 51), refused("other", 52), refused("it", 53)];
    score.kept = Some("/tmp/wrong".into());
    let often = score.often_redrawn();
    assert_eq!(often, [(&score.redrawn[2], 2)]);
    let style = render::Style {
        width: 100,
        color: false,
        ascii: false,
        length: render::Length::Screen,
    };
    let letter = super::page::text(&score, &style);
    for said in [
        "Parameters drawn from seed 51.",
        "seed 51, loopback, MTU 4000",
        "3 times in all.",
        "it, 2 times: no proof of it (seed 53)",
        "/tmp/wrong",
    ] {
        assert!(letter.contains(said), "{said} in\n{letter}");
    }
    assert_eq!(score.ndjson().lines().count(), 1 + 1 + 1 + 1 + 3);
}

#[test]
fn a_candidate_is_no_finding_and_counts_by_itself() {
    let hidden = label(&hidden(), &Value::Null);
    let mut report = report(&[("path-distance", Owner::Path, 1)]);
    let candidates = |names: &[Id]| -> Vec<Candidate> {
        let named = names.iter().map(|&cause| Candidate {
            cause,
            because: String::new(),
            decided_by: String::new(),
        });
        named.collect()
    };
    let (meant, other) = (Id::DownstreamWait, Id::CpuQuota);
    for (names, wanted) in [
        (&[][..], None),
        (&[other], Some(Candidacy::Absent)),
        (&[other, meant], Some(Candidacy::Named)),
        (&[meant, other], Some(Candidacy::First)),
    ] {
        report.findings[0].candidates = candidates(names);
        let case = Case::new("it", End::Client, &hidden, &report);
        assert_eq!(case.candidate, wanted, "{names:?}");
        assert!(!case.is_first_right());
    }
}

#[test]
fn costs_are_held_against_the_clients_clocks() {
    let without = json!({"count": 10, "errors": 0, "mean_ns": 10, "p50_ns": 10, "p99_ns": 10});
    let label = label(&think(), &without);
    let findings = [
        ("server-think", Owner::Server, 300),
        ("packet-loss", Owner::Path, 900),
    ];
    let cost = case("it", &label, &findings).cost.expect("a cost");
    assert_eq!((cost.found_ns, cost.true_ns), (30, 40));
    assert!((cost.error + 0.25).abs() < 1e-9);
    assert!(case("it", &label, &findings[1..]).cost.is_none());
    let mut unmeasured = label;
    unmeasured.truth.no_cost = Some("the fault takes as long without it".to_owned());
    assert!(case("it", &unmeasured, &findings).cost.is_none());
}

#[test]
fn a_label_with_a_name_that_is_no_cause_is_refused_with_the_name() {
    let truth = json!({"expected": [{"cause": ["gremlins"], "culprit": ["path"]}]});
    let error = serde_json::from_value::<lagtrace_lab::Truth>(truth).expect_err("no such cause");
    assert!(error.to_string().contains("`gremlins`"), "{error}");
}

#[test]
fn all_together_are_counted() {
    let without = json!({"count": 10, "errors": 0, "mean_ns": 10, "p50_ns": 10, "p99_ns": 10});
    let (fault, healthy) = (label(&think(), &without), label(&json!([]), &Value::Null));
    let hidden = label(&hidden(), &Value::Null);
    let (think, loss) = (
        ("server-think", Owner::Server, 390),
        ("packet-loss", Owner::Path, 1),
    );
    let score = Score::of(vec![
        case("a-think", &fault, &[think]),
        case("b-think", &fault, &[loss, think]),
        case("c-think", &fault, &[]),
        case("d-healthy", &healthy, &[]),
        case("e-healthy", &healthy, &[loss]),
        case("f-hidden", &hidden, &[]),
        case("g-hidden", &hidden, &[loss]),
    ]);
    let totals = &score.totals[0];
    assert_eq!(
        (totals.known, totals.first_right, totals.culprit_right),
        (3, 1, 1)
    );
    assert_eq!((totals.healthy, totals.healthy_accused), (2, 1));
    assert_eq!((totals.hidden, totals.hidden_accused), (2, 1));
    let together = Together {
        known: 3,
        first_right: 1,
        owner_right: 1,
        silent: 1,
        healthy: 2,
        firmly_accused: 1,
    };
    assert_eq!(score.together, together);
    let error = totals.cost_error.as_ref().expect("costs");
    assert_eq!((error.of, error.close), (2, 2));
    assert_eq!(score.ndjson().lines().count(), 7 + 7 + 1 + 1);
}
