//! Property tests of comparisons, on reports with randomly drawn latencies.

use core::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::claim::Claim;
use crate::conclude::word;
use crate::exchange::wait::Owner;
use crate::observed::flow::Endpoint;
use crate::registry::Id;
use crate::report::{
    Cluster, CountOf, Details, Evidence, EvidenceKind, Exchanges, Figures, Finding, Fix, PhaseSpan,
    PredictedLatency, Prediction, Setting, SocketGroup, Verdict,
};
use crate::stats::histogram::Distribution;

/// The parameters of a generated run: the typical latency of its requests, and its variation.
#[derive(Clone, Copy, Debug)]
struct Run {
    seed: u64,
    seconds: u32,
    groups: u16,
    requests: u32,
    mean_us: f64,
    second_us: f64,
    group_us: f64,
    request_us: f64,
}

const CASE: Run = Run {
    seed: 1,
    seconds: 10,
    groups: 8,
    requests: 25,
    mean_us: 44_000.0,
    second_us: 400.0,
    group_us: 200.0,
    request_us: 2_000.0,
};

/// Returns an approximately normal random number: the sum of twelve uniform ones, minus 6.
fn normal(generator: &mut SplitMix64) -> f64 {
    (0..12)
        .map(|_| generator.next() as f64 / u64::MAX as f64)
        .sum::<f64>()
        - 6.0
}

fn clusters(run: Run) -> Vec<Cluster> {
    let mut generator = SplitMix64::new(run.seed);
    let draws = |count: usize, width: f64, generator: &mut SplitMix64| -> Vec<f64> {
        (0..count).map(|_| width * normal(generator)).collect()
    };
    let by_second = draws(run.seconds as usize, run.second_us, &mut generator);
    let by_group = draws(usize::from(run.groups), run.group_us, &mut generator);
    let mut clusters = Vec::new();
    for (second, in_second) in by_second.iter().enumerate() {
        for (group, in_group) in by_group.iter().enumerate() {
            let mut latency = Distribution::default();
            for _ in 0..run.requests {
                let us =
                    run.mean_us + in_second + in_group + run.request_us * normal(&mut generator);
                latency.record(Duration::from_nanos((us.max(1.0) * 1e3) as u64));
            }
            clusters.push(Cluster {
                second: second as u32,
                group: group as u16,
                latency,
                failures: 0,
            });
        }
    }
    clusters
}

fn report_of(clusters: Vec<Cluster>) -> Report {
    let latency = Distribution::from_buckets(clusters.iter().flat_map(|c| c.latency.buckets()));
    let seconds = clusters.iter().map(|c| c.second + 1).max().unwrap_or(1);
    Report {
        schema: crate::report::SCHEMA,
        subject: "http://10.77.0.2:8080/".to_owned(),
        exchanges: Exchanges {
            count: latency.count(),
            rate: latency.count() as f64 / f64::from(seconds),
            latency_ns: Figures::from(&latency),
            measured_by: "own stamps".to_owned(),
            ..Exchanges::default()
        },
        details: Some(Details {
            clusters,
            latency,
            ..Details::default()
        }),
        ..Report::default()
    }
}

fn report(run: Run) -> Report {
    report_of(clusters(run))
}

fn scaled(run: Run, factor: f64) -> Report {
    let scale = |cluster: Cluster| Cluster {
        latency: Distribution::from_buckets(
            cluster
                .latency
                .buckets()
                .iter()
                .map(|&(ns, n)| ((ns as f64 * factor) as u64, n)),
        ),
        ..cluster
    };
    report_of(clusters(run).into_iter().map(scale).collect())
}

fn change(comparison: &Comparison, figure: LatencyFigure) -> &LatencyChange {
    comparison
        .latency
        .iter()
        .find(|c| c.figure == figure)
        .expect("all figures are compared")
}

