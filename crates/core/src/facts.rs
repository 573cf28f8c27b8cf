//! Observations from sources other than packets, summed up.
//!
//! Memory is bounded: groups and counts are kept, never lists that grow with the load.

mod generator;
pub(crate) mod host;
pub(crate) mod icmp_errors;
mod kernel_spans;
mod load;
mod socket_samples;
mod sockets;
mod sweep;
mod syscalls;

use core::time::Duration;
use std::collections::BTreeMap;

pub(crate) use host::Hosts;
pub(crate) use kernel_spans::{Act, ServiceTurns, Turns, WatchedStream};
pub(crate) use load::{ExperimentResult, LoadSum, Loads};
pub(crate) use socket_samples::SocketFacts;
pub(crate) use sockets::{LiveSockets, SeenSocket};
pub(crate) use sweep::{StepTally, SweptProbes};
pub(crate) use syscalls::{Calls, Listening, Use};

use crate::observed::event::{
    CaptureSummary, Coming, ConfigurationLine, CounterChange, CounterScope, Event, EventBody,
    FirewallState, KernelRoute, KernelTimers, ListenerSample, Note, OtherAddress, PointId,
    ProbeAnswer, ProbeMethod, ProbeSample, ProbeTls, Resolution, Stamp, TargetId,
};
use crate::observed::flow::Endpoint;
use crate::observed::sockets::KernelLimits;
use crate::observed::time::Timestamp;
use crate::report::Remark;
use crate::route::RouteTally;
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

/// Number of connections that found the accept queue of their listener full.
const LISTEN_OVERFLOWS: &str = "TcpExt:ListenOverflows";
/// Maximum number of entries kept in each list.
const MAX_ENTRIES: usize = 512;

/// All facts from sources other than TCP segments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    pub(crate) resolutions: Vec<Resolution>,
    pub(crate) other_addresses: Vec<OtherAddress>,
    pub(crate) probes: BTreeMap<ProbeKey, ProbeGroup>,
    pub(crate) route: RouteTally,
    pub(crate) loads: Loads,
    pub(crate) sockets: BTreeMap<(TargetId, String), SocketFacts>,
    pub(crate) live: LiveSockets,
    pub(crate) turns: Turns,
    pub(crate) calls: Calls,
    pub(crate) kernel: KernelFacts,
    pub(crate) configuration: Vec<ConfigurationLine>,
    /// The summary of each capture source, with the source's first capture point.
    pub(crate) captures: Vec<(PointId, CaptureSummary)>,
    pub(crate) notes: Vec<Remark>,
    pub(crate) hosts: Hosts,
}

/// Settings and counters of the kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct KernelFacts {
    pub(crate) routes: Vec<KernelRoute>,
    pub(crate) limits: Option<KernelLimits>,
    pub(crate) counters: Vec<CounterChange>,
    pub(crate) listeners: Vec<ListenerSample>,
    pub(crate) timers: Option<KernelTimers>,
    pub(crate) firewall: Option<FirewallState>,
}

/// The key of a group of probes. Only results within one group are comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProbeKey {
    pub(crate) target: TargetId,
    pub(crate) endpoint: Endpoint,
    pub(crate) method: ProbeMethod,
    /// True if a load was running when the probe was sent.
    pub(crate) is_loaded: bool,
}

impl ProbeKey {
    /// Returns the name of the probed target. An ICMP echo request has no port, so its name is the
    /// address alone.
    pub(crate) fn target_name(&self) -> String {
        match self.method {
            ProbeMethod::Icmp => self.endpoint.addr.to_string(),
            _ => self.endpoint.to_string(),
        }
    }
}

/// The probes with one key, summed up.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProbeGroup {
    pub(crate) counts: ProbeCounts,
    pub(crate) answers: BTreeMap<ProbeAnswer, u64>,
    pub(crate) rtt: Distribution,
    pub(crate) stamp: Option<Stamp>,
    pub(crate) ttl: Option<u8>,
    pub(crate) noticed: Distribution,
    pub(crate) queued: Distribution,
    /// The time until this program noticed each answer: `noticed` minus the round trip and the
    /// queue time.
    pub(crate) own: Distribution,
    pub(crate) sweep: SweptProbes,
    /// Times of the answered probes by phase, in the order of `ProbePhases::NAMES`.
    pub(crate) phases: [Distribution; 6],
    pub(crate) tls: Option<ProbeTls>,
    /// The highest number of an answered probe.
    newest: Option<u32>,
    last_rtt: Option<Duration>,
    /// The sum of the differences between successive round trips, and the count of these
    /// differences.
    differences: (Duration, u32),
}

/// Numbers of probes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProbeCounts {
    pub(crate) sent: u64,
    pub(crate) syn_retransmissions: u64,
    pub(crate) late: u64,
    pub(crate) duplicates: u64,
    pub(crate) reordered: u64,
}

