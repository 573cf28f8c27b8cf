//! The tables of the report, made from the facts.

use super::Observations;
use core::time::Duration;

use super::{captured_part, steadiness};
use crate::cause::evidence::human;
use crate::cause::secured::version_name;
use crate::decode::LinkType;
use crate::facts::{ExperimentResult, Facts};
use crate::observed::event::{
    CaptureSummary, CounterScope, GeneratorSample, LoadStages, LoadUrl, Phase, PhaseStart, TargetId,
};
use crate::observed::experiment::Experiment;
use crate::observed::time::Timestamp;
use crate::report::{
    Cluster, CountOf, Counter, ExperimentOutcome, Figures, Finding, Generator, LoadRun, PhaseSpan,
    Remark, Setting, SocketGroup, Stage, Stages, StatusCount, TlsUse, Transport, UrlRun, counted,
};
use crate::stats::histogram::Distribution;

/// Minimum share of the due responses that a service must return to keep up. The requests in flight
/// at the end are less than the missing share.
const KEEPS_UP: f64 = 0.97;
/// Capturing is mentioned if it changes the mean latency by at least this time ...
const DISTURBED: Duration = Duration::from_micros(100);
/// ... and by at least this share.
const DISTURBED_SHARE: f64 = 0.1;

pub(super) fn phases(facts: &Facts) -> Vec<PhaseSpan> {
    facts
        .loads
        .phases
        .iter()
        .map(|(at, phase, start)| PhaseSpan {
            phase: phase_name(*phase),
            target: target_name(start.target).to_owned(),
            start_ns: at.as_nanos(),
            end_ns: start.end.as_nanos(),
            experiment: start.experiment,
            offered_rate: start.offered_rate,
            is_observed: start.is_observed,
        })
        .collect()
}

/// Returns the load run of the subject's baseline.
pub(super) fn load(evidence: &Observations, findings: &[Finding]) -> Option<LoadRun> {
    let facts = &evidence.facts;
    let sum = facts.loads.baseline(TargetId::Subject)?;
    let seconds = facts.loads.baseline_seconds(TargetId::Subject);
    let is_baseline = |(_, phase, start): &&(_, Phase, PhaseStart)| {
        *phase == Phase::Baseline && start.target == TargetId::Subject
    };
    let (at, _, start) = facts.loads.phases.iter().find(is_baseline)?;
    let transport = transport(facts);
    let at_once = transport.as_ref().map_or(1, |transport| transport.at_once);
    let even_pace = even_pace(start, at_once, &sum.latency, seconds);
    Some(LoadRun {
        connections: start.connections,
        transport,
        offered_rate: start.offered_rate,
        seconds,
        responses: sum.whole(),
        rate: sum.whole() as f64 / seconds.max(f64::MIN_POSITIVE),
        rate_margin: facts.loads.rate_margin(TargetId::Subject),
        falls_behind: falls_behind(facts, start, sum.whole() as f64 / seconds),
        outcomes: sum.outcomes(),
        failed: sum.failed(),
        connects: sum.connects,
        received_bytes: sum.received_bytes,
        latency_ns: Figures::from(&sum.latency),
        service_ns: Figures::from(&sum.service),
        first_byte_ns: Figures::from(&sum.first_byte),
        waits_for_connections: start.offered_rate.is_some()
            && differs(&Figures::from(&sum.latency), &Figures::from(&sum.service)),
        hides_stalls: even_pace.is_some_and(|met| hides_stalls(&Figures::from(&sum.latency), &met)),
        even_pace_ns: even_pace,
        intervals: steadiness::intervals(&subject_clusters(facts)),
        stages: facts.loads.stages.as_ref().map(stages),
        urls: urls(facts),
        captured_part: captured_part::captured_part(evidence, findings),
        warm_up_seconds: warm_up(facts, at),
        generator: facts.loads.generator.map(|sample| Generator {
            busiest_share: sample.busiest_share,
            cpu_ns: nanos(sample.cpu),
            start_lag_p99_ns: nanos(sample.start_lag_p99),
            read_lag_p99_ns: nanos(sample.turn_p99),
            is_limit: sample.is_limit(),
        }),
    })
}