fn has_remark(comparison: &Comparison, id: &str) -> bool {
    comparison.remarks.iter().any(|remark| remark.id == id)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_report_does_not_differ_from_itself(seed: u64, requests in 1_u32..20, mean_us in 50.0..90_000.0) {
        let same = report(Run { seed, requests, mean_us, ..CASE });
        let comparison = compare(&same, &same);
        prop_assert_eq!(comparison.outcome, Outcome::NoWorse);
        prop_assert!(comparison.is_equal_rate && comparison.remarks.is_empty());
        for change in &comparison.latency {
            let (low, high) = (change.low_ns.expect("clusters"), change.high_ns.expect("clusters"));
            prop_assert!(change.difference_ns == 0 && low <= 0 && high >= 0, "{:?}", change);
            prop_assert_eq!(change.judgement, Judgement::NoDifference);
        }
    }

    #[test]
    fn a_tenth_more_is_found_and_so_is_a_tenth_less(seed: u64) {
        let run = Run { seed, ..CASE };
        let slower = compare(&report(run), &scaled(run, 1.1));
        prop_assert_eq!(slower.outcome, Outcome::Worse);
        let faster = compare(&scaled(run, 1.1), &report(run));
        prop_assert_eq!(faster.outcome, Outcome::Better);
        prop_assert!(faster.is_no_worse() && !slower.is_no_worse());
        prop_assert!(slower.latency.iter().all(|c| c.judgement == Judgement::Worse));
    }

    #[test]
    fn clusters_of_any_shape_do_no_harm(
        clusters in prop::collection::vec(
            (any::<u32>(), any::<u16>(), prop::collection::vec((any::<u64>(), any::<u64>()), 0..4), any::<u64>()),
            0..40,
        ),
        count: u64, rate: f64,
    ) {
        let cluster = |(second, group, buckets, failures)| Cluster {
            second, group, failures, latency: Distribution::from_buckets(buckets),
        };
        let mut hostile = report_of(Vec::new());
        hostile.exchanges.count = count;
        hostile.exchanges.rate = rate;
        hostile.exchanges.errors = u64::MAX;
        hostile.details = Some(Details {
            clusters: clusters.into_iter().map(cluster).collect(),
            ..Details::default()
        });
        compare(&hostile, &report(CASE));
        compare(&report(CASE), &hostile);
    }
}

/// Returns the share of comparisons whose nominal 95 % interval includes the true difference.
fn coverage(runs: impl Fn(u64) -> Run, truth_ns: f64, figure: impl Fn(&Estimate) -> f64) -> f64 {
    const TRIALS: u64 = 100;
    let held = (0..TRIALS)
        .filter(|&trial| {
            let (before, after) = (report(runs(2 * trial)), report(runs(2 * trial + 1)));
            let resampled = Resampled::new(&before, &after, 150).expect("clusters enough");
            let (low, high) = resampled.interval(&figure);
            low <= truth_ns && truth_ns <= high
        })
        .count();
    held as f64 / TRIALS as f64
}

#[test]
fn intervals_cover_though_seconds_and_groups_share_their_luck() {
    let small = Run {
        requests: 8,
        ..CASE
    };
    let even = coverage(
        |seed| Run {
            seed: seed + 10_000,
            ..small
        },
        0.0,
        |e| e.mean,
    );
    let by_second = coverage(
        |seed| Run {
            seed: seed + 20_000,
            second_us: 3_000.0,
            ..small
        },
        0.0,
        |e| e.mean,
    );
    let shifted = |seed: u64| Run {
        seed: seed + 30_000,
        mean_us: if seed.is_multiple_of(2) {
            44_000.0
        } else {
            41_000.0
        },
        group_us: 1_500.0,
        ..small
    };
    let median = coverage(shifted, -3e6, |e| e.quantiles[0]);
    let all = [even, by_second, median];
    assert!(all.iter().all(|&share| share >= 0.88), "{all:?}");
}

#[test]
fn equal_input_gives_equal_bytes() {
    let (before, after) = (report(CASE), report(Run { seed: 2, ..CASE }));
    let text = |c: &Comparison| serde_json::to_string(c).expect("plain data");
    let first = compare(&before, &after);
    assert_eq!(text(&first), text(&compare(&before, &after)));
    let read: Comparison = serde_json::from_str(&text(&first)).expect("what was written");
    assert_eq!(read, first);
}