impl ProbeGroup {
    fn add_sample(&mut self, sample: &ProbeSample) {
        self.ttl = self.ttl.or(sample.ttl);
        self.sweep.add_probe(sample);
        match sample.coming {
            Coming::InTime => self.counts.sent += 1,
            Coming::Late => {
                // The probe was counted as unanswered when its time ran out.
                self.counts.late += 1;
                if let Some(silent) = self.answers.get_mut(&ProbeAnswer::Silence) {
                    *silent = silent.saturating_sub(1);
                }
                self.answers.retain(|_, count| *count > 0);
            }
            Coming::Again => {
                self.counts.duplicates += 1;
                return;
            }
        }
        *self.answers.entry(sample.answer).or_default() += 1;
        self.counts.syn_retransmissions += u64::from(sample.syn_retransmissions);
        let Some(rtt) = sample
            .rtt
            .filter(|_| is_by_target(sample.method, sample.answer))
        else {
            return;
        };
        // The group is only as precise as its least precise timestamp.
        self.stamp = self.stamp.max(Some(sample.stamp));
        self.rtt.record(rtt);
        if let Some(noticed) = sample.noticed {
            self.noticed.record(noticed);
            let queued = sample.queued.unwrap_or_default();
            self.own
                .record(noticed.saturating_sub(rtt).saturating_sub(queued));
        }
        if let Some(queued) = sample.queued {
            self.queued.record(queued);
        }
        if let Some(phases) = &sample.phases {
            for (all, took) in self.phases.iter_mut().zip(phases.all()) {
                took.into_iter().for_each(|took| all.record(took));
            }
            self.tls = phases.tls.clone().or(self.tls.take());
        }
        self.counts.reordered +=
            u64::from(self.newest.is_some_and(|newest| sample.number < newest));
        self.newest = self.newest.max(Some(sample.number));
        if let Some(last) = self.last_rtt.replace(rtt) {
            let (sum, count) = self.differences;
            self.differences = (sum.saturating_add(rtt.abs_diff(last)), count + 1);
        }
    }

    /// Returns the jitter: the mean difference between successive round trips.
    pub(crate) fn jitter(&self) -> Option<Duration> {
        let (sum, count) = self.differences;
        sum.checked_div(count)
    }
}

/// Returns true if the target itself answered. The target's host sends the ICMP error for a closed
/// UDP port (RFC 1122 §4.1.3.1). All other ICMP errors come from routers.
pub(crate) fn is_by_target(method: ProbeMethod, answer: ProbeAnswer) -> bool {
    match answer {
        ProbeAnswer::Unreachable(3, 3) | ProbeAnswer::Unreachable(1, 4) => {
            method == ProbeMethod::Udp
        }
        ProbeAnswer::Unreachable(..) => false,
        _ => true,
    }
}

impl Facts {
    /// Adds an event to the facts.
    pub(crate) fn observe(&mut self, event: Event) {
        let (at, phase, point) = (event.at, event.phase, event.origin.point);
        match event.body {
            EventBody::Resolution(resolution) => push(&mut self.resolutions, resolution),
            EventBody::OtherAddress(other) => push(&mut self.other_addresses, other),
            EventBody::Route(route) => push(&mut self.kernel.routes, route),
            EventBody::Probe(sample) => self.probe(at, &sample),
            EventBody::Trace(start) => self.route.begin(start),
            EventBody::Hop(sample) => self.route.observe(&sample),
            EventBody::HopName(address, name) => self.route.name(address, name),
            EventBody::HopOrigin(address, origin) => self.route.origin(address, origin),
            EventBody::PathMtu(mtu) => self.route.mtu(mtu),
            EventBody::PhaseStarted(start) => self.loads.begin(at, phase, start),
            EventBody::Load(cluster) => self.loads.cluster(phase, cluster),
            EventBody::Transport(transport) => self.loads.transport(phase, transport),
            EventBody::Stages(stages) => self.loads.stages(phase, stages),
            EventBody::LoadUrl(url) => self.loads.url(phase, url),
            EventBody::Generator(sample) => self.loads.generator(phase, sample),
            EventBody::Level(level) => self.loads.level(level),
            EventBody::Processors(used) => self.loads.used(phase, used),
            EventBody::Sent(sent) => self.loads.sent = Some(sent),
            EventBody::Expected(statuses) => self.loads.expected = statuses,
            EventBody::Silence(silence) => self.loads.silence(phase, silence),
            EventBody::Request(sample) => self.loads.sample(phase, sample),
            EventBody::Socket(sample) => self.socket(&sample),
            EventBody::LiveSocket(socket) => self.live.add_socket(*socket),
            EventBody::Watched(tally) => self.turns.tally = Some(tally),
            EventBody::SocketCall(call) => self.calls.add_call(&call),
            EventBody::Traced(tally) => self.calls.tally = Some(tally),
            EventBody::KernelLimits(limits) => self.kernel.limits = Some(limits),
            EventBody::Counter(change) => push(&mut self.kernel.counters, change),
            EventBody::Listener(sample) => push(&mut self.kernel.listeners, sample),
            EventBody::Configuration(line) => push(&mut self.configuration, line),
            EventBody::Timers(timers) => self.kernel.timers = Some(timers),
            EventBody::Firewall(state) => self.kernel.firewall = Some(state),
            EventBody::Capture(summary) => push(&mut self.captures, (point, summary)),
            EventBody::Note(Note { id, text }) => {
                let remark = Remark { id, text };
                if !self.notes.contains(&remark) {
                    push(&mut self.notes, remark);
                }
            }
            // The connection table handles these events.
            EventBody::FlowPhase(_)
            | EventBody::Turn(_)
            | EventBody::Passage(_)
            | EventBody::Upstream(_) => {}
        }
    }

