//! All services of a conclusion, which refer to each other.

use core::net::IpAddr;
use std::collections::BTreeMap;

use super::Observations;
use super::judge::Observed;
use crate::cause::Case;
use crate::cause::behind::Behind;
use crate::cause::calls::{CallTraces, HostCalls};
use crate::cause::evidence::Measures;
use crate::cause::far_side::FarSide;
use crate::cause::rhythm::Rhythm;
use crate::cause::service::Service;
use crate::cause::upstream::Upstream;
use crate::observed::event::TargetId;
use crate::observed::flow::Endpoint;
use crate::service::{Ledger, Stretches, Uploads};
use crate::stats::Merge;

/// All services of a conclusion. The case of one service refers to the others.
pub(super) struct Scene<'a> {
    pub(super) observations: &'a Observations,
    pub(super) from_packets: &'a [Endpoint],
    fetches: Stretches,
    /// Uploads by the server's address. All ports of a server share the path, so they share one
    /// entry.
    uploads: BTreeMap<IpAddr, Uploads>,
    pub(super) rhythms: BTreeMap<Endpoint, Rhythm>,
    pub(super) calls: HostCalls,
}

impl<'a> Scene<'a> {
    pub(super) fn new(observations: &'a Observations, from_packets: &'a [Endpoint]) -> Self {
        let mut fetches = Stretches::default();
        let mut uploads: BTreeMap<IpAddr, Uploads> = BTreeMap::new();
        for (endpoint, service) in &observations.services {
            fetches.merge(service.ledger.fetches.clone());
            let way = uploads.entry(endpoint.addr).or_default();
            way.merge(service.ledger.uploads.clone());
        }
        let services = observations.services.iter().chain(&observations.upstreams);
        // Between two loads of our own, the server has nothing to do, and the next one uses other
        // connections.
        let period = |endpoint: Endpoint| {
            let mut targets = observations.targets.iter();
            let (target, _) = targets.find(|(_, at)| *at == endpoint)?;
            let is_own = !from_packets.contains(&endpoint);
            is_own.then(|| observations.facts.loads.first_baseline(*target))?
        };
        let rhythm = |(&endpoint, service): (&Endpoint, &Service)| {
            let mut rhythm = Rhythm::of(service, period(endpoint));
            rhythm.is_called_here = observations.upstreams.contains_key(&endpoint);
            (endpoint, rhythm)
        };
        let mut rhythms: BTreeMap<_, _> = services.map(rhythm).collect();
        let traces = CallTraces::of(
            &observations.services,
            &observations.asked.waits,
            &observations.local,
        );
        let mut calls = HostCalls::of(&rhythms, &traces);
        if let Some(far_side) = &observations.far_side {
            calls.add_far(&far_side.calls, &far_side.traces);
            take_far_side(far_side, &mut rhythms);
        }
        Self {
            observations,
            from_packets,
            fetches,
            uploads,
            rhythms,
            calls,
        }
    }

    /// Returns what can witness against or for a claim at this service.
    pub(super) fn observed(&self, at: Endpoint) -> Observed<'_> {
        Observed {
            service: self.observations.services.get(&at),
            facts: &self.observations.facts,
            has_packets: self.from_packets.contains(&at),
            is_drawn: self.observations.is_drawn,
        }
    }

    pub(super) fn case(
        &'a self,
        endpoint: Endpoint,
        service: &'a Service,
        upstream: Option<&'a Upstream>,
        behind: Option<&'a Behind>,
    ) -> Option<Case<'a>> {
        let mut targets = self.observations.targets.iter();
        let target = targets.find(|(_, at)| *at == endpoint).map(|&(id, _)| id);
        let has_packets = self.from_packets.contains(&endpoint);
        Some(Case {
            rhythm: self.rhythms.get(&endpoint)?,
            rhythms: &self.rhythms,
            upstream,
            behind,
            calls: &self.calls,
            endpoint,
            target,
            ledger: &service.ledger,
            latency: Measures::of(&service.ledger.latency.all),
            gathered: &service.rules.gathered,
            fetches: &self.fetches,
            uploads: self.uploads.get(&endpoint.addr)?,
            facts: &self.observations.facts,
            has_packets,
            weight: weight(self.observations, target, &service.ledger, has_packets),
        })
    }
}

/// Adds the requests that a second capture saw.
fn take_far_side(far_side: &FarSide, rhythms: &mut BTreeMap<Endpoint, Rhythm>) {
    for (at, moments) in &far_side.shared {
        if let Some(rhythm) = rhythms.get_mut(at) {
            rhythm.add_elsewhere(moments);
        }
    }
    for (&at, moments) in &far_side.calls {
        let rhythm = || Rhythm::of_moments(moments.clone());
        rhythms.entry(at).or_insert_with(rhythm);
    }
}

/// Returns the number of requests that each exchange of the ledger represents. It is more than 1 if
/// the exchanges are a sample.
fn weight(
    observations: &Observations,
    target: Option<TargetId>,
    ledger: &Ledger,
    has_packets: bool,
) -> f64 {
    let load = target.and_then(|target| observations.facts.loads.baseline(target));
    match load {
        Some(load) if !has_packets && ledger.counts.count > 0 => {
            (load.whole() as f64 / ledger.counts.count as f64).max(1.0)
        }
        _ if target.is_none() => observations.facts.turns.each_for(),
        _ => 1.0,
    }
}