#[test]
fn without_clusters_figures_are_compared_without_intervals() {
    let strip = |mut report: Report| {
        report.details = None;
        report
    };
    let comparison = compare(&strip(report(CASE)), &strip(scaled(CASE, 1.2)));
    assert_eq!(comparison.outcome, Outcome::Worse);
    assert!(comparison.intervals.is_none() && has_remark(&comparison, "no-intervals"));
    assert_eq!(change(&comparison, LatencyFigure::P50).low_ns, None);
    let same = compare(&strip(report(CASE)), &strip(report(CASE)));
    assert_eq!(same.outcome, Outcome::NoWorse);
    let mut later = strip(report(CASE));
    let figures = &mut later.exchanges.latency_ns;
    figures.mean *= 2;
    figures.p99 *= 3;
    let slow_tail = compare(&strip(report(CASE)), &later);
    assert_eq!(
        slow_tail.outcome,
        Outcome::NoWorse,
        "one slow request can cause it"
    );
    for figure in [LatencyFigure::Mean, LatencyFigure::P99] {
        assert_eq!(change(&slow_tail, figure).judgement, Judgement::NotJudged);
    }
}

#[test]
fn more_failures_are_worse() {
    let before = report(CASE);
    let mut after = report(CASE);
    after.exchanges.timeouts = 83;
    for cluster in after.details.iter_mut().flat_map(|d| &mut d.clusters) {
        cluster.failures = 1;
    }
    let comparison = compare(&before, &after);
    assert_eq!(comparison.failures.judgement, Judgement::Worse);
    assert!(!comparison.is_no_worse());
}

#[test]
fn a_service_that_no_longer_answers_is_worse() {
    let silent = report_of(Vec::new());
    assert_eq!(compare(&report(CASE), &silent).outcome, Outcome::Worse);
    assert_eq!(compare(&silent, &report(CASE)).outcome, Outcome::Better);
    assert_eq!(compare(&silent, &silent).outcome, Outcome::Undecided);
}

#[test]
fn a_longer_tail_at_five_times_the_rate_is_no_worsening() {
    let before = report(Run {
        request_us: 500.0,
        ..CASE
    });
    let mut fast = clusters(Run {
        seed: 3,
        mean_us: 1_000.0,
        second_us: 10.0,
        group_us: 10.0,
        requests: 125,
        request_us: 100.0,
        ..CASE
    });
    for cluster in &mut fast {
        cluster.latency.record_many(Duration::from_millis(60), 3);
    }
    let comparison = compare(&before, &report_of(fast));
    assert_eq!(
        change(&comparison, LatencyFigure::P99).judgement,
        Judgement::Worse
    );
    assert_eq!(comparison.outcome, Outcome::Better);
    assert!(has_remark(&comparison, "unequal-rates"));
}

#[test]
fn offered_rates_that_differ_are_not_judged() {
    let at = |rate: f64| {
        let mut report = report(CASE);
        report.phases = vec![PhaseSpan {
            phase: "baseline".to_owned(),
            target: "subject".to_owned(),
            start_ns: 0,
            end_ns: 1,
            experiment: None,
            offered_rate: Some(rate),
            is_observed: false,
        }];
        report.exchanges.rate = rate;
        report
    };
    let comparison = compare(&at(1000.0), &at(500.0));
    assert_eq!(comparison.rate.judgement, Judgement::NotJudged);
    assert!(!comparison.is_equal_rate && has_remark(&comparison, "unequal-rates"));
    assert_eq!(
        compare(&at(1000.0), &at(1000.0)).rate.judgement,
        Judgement::NoDifference
    );
}

fn nagle() -> Finding {
    Finding {
        verdict: Verdict::Proven,
        cost_ns: 1,
        cost_low_ns: 1,
        cost_high_ns: 1,
        wall_ns: 1,
        share: 0.98,
        evidence: vec![Evidence {
            kind: EvidenceKind::Configuration,
            shows_mechanism: true,
            text: String::new(),
            count: None,
            median_ns: None,
            packets: Vec::new(),
            display_filter: None,
            location: Some("nginx.conf:12".to_owned()),
        }],
        fix: vec![Fix {
            r#where: "nginx.conf:12".to_owned(),
            change: "tcp_nodelay on;".to_owned(),
        }],
        predicted: Some(Prediction {
            at_rate: 200.0,
            latency_ns: PredictedLatency {
                p50: 950_000,
                p99: 1_700_000,
            },
            measured_ns: None,
            closed_loop_rate: Some((40_000.0, 90_000.0)),
            curve: Vec::new(),
            outside_ns: 0,
        }),
        ..word::finding(Claim::blank(
            Id::NagleDelayedAck,
            Owner::Server,
            Endpoint::new([10, 77, 0, 2].into(), 8080),
        ))
    }
}