/// Returns the latencies of a closed-loop run as if the requests had been sent at an even pace. The
/// pace is one request per mean interval for each connection, and for each of its streams or
/// pipeline slots.
fn even_pace(
    start: &PhaseStart,
    at_once: u32,
    seen: &Distribution,
    seconds: f64,
) -> Option<Figures> {
    let is_meant = start.offered_rate.is_none() && !seen.is_empty() && seconds > 0.0;
    is_meant.then(|| {
        let askers = f64::from(start.connections) * f64::from(at_once.max(1));
        let interval = seconds * askers / seen.count() as f64;
        let interval = Duration::from_secs_f64(interval.min(seconds));
        Figures::from(&seen.at_even_pace(interval))
    })
}

/// Returns true if two distributions differ in p50, p99 or maximum by more than 5 % and by more
/// than 50 µs. A bucket of the distributions is narrower.
fn differs(one: &Figures, other: &Figures) -> bool {
    let apart = |a: u64, b: u64| a.abs_diff(b) > a.max(b) / 20 && a.abs_diff(b) > 50_000;
    apart(one.p50, other.p50) || apart(one.p99, other.p99) || apart(one.max, other.max)
}

/// Returns true if the latencies at an even pace are much longer than the measured ones: more than
/// 1.5 times as long and more than 1 ms longer, in p50 or p99 of at least 100 requests.
fn hides_stalls(seen: &Figures, met: &Figures) -> bool {
    let apart = |seen: u64, met: u64| met > seen.saturating_mul(3) / 2 && met - seen > 1_000_000;
    met.count >= 100 && (apart(seen.p50, met.p50) || apart(seen.p99, met.p99))
}

/// Returns the time that requests spent in each stage, and the stage with the most time.
fn stages(told: &LoadStages) -> Stages {
    let sum = |(_, times): &&(String, Distribution)| times.sum_ns();
    let largest = told.stages.iter().max_by_key(sum);
    Stages {
        requests: told.requests,
        without: told.without,
        acknowledged_apart: told.acknowledged_apart,
        stages: told
            .stages
            .iter()
            .map(|(name, times)| Stage {
                name: name.clone(),
                time_ns: Figures::from(times),
            })
            .collect(),
        largest: largest
            .filter(|_| told.requests > 0)
            .map(|(name, _)| name.clone()),
    }
}

/// Returns the results of each of the subject's URLs.
fn urls(facts: &Facts) -> Vec<UrlRun> {
    let of_subject = |url: &&LoadUrl| url.target == TargetId::Subject;
    let urls = facts.loads.urls.iter().filter(of_subject);
    urls.map(|url| UrlRun {
        url: url.url.clone(),
        weight: url.weight,
        responses: url.statuses.iter().map(|(_, count)| count).sum(),
        failed: url.failures.iter().map(|(_, count)| count).sum(),
        outcomes: outcomes(url),
        latency_ns: Figures::from(&url.latency),
    })
    .collect()
}

fn outcomes(url: &LoadUrl) -> Vec<StatusCount> {
    let statuses = url
        .statuses
        .iter()
        .map(|(status, count)| (status.to_string(), *count));
    let failures = url
        .failures
        .iter()
        .map(|(f, count)| (f.name().to_owned(), *count));
    let counted = |(status, count)| StatusCount { status, count };
    statuses.chain(failures).map(counted).collect()
}

fn subject_clusters(facts: &Facts) -> Vec<Cluster> {
    let clusters = facts.loads.clusters.iter();
    let of_subject = clusters.filter(|(target, _)| *target == TargetId::Subject);
    of_subject.map(|(_, cluster)| cluster.clone()).collect()
}

/// Returns the length of the warm-up before the counting began at `at`, in seconds.
fn warm_up(facts: &Facts, at: &Timestamp) -> f64 {
    let before = facts.loads.phases.iter();
    let mut before = before.filter(|(_, phase, _)| *phase == Phase::WarmUp);
    let begun = before.find(|(begun, _, start)| begun < at && start.end <= *at);
    begun.map_or(0.0, |(begun, ..)| at.since(*begun).as_secs_f64())
}

/// Returns the protocol, TLS and socket settings of the subject's baseline.
fn transport(facts: &Facts) -> Option<Transport> {
    let transport = facts.loads.transports.get(&TargetId::Subject)?;
    Some(Transport {
        protocol: transport.protocol.clone(),
        at_once: transport.at_once,
        tls: transport.tls.as_ref().map(|tls| TlsUse {
            version: version_name(Some(tls.version)).to_owned(),
            cipher: tls.cipher.clone(),
            full_ns: Figures::from(&tls.full),
            resumed_ns: Figures::from(&tls.resumed),
        }),
        unix_socket: transport.unix_socket.clone(),
        options: transport.options.clone(),
        sources: transport.sources.iter().map(ToString::to_string).collect(),
    })
}

