//! The report's tables, from facts.

use super::Evidence;
use crate::cause::evidence::median;
use crate::event::{CounterScope, Phase, ProbeAnswer, ProbeMethod, Stamp, TargetId};
use crate::experiment::Experiment;
use crate::facts::{ExperimentResult, Facts};
use crate::report::{
    Counter, ExperimentOutcome, Figures, PhaseSpan, Probe, ProbeFigures, Remark, Setting,
    SocketGroup, StatusCount, Tally,
};

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

fn phase_name(phase: Phase) -> String {
    match phase {
        Phase::WarmUp => "warm-up".to_owned(),
        Phase::Baseline => "baseline".to_owned(),
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

pub(super) fn probes(facts: &Facts) -> Vec<Probe> {
    facts
        .probes
        .iter()
        .map(|(key, group)| Probe {
            method: method_name(key.method).to_owned(),
            target: match key.method {
                ProbeMethod::Icmp => key.endpoint.addr.to_string(),
                _ => key.endpoint.to_string(),
            },
            during: if key.is_loaded { "loaded" } else { "idle" }.to_owned(),
            sent: group.sent,
            received: group.rtt.count(),
            late: group.late,
            lost: group
                .answers
                .get(&ProbeAnswer::Silence)
                .copied()
                .unwrap_or_default(),
            duplicates: group.duplicates,
            reordered: group.reordered,
            ttl: group.ttl,
            answers: group
                .answers
                .iter()
                .map(|(answer, &count)| StatusCount {
                    status: answer_name(*answer),
                    count,
                })
                .collect(),
            stamp: match group.stamp {
                Some(Stamp::Kernel) => "kernel",
                _ => "user",
            }
            .to_owned(),
            rtt_ns: ProbeFigures::from(&group.rtt),
            jitter_ns: group.jitter().map_or(0, |jitter| jitter.as_nanos() as u64),
            noticed_ns: (!group.noticed.is_empty()).then(|| ProbeFigures::from(&group.noticed)),
        })
        .collect()
}

fn method_name(method: ProbeMethod) -> &'static str {
    match method {
        ProbeMethod::TcpSyn => "tcp-syn",
        ProbeMethod::TcpConnect => "tcp-connect",
        ProbeMethod::HttpFresh => "http-fresh",
        ProbeMethod::HttpKeptAlive => "http-kept-alive",
        ProbeMethod::Icmp => "icmp",
        ProbeMethod::Udp => "udp",
    }
}

fn answer_name(answer: ProbeAnswer) -> String {
    match answer {
        ProbeAnswer::Open => "open".to_owned(),
        ProbeAnswer::Refused => "refused".to_owned(),
        ProbeAnswer::Unreachable(kind, code) => format!("unreachable {kind}/{code}"),
        ProbeAnswer::Silence => "silence".to_owned(),
        ProbeAnswer::Status(status) => status.to_string(),
        ProbeAnswer::Closed => "closed".to_owned(),
        ProbeAnswer::NotHttp => "not HTTP".to_owned(),
        ProbeAnswer::Echo => "echo".to_owned(),
        ProbeAnswer::Datagram => "datagram".to_owned(),
    }
}

pub(super) fn sockets(facts: &Facts) -> Vec<SocketGroup> {
    let some = |tally: Tally| (tally.of > 0).then_some(tally);
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
            set_at: line
                .set_at
                .as_ref()
                .map(|at| format!("{}:{}", at.file, at.line)),
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
                meaning: meaning(&result).to_owned(),
            });
        }
    }
    list
}

fn meaning(result: &ExperimentResult<'_>) -> &'static str {
    let (helps, hurts) = (result.high < 0, result.low > 0);
    match (result.experiment, helps, hurts) {
        (Experiment::QuickAck, true, _) => {
            "Requests are faster when we acknowledge at once: something waits for our ACK."
        }
        (Experiment::QuickAck, ..) => {
            "How soon we acknowledge makes no difference: nothing waits for our ACK."
        }
        (Experiment::ConnectionClose, true, _) => {
            "Requests are faster when the server closes after them: the FIN lets a held last \
             segment pass."
        }
        (Experiment::FreshConnection, true, _) => {
            "First requests of connections are faster than later ones: the connection's state \
             matters."
        }
        (Experiment::ConnectionClose | Experiment::FreshConnection, _, true) => {
            "A connection for each request costs more than it saves."
        }
        (Experiment::ThinkTime { .. }, true, _) => {
            "Requests are faster after a pause: closely spaced ones meet something that passes."
        }
        (Experiment::ThinkTime { .. }, _, true) => "Requests after a pause are slower.",
        (Experiment::ClientNagle, _, true) => "Nagle's algorithm on our side would cost time.",
        _ => "It makes no difference.",
    }
}

/// What a reader must know of the captures.
pub(super) fn capture_notes(evidence: &Evidence) -> Vec<Remark> {
    let mut notes = Vec::new();
    for (_, summary) in &evidence.facts.captures {
        if let Some(damage) = &summary.damage {
            let text = format!("{} was read only in part: {damage}", summary.name);
            notes.push(Remark {
                id: "capture-damaged".to_owned(),
                text,
            });
        }
        if let Some(dropped) = summary.dropped.filter(|&dropped| dropped > 0) {
            let text = format!("{}: the capture lost {dropped} packets.", summary.name);
            notes.push(Remark {
                id: "capture-dropped".to_owned(),
                text,
            });
        }
    }
    notes.extend(disturbance(&evidence.facts));
    notes
}

/// How the service fared while packets were captured, beside how it fared before.
fn disturbance(facts: &Facts) -> Option<Remark> {
    let alone = facts.loads.baseline(TargetId::Subject)?;
    let observed = facts.loads.observed_baseline(TargetId::Subject)?;
    let text = format!(
        "Capturing disturbs: the median request took {} without it and {} with it. The latency \
         figures are those without; where the time went is seen with it.",
        median(&alone.latency),
        median(&observed.latency)
    );
    (!core::ptr::eq(alone, observed)).then(|| Remark {
        id: "capture-disturbance".to_owned(),
        text,
    })
}