fn with_nodelay(mut report: Report, set: u64, value: &str) -> Report {
    report.sockets = vec![SocketGroup {
        target: "subject".to_owned(),
        owner: "nginx[12]".to_owned(),
        sockets: 100,
        samples: 100,
        nodelay: Some(CountOf {
            count: set,
            of: 100,
        }),
        cork: None,
        quickack: None,
        holding: None,
    }];
    report.configuration = vec![Setting {
        target: "subject".to_owned(),
        program: "nginx".to_owned(),
        directive: "tcp_nodelay".to_owned(),
        value: value.to_owned(),
        set_at: Some("nginx.conf:12".to_owned()),
        scope: "http".to_owned(),
        is_newer_than_process: None,
        doubt: None,
    }];
    report
}

fn faulty() -> Report {
    let mut report = with_nodelay(report(CASE), 0, "off");
    report.findings = vec![nagle()];
    report
}

fn fixed(set: u64, value: &str) -> Report {
    let fast = Run {
        seed: 9,
        mean_us: 1_000.0,
        second_us: 10.0,
        group_us: 10.0,
        request_us: 100.0,
        ..CASE
    };
    with_nodelay(report(fast), set, value)
}

fn traced(before: &Report, after: &Report) -> (Fate, Option<Mechanism>, String) {
    let comparison = compare(before, after);
    let finding = comparison.findings.first().expect("one finding");
    (finding.fate, finding.mechanism, finding.explanation.clone())
}

#[test]
fn the_mechanism_decides_what_a_vanished_finding_means() {
    let (fate, mechanism, text) = traced(&faulty(), &fixed(98, "on"));
    assert_eq!(
        (fate, mechanism),
        (Fate::Vanished, Some(Mechanism::Changed))
    );
    assert_eq!(
        text,
        "It is gone because the change reached the live sockets: TCP_NODELAY set on the server's \
         sockets before 0 of 100, after 98 of 100; tcp_nodelay of nginx before off \
         (nginx.conf:12), after on (nginx.conf:12)."
    );
    let blind = |mut report: Report| {
        report.sockets.clear();
        report
    };
    let mechanism = |before: &Report, after: &Report| traced(before, after).1;
    assert_eq!(
        mechanism(&blind(faulty()), &fixed(98, "on")),
        Some(Mechanism::Configured)
    );
    assert_eq!(
        mechanism(&faulty(), &fixed(0, "on")),
        Some(Mechanism::Unchanged)
    );
    let mut unread = blind(fixed(0, "on"));
    unread.configuration.clear();
    let (_, seen, text) = traced(&faulty(), &unread);
    assert_eq!(seen, Some(Mechanism::NotSeen));
    assert!(
        text.contains("no change of the mechanism was seen"),
        "{text}"
    );
}

#[test]
fn a_fix_that_never_arrived_is_told_from_one_that_did_not_help() {
    let (fate, mechanism, text) = traced(&faulty(), &faulty());
    assert_eq!(
        (fate, mechanism),
        (Fate::Stayed, Some(Mechanism::Unchanged))
    );
    assert!(text.contains("has not reached it"), "{text}");
    let mut still = with_nodelay(faulty(), 100, "on");
    still.findings = vec![nagle()];
    assert_eq!(traced(&faulty(), &still).1, Some(Mechanism::Changed));
    let comparison = compare(&fixed(100, "on"), &faulty());
    assert_eq!(
        comparison.findings.first().map(|f| f.fate),
        Some(Fate::Appeared)
    );
}

#[test]
fn a_prediction_is_checked_at_its_own_rate_only() {
    let after = fixed(100, "on");
    let check = compare(&faulty(), &after)
        .prediction
        .expect("one finding vanished");
    assert_eq!(check.holds, Some(true), "{check:?}");
    let mut faster = after.clone();
    faster.exchanges.rate = 60_000.0;
    let check = compare(&faulty(), &faster)
        .prediction
        .expect("one finding vanished");
    assert_eq!((check.holds, check.closed_loop_holds), (None, Some(true)));
    let mut slower = after;
    slower.exchanges.latency_ns.p50 = 9_000_000;
    let check = compare(&faulty(), &slower)
        .prediction
        .expect("one finding vanished");
    assert_eq!((check.holds, check.p50.agrees), (Some(false), false));
}