/// Returns true if the service returned fewer responses per second (`rate`) than were due, although
/// the generator was on time.
fn falls_behind(facts: &Facts, start: &PhaseStart, rate: f64) -> bool {
    let generator = facts.loads.generator;
    generator.is_none_or(|generator| generator.is_on_time())
        && start
            .offered_rate
            .is_some_and(|offered| rate < offered * KEEPS_UP)
}

/// Returns the remark that the generator may have limited the figures. There is a single remark for
/// all runs.
pub(super) fn generator_note(facts: &Facts) -> Option<Remark> {
    let sample = facts.loads.generator.filter(GeneratorSample::is_limit)?;
    let late = [
        ("started requests", sample.start_lag_p99),
        ("read responses", sample.turn_p99),
    ];
    let late = late.into_iter().filter(|(_, late)| !late.is_zero());
    let late: Vec<String> = late
        .map(|(what, late)| format!("{what} up to {} late", human(late)))
        .collect();
    let late = match late.as_slice() {
        [] => String::new(),
        late => format!("it {} (99th percentiles)", late.join(" and ")),
    };
    let text = if sample.is_busy() {
        format!(
            "The load generator itself may be the limit: its busiest thread used {:.0} % of a \
             processor{}{late}.",
            sample.busiest_share * 100.0,
            if late.is_empty() { "" } else { "; " },
        )
    } else {
        format!("This machine gave the load generator a processor too late: {late}.")
    };
    Some(Remark {
        id: "load-generator-limited".to_owned(),
        text,
    })
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn phase_name(phase: Phase) -> String {
    match phase {
        Phase::WarmUp => "warm-up".to_owned(),
        Phase::Baseline => "baseline".to_owned(),
        Phase::Level(number) => format!("level {number}"),
        Phase::Control(number) => format!("control {number}"),
        Phase::Experiment(number) => format!("experiment {number}"),
    }
}

fn target_name(target: TargetId) -> &'static str {
    match target {
        TargetId::Subject => "subject",
        TargetId::Twin => "twin",
    }
}

pub(super) fn sockets(facts: &Facts) -> Vec<SocketGroup> {
    let some = |tally: CountOf| (tally.of > 0).then_some(tally);
    facts
        .sockets
        .iter()
        .map(|((target, owner), group)| SocketGroup {
            target: target_name(*target).to_owned(),
            owner: owner.clone(),
            sockets: group.sockets(),
            samples: group.samples,
            nodelay: some(group.nodelay),
            cork: some(group.cork),
            quickack: some(group.quickack),
            holding: some(group.holding),
        })
        .collect()
}

pub(super) fn counters(facts: &Facts) -> Vec<Counter> {
    let mut list: Vec<Counter> = facts
        .kernel
        .counters
        .iter()
        .filter(|change| change.after > change.before)
        .map(|change| Counter {
            name: change.name.clone(),
            change: change.after - change.before,
            side: match change.scope {
                CounterScope::Client => "client",
                CounterScope::Target => "server",
                CounterScope::Both => "both",
            }
            .to_owned(),
        })
        .collect();
    list.sort_by(|a, b| (&a.side, &a.name).cmp(&(&b.side, &b.name)));
    list
}

pub(super) fn configuration(facts: &Facts) -> Vec<Setting> {
    facts
        .configuration
        .iter()
        .map(|line| Setting {
            target: target_name(line.target).to_owned(),
            program: line.program.clone(),
            directive: line.directive.clone(),
            value: line.value.clone(),
            set_at: line.set_at.as_ref().map(ToString::to_string),
            scope: line.scope.clone(),
            is_newer_than_process: line.is_newer_than_process,
            doubt: line.doubt.clone(),
        })
        .collect()
}