    fn probe(&mut self, at: Timestamp, sample: &ProbeSample) {
        let key = ProbeKey {
            target: sample.target,
            endpoint: sample.endpoint,
            method: sample.method,
            is_loaded: self.loads.is_running(at),
        };
        if !self.probes.contains_key(&key) && self.probes.len() >= MAX_ENTRIES {
            return;
        }
        self.probes.entry(key).or_default().add_sample(sample);
    }

    fn socket(&mut self, sample: &crate::observed::event::SocketSample) {
        let key = (sample.target, socket_samples::owner_name(&sample.owner));
        if self.sockets.contains_key(&key) || self.sockets.len() < MAX_ENTRIES {
            self.sockets.entry(key).or_default().add_sample(sample);
        }
    }

    /// Returns the summed socket samples of all of the server's processes.
    pub(crate) fn server_sockets(&self, target: TargetId) -> SocketFacts {
        let mut all = SocketFacts::default();
        for ((_, owner), facts) in self.sockets.iter().filter(|((t, _), _)| *t == target) {
            if owner != socket_samples::OWN {
                all.merge(facts.clone());
            }
        }
        all
    }

    /// Returns the maximum number of retransmissions on one of our own sockets to the target; `None`
    /// if none was sampled.
    pub(crate) fn own_retransmissions(&self, target: TargetId) -> Option<u64> {
        let own = self
            .sockets
            .get(&(target, socket_samples::OWN.to_owned()))?;
        Some(own.retransmissions)
    }

    /// Returns the name of the program that owns the server's sockets, if known.
    pub(crate) fn server_program(&self, target: TargetId) -> Option<&str> {
        let owners = self.sockets.keys().filter(|(t, _)| *t == target);
        owners
            .filter_map(|(_, owner)| owner.split_once('[').map(|(name, _)| name))
            .next()
    }

    /// Returns the effective value of a configuration directive, with the file and line that set
    /// it.
    pub(crate) fn setting(&self, target: TargetId, directive: &str) -> Option<&ConfigurationLine> {
        self.configuration
            .iter()
            .find(|line| line.target == target && line.directive == directive)
    }

    /// Returns the increase of a kernel counter in our own network namespace.
    pub(crate) fn counter(&self, name: &str) -> Option<u64> {
        let is_ours =
            |change: &&CounterChange| change.name == name && change.scope != CounterScope::Target;
        let change = self.kernel.counters.iter().find(is_ours)?;
        Some(change.after.saturating_sub(change.before))
    }

    /// Returns how often the accept queue of a listener in the target's network namespace was full
    /// when a connection came (`LINUX_MIB_LISTENOVERFLOWS`); 0 if the target is on another host.
    pub(crate) fn listen_overflows(&self) -> u64 {
        self.targets_counter(LISTEN_OVERFLOWS).unwrap_or_default()
    }

    /// Returns the increase of a kernel counter in the target's network namespace; `None` if the
    /// target is on another host.
    pub(crate) fn targets_counter(&self, name: &str) -> Option<u64> {
        let is_targets =
            |change: &&CounterChange| change.name == name && change.scope != CounterScope::Client;
        let change = self.kernel.counters.iter().find(is_targets)?;
        Some(change.after.saturating_sub(change.before))
    }

    /// Returns the probes of one method that were sent during a load (`is_loaded`) or without one.
    pub(crate) fn probes_of(
        &self,
        target: TargetId,
        method: ProbeMethod,
        is_loaded: bool,
    ) -> Option<&ProbeGroup> {
        self.probes
            .iter()
            .find(|(key, _)| {
                key.target == target && key.method == method && key.is_loaded == is_loaded
            })
            .map(|(_, group)| group)
    }

    /// Returns the path's round trip: the minimum over the TCP probes without load. The target's
    /// kernel answers these probes, not its program.
    pub(crate) fn round_trip(&self, target: TargetId) -> Option<core::time::Duration> {
        [ProbeMethod::TcpSyn, ProbeMethod::TcpConnect]
            .into_iter()
            .filter_map(|method| self.probes_of(target, method, false)?.rtt.min())
            .min()
    }
}

fn push<T>(list: &mut Vec<T>, item: T) {
    if list.len() < MAX_ENTRIES {
        list.push(item);
    }
}
