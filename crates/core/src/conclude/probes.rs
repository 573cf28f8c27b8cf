//! The results of probes, with one row for each method, target and load.

use crate::cause::secured::version_name;
use crate::facts::{Facts, ProbeGroup, ProbeKey};
use crate::observed::event::{ProbeAnswer, ProbeMethod, ProbePhases, Stamp};
use crate::report::{Probe, ProbeFigures, ProbePhase, ProbeTlsFacts, Remark, StatusCount, counted};

/// Returns one row for each group of probes.
pub(super) fn probes(facts: &Facts) -> Vec<Probe> {
    facts
        .probes
        .iter()
        .map(|(key, group)| Probe {
            method: method_name(key.method).to_owned(),
            target: key.target_name(),
            during: if key.is_loaded { "loaded" } else { "idle" }.to_owned(),
            sent: group.counts.sent,
            received: group.rtt.count(),
            late: group.counts.late,
            lost: group
                .answers
                .get(&ProbeAnswer::Silence)
                .copied()
                .unwrap_or_default(),
            duplicates: group.counts.duplicates,
            reordered: group.counts.reordered,
            ttl: group.ttl,
            answers: group
                .answers
                .iter()
                .map(|(answer, &count)| StatusCount {
                    status: answer.name(),
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
            queued_ns: (!group.queued.is_empty()).then(|| ProbeFigures::from(&group.queued)),
            own_ns: (!group.own.is_empty()).then(|| ProbeFigures::from(&group.own)),
            steps: super::sweep::rows(&group.sweep),
            phases: spent(group),
            tls: group.tls.as_ref().map(|tls| ProbeTlsFacts {
                version: version_name(Some(tls.version)).to_owned(),
                cipher: tls.cipher.clone(),
                certificate_ends_ns: tls.certificate_ends.map(|end| end.as_nanos()),
            }),
        })
        .collect()
}

/// Returns the time of a group's probes in each phase.
fn spent(group: &ProbeGroup) -> Vec<ProbePhase> {
    let named = ProbePhases::NAMES.iter().zip(&group.phases);
    named
        .filter(|(_, took)| !took.is_empty())
        .map(|(name, took)| ProbePhase {
            phase: (*name).to_owned(),
            count: took.count(),
            took_ns: ProbeFigures::from(took),
        })
        .collect()
}

fn method_name(method: ProbeMethod) -> &'static str {
    match method {
        ProbeMethod::TcpSyn => "tcp-syn",
        ProbeMethod::TcpConnect => "tcp-connect",
        ProbeMethod::TcpFlags => "tcp-flags",
        ProbeMethod::HttpFresh => "http-fresh",
        ProbeMethod::HttpKeptAlive => "http-kept-alive",
        ProbeMethod::TlsFull => "tls-full",
        ProbeMethod::TlsResumed => "tls-resumed",
        ProbeMethod::Icmp => "icmp",
        ProbeMethod::Udp => "udp",
    }
}

/// Returns the remark that unanswered probes may not be losses, because hosts limit their ICMP
/// errors.
pub(super) fn remarks(facts: &Facts) -> Vec<Remark> {
    let limited = |(key, group): (&ProbeKey, &ProbeGroup)| {
        let count = |answer| group.answers.get(&answer).copied().unwrap_or_default();
        let errors = count(ProbeAnswer::Unreachable(3, 3)) + count(ProbeAnswer::Unreachable(1, 4));
        let silent = count(ProbeAnswer::Silence);
        let is_mixed = key.method == ProbeMethod::Udp && errors > 0 && silent > 0;
        is_mixed.then(|| Remark {
            id: "probe-icmp-limited".to_owned(),
            text: format!(
                "{}: {silent} of {} not answered; the others were answered by ICMP port \
                 unreachable. Hosts limit these errors, Linux to a burst of six and then one per \
                 second (net.ipv4.icmp_ratelimit), so the missing answers may not be losses. Probe \
                 once per second to find out.",
                key.target_name(),
                counted(group.counts.sent, "datagram was", "datagrams were"),
            ),
        })
    };
    facts.probes.iter().filter_map(limited).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::event::TargetId;

    #[test]
    fn silence_between_icmp_errors_is_told_to_be_no_loss() {
        let refused = ProbeAnswer::Unreachable(3, 3);
        let (silent, datagram) = (ProbeAnswer::Silence, ProbeAnswer::Datagram);
        for (method, answers, is_said) in [
            (ProbeMethod::Udp, [refused, silent], true),
            (
                ProbeMethod::Udp,
                [ProbeAnswer::Unreachable(1, 4), silent],
                true,
            ),
            (ProbeMethod::Udp, [refused, datagram], false),
            (ProbeMethod::Udp, [datagram, silent], false),
            // A router answered the SYN.
            (ProbeMethod::TcpSyn, [refused, silent], false),
        ] {
            let mut facts = Facts::default();
            let key = ProbeKey {
                target: TargetId::Subject,
                endpoint: core::net::SocketAddr::from(([192, 0, 2, 7], 9)).into(),
                method,
                is_loaded: false,
            };
            let group = facts.probes.entry(key).or_default();
            group.counts.sent = 6;
            group.answers.extend(answers.map(|answer| (answer, 3)));
            assert_eq!(remarks(&facts).len(), usize::from(is_said), "{answers:?}");
        }
    }
}