pub(super) fn experiments(facts: &Facts) -> Vec<ExperimentOutcome> {
    let mut list = Vec::new();
    for target in [TargetId::Subject, TargetId::Twin] {
        for result in facts.loads.outcomes(target) {
            list.push(ExperimentOutcome {
                experiment: result.experiment,
                target: target_name(target).to_owned(),
                control: Figures::from(&result.control.latency),
                treated: Figures::from(&result.treated.latency),
                difference_ns: result.difference,
                difference_low_ns: result.low,
                difference_high_ns: result.high,
                alternations: result.alternations,
                is_conclusive: !result.is_blind,
                meaning: meaning(&result).to_owned(),
            });
        }
    }
    list
}

fn meaning(result: &ExperimentResult<'_>) -> &'static str {
    if result.is_blind {
        return "Nothing follows: requests without it were already much quicker than in the load.";
    }
    let (helps, hurts) = (result.high < 0, result.low > 0);
    match (result.experiment, helps, hurts) {
        (Experiment::QuickAck, true, _) => {
            "Requests are faster when lagtrace acknowledges immediately: something waits for its \
             ACK."
        }
        (Experiment::QuickAck, ..) => {
            "Acknowledging immediately makes no difference: nothing waits for our ACK."
        }
        (Experiment::ConnectionClose, true, _) => {
            "Requests are faster when the server closes after them: the FIN lets a held last \
             segment pass."
        }
        (Experiment::FreshConnection, true, _) => {
            "The first request of a connection is faster than later ones: the connection's state \
             matters."
        }
        (Experiment::ConnectionClose | Experiment::FreshConnection, _, true) => {
            "A new connection for each request costs more than it saves."
        }
        (Experiment::ThinkTime { .. }, true, _) => {
            "Requests are faster after a pause: requests in quick succession are delayed by a \
             temporary state."
        }
        (Experiment::ThinkTime { .. }, _, true) => "Requests after a pause are slower.",
        (Experiment::ClientNagle, _, true) => "Nagle's algorithm on our side costs time.",
        _ => "It makes no difference.",
    }
}

/// Returns the notes on damaged or incomplete captures, and on the cost of capturing.
pub(super) fn capture_notes(evidence: &Observations) -> Vec<Remark> {
    let mut notes = Vec::new();
    for (_, summary) in &evidence.facts.captures {
        notes.extend(undecoded(summary));
        if let Some(damage) = &summary.damage {
            let text = format!("{} was read only partly: {damage}", summary.name);
            notes.push(Remark {
                id: "capture-damaged".to_owned(),
                text,
            });
        }
        if let Some(dropped) = summary.dropped.filter(|&dropped| dropped > 0) {
            let text = format!(
                "{}: the capture lost {}.",
                summary.name,
                counted(dropped, "packet", "packets"),
            );
            notes.push(Remark {
                id: "capture-dropped".to_owned(),
                text,
            });
        }
    }
    notes.extend(disturbance(&evidence.facts));
    notes
}

/// Returns the remark on the part of a capture that could not be decoded. This part was not judged.
fn undecoded(summary: &CaptureSummary) -> Option<Remark> {
    let CaptureSummary { name, packets, .. } = summary;
    let links: Vec<String> = summary
        .unread_links
        .iter()
        .map(|(&link, count)| format!("{count} of {}", LinkType(link)))
        .collect();
    let (id, text) = if !links.is_empty() {
        let text = format!(
            "{name}: some of its {} could not be decoded: {}. This report does not include them.",
            counted(*packets, "packet", "packets"),
            links.join(", "),
        );
        ("link-type-not-decoded", text)
    } else if *packets > 0 && summary.undecoded == *packets {
        let text = format!(
            "{name}: none of its {} is TCP, UDP, an ICMP error or neighbour resolution. This \
             report does not include them.",
            counted(*packets, "packet", "packets"),
        );
        ("nothing-decoded", text)
    } else if *packets == 0 && summary.calls > 0 {
        let text = format!(
            "{name}: contains {} system calls (in the format of sysdig and Falco) and no packets. \
             This report does not include them.",
            summary.calls
        );
        ("nothing-decoded", text)
    } else {
        return None;
    };
    Some(Remark {
        id: id.to_owned(),
        text,
    })
}

/// Returns the remark that compares the service's latency during packet capture with its latency
/// before, if the means differ by a material share and time, and by more than they vary from second to
/// second. The median is no measure: if a service has quick and slow requests, a few more of either
/// make it jump from one to the other.
fn disturbance(facts: &Facts) -> Option<Remark> {
    let alone = facts.loads.baseline(TargetId::Subject)?;
    let observed = facts.loads.observed_baseline(TargetId::Subject)?;
    let (without, with) = (alone.latency.mean()?, observed.latency.mean()?);
    let (difference, margin) = alone.change_to(observed)?;
    let changed = Duration::from_nanos(difference.unsigned_abs());
    let is_material =
        changed >= DISTURBED && changed.as_secs_f64() >= without.as_secs_f64() * DISTURBED_SHARE;
    if !is_material || difference.abs() <= margin {
        return None;
    }
    let text = format!(
        "Effect of capturing: a request took {} (mean) without it and {} with it. The latency \
         figures come from the part without it, the explanation of the time from the part with it.",
        human(without),
        human(with)
    );
    (!core::ptr::eq(alone, observed)).then(|| Remark {
        id: "capture-disturbance".to_owned(),
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::event::LoadCluster;

    #[test]
    fn what_is_asked_at_once_is_at_an_even_pace_too() {
        let begun = Timestamp::from_nanos(0);
        let start = PhaseStart {
            target: TargetId::Subject,
            end: begun + Duration::from_secs(10),
            experiment: None,
            connections: 2,
            offered_rate: None,
            turns: 1,
            active: Duration::from_secs(10),
            is_observed: false,
        };
        // There are two connections with ten streams each, and each response takes 10 ms.
        let mut seen = Distribution::default();
        seen.record_many(Duration::from_millis(10), 20_000);
        let met = even_pace(&start, 10, &seen, 10.0).expect("figures");
        assert_eq!(met.count, 20_000);
        let one = even_pace(&start, 1, &seen, 10.0).expect("figures");
        assert!(
            one.count > met.count,
            "with one at a time others would have waited"
        );
    }

    /// Returns true if an effect of capturing is told, for the latencies in milliseconds of the requests
    /// of each second without capture, and with it.
    fn is_told_to_disturb(parts: [&[[u64; 4]]; 2]) -> bool {
        let mut facts = Facts::default();
        for (seconds, is_observed) in parts.into_iter().zip([false, true]) {
            let begun = Timestamp::from_parts(if is_observed { 100 } else { 0 }, 0);
            let start = PhaseStart {
                target: TargetId::Subject,
                end: begun + Duration::from_secs(seconds.len() as u64),
                experiment: None,
                connections: 2,
                offered_rate: None,
                turns: 1,
                active: Duration::from_secs(seconds.len() as u64),
                is_observed,
            };
            facts.loads.begin(begun, Phase::Baseline, start);
            for (second, millis) in seconds.iter().enumerate() {
                let mut latency = Distribution::default();
                for ms in millis {
                    latency.record_many(Duration::from_millis(*ms), 10);
                }
                let cluster = LoadCluster {
                    second: second as u32,
                    latency,
                    ..LoadCluster::default()
                };
                facts.loads.cluster(Phase::Baseline, cluster);
            }
        }
        disturbance(&facts).is_some()
    }

    #[test]
    fn a_median_that_jumps_between_two_values_is_no_effect_of_capturing() {
        let [mostly_slow, mostly_quick] = [[30, 118, 118, 118], [30, 30, 30, 118]];
        let mixed = [mostly_slow, mostly_quick, mostly_slow];
        assert!(!is_told_to_disturb([
            &[mostly_slow, mostly_slow, mostly_quick, mostly_slow],
            &[mostly_quick, mostly_slow, mostly_quick],
        ]));
        assert!(!is_told_to_disturb([&mixed, &mixed]));
        // A near miss: it is slower in each second.
        let slower = mixed.map(|second| second.map(|ms| ms + 200));
        assert!(is_told_to_disturb([&mixed, &slower]));
    }

    #[test]
    fn figures_differ_by_more_than_their_error() {
        let figures = |p99| Figures {
            count: 100,
            p50: 1_000_000,
            p99,
            max: 9_000_000,
            ..Figures::default()
        };
        let seen = figures(2_000_000);
        assert!(!differs(&seen, &figures(2_040_000)), "within 50 µs");
        assert!(!differs(&seen, &figures(2_100_000)), "within 5 %");
        assert!(differs(&seen, &figures(2_200_000)));
        assert!(
            !hides_stalls(&seen, &figures(3_000_000)),
            "by no more than half"
        );
        assert!(hides_stalls(&seen, &figures(3_100_000)));
    }
}
