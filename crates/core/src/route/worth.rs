//! The choice of routes that are worth tracing: those that take a material part of a request's
//! time, and those that lose packets.

use core::time::Duration;

use super::RouteTally;
use crate::observed::event::{ProbeAnswer, ProbeMethod, ProbeSample};
use crate::observed::segment::hops;
use crate::stats::histogram::Distribution;

/// Minimum round-trip time for which the route is traced because of its distance.
pub(crate) const WORTH_TRACING: Duration = Duration::from_millis(1);
/// Minimum share of a request's time that the round trip must take to be material.
pub(crate) const MATERIAL_SHARE: f64 = 0.1;

/// The probes of one target that were sent without load, before its route is traced.
#[derive(Clone, Debug)]
pub struct TargetProbes<'a> {
    samples: Vec<&'a ProbeSample>,
}

impl<'a> TargetProbes<'a> {
    /// Creates the list from the probes of one target.
    pub fn new(samples: impl Iterator<Item = &'a ProbeSample>) -> Self {
        Self {
            samples: samples.collect(),
        }
    }

    /// Returns true if the route takes a material part of a request's time, or loses packets.
    pub fn ask_for_route(&self) -> bool {
        self.is_far() || self.is_handshake_lost()
    }

    /// Returns true if there are routers on the path. If no answer's time to live is known,
    /// `has_gateway` decides: it is true if the kernel sends to the target through a gateway.
    pub fn pass_routers(&self, has_gateway: bool) -> bool {
        let answered = self
            .samples
            .iter()
            .filter(|s| s.answer == ProbeAnswer::Open);
        let routers = answered.filter_map(|s| s.ttl).map(hops).max();
        routers.map_or(has_gateway, |routers| routers > 0)
    }

    /// Returns true if the target answers some probes but not all, according to the trace of its
    /// route.
    pub fn lose_answers(&self, traced: &RouteTally) -> bool {
        let distance = traced.distance();
        let hops = traced.hops();
        match hops.last().filter(|hop| distance == Some(hop.ttl)) {
            Some(last) => last.received < last.sent,
            None => self.samples.iter().any(|s| s.answer == ProbeAnswer::Open),
        }
    }

    fn is_far(&self) -> bool {
        let trip = self.median(&[ProbeMethod::TcpSyn, ProbeMethod::TcpConnect]);
        let request = self
            .median(&[ProbeMethod::HttpKeptAlive])
            .or_else(|| self.median(&[ProbeMethod::HttpFresh]))
            .unwrap_or_default();
        trip.is_some_and(|trip| {
            trip >= WORTH_TRACING && trip.as_secs_f64() >= request.as_secs_f64() * MATERIAL_SHARE
        })
    }

    fn median(&self, methods: &[ProbeMethod]) -> Option<Duration> {
        let mut times = Distribution::default();
        let of = self.samples.iter().filter(|s| methods.contains(&s.method));
        of.filter_map(|s| s.rtt).for_each(|rtt| times.record(rtt));
        times.quantile(0.5)
    }

    /// Returns true if any of the handshakes was not answered.
    fn is_handshake_lost(&self) -> bool {
        self.samples.iter().any(|sample| {
            let is_handshake =
                matches!(sample.method, ProbeMethod::TcpSyn | ProbeMethod::TcpConnect);
            is_handshake && sample.answer == ProbeAnswer::Silence
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::observed::event::{Coming, Stamp, TargetId};
    use crate::observed::flow::Endpoint;

    /// Returns a probe of the subject, answered after `rtt` or not at all.
    pub(crate) fn probe(
        method: ProbeMethod,
        rtt: Option<Duration>,
        ttl: Option<u8>,
    ) -> ProbeSample {
        ProbeSample {
            target: TargetId::Subject,
            endpoint: Endpoint::new([10, 0, 0, 2].into(), 80),
            method,
            answer: rtt.map_or(ProbeAnswer::Silence, |_| ProbeAnswer::Open),
            rtt,
            stamp: Stamp::Kernel,
            ttl,
            syn_retransmissions: 0,
            number: 0,
            coming: Coming::InTime,
            noticed: None,
            queued: None,
            step: None,
            headers: 0,
            reply: None,
            phases: None,
        }
    }

    fn asks(trip: Option<u64>, request: u64) -> bool {
        let micros = Duration::from_micros;
        let probes = [
            probe(ProbeMethod::TcpSyn, trip.map(micros), None),
            probe(ProbeMethod::HttpKeptAlive, Some(micros(request)), None),
        ];
        TargetProbes::new(probes.iter()).ask_for_route()
    }

    #[test]
    fn a_route_is_asked_for_where_its_time_is_material_or_packets_are_lost() {
        assert!(asks(Some(2_000), 5_000));
        assert!(!asks(Some(2_000), 50_000), "the request takes much longer");
        assert!(!asks(Some(300), 1_000), "the target is near");
        assert!(asks(None, 50_000), "a handshake was not answered");
    }

    #[test]
    fn routers_show_in_the_time_to_live_or_else_in_a_gateway() {
        let passes = |ttl, has_gateway| {
            let probes = [probe(ProbeMethod::TcpSyn, Some(WORTH_TRACING), ttl)];
            TargetProbes::new(probes.iter()).pass_routers(has_gateway)
        };
        assert!(passes(Some(62), false));
        assert!(!passes(Some(64), true));
        assert!(passes(None, true));
        assert!(!passes(None, false));
    }
}
