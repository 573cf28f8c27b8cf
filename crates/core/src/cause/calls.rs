//! Calls: the times for which a host waits for something that it asked of another one.

mod limit;
mod stalls;

use core::net::IpAddr;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

pub(super) use limit::CallLimit;

use super::rhythm::Rhythm;
use super::service::Service;
use super::upstream::is_itself;
use crate::observed::event::PointId;
use crate::observed::flow::Endpoint;
use crate::observed::time::Timestamp;
use crate::preconnect::ResolverWait;
use crate::protocol::dns;
use crate::service::LateAttempt;
use crate::service::timeline::Moment;
use crate::stats::bounded::Least;

/// Maximum number of calls that are kept.
const MAX_CALLS: usize = 32_768;

/// A time for which a host waits for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) begin: Timestamp,
    pub(super) kind: CallKind,
    /// Time at which an answer begins to arrive; `None` if none came.
    pub(super) answered: Option<Timestamp>,
    /// Time at which the answer is complete.
    end: Timestamp,
    /// The port is 0 for a lookup: each of its queries may use another one.
    pub(super) caller: Endpoint,
    /// Where the call was seen; `None` if its caller is known to be the host of the service.
    point: Option<PointId>,
    pub(super) to: Endpoint,
    /// The part of the time that the callee took. The rest is the way to it.
    pub(super) own: Duration,
    /// True if the way may be in that part as well: no reply of the callee's kernel shows it.
    pub(super) may_be_far: bool,
}

/// The kind of thing that a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CallKind {
    /// A connection to an address that did not answer, or only a repeated SYN.
    SilentPeer,
    /// A resolver that did not answer, or only a repeated query.
    SilentResolver,
    /// The answer of a resolver.
    Lookup,
    /// A new connection for a request, TLS and login included.
    Connecting,
    /// The response to a request.
    Request,
}

impl Call {
    /// `rtt` is the round trip to the callee, if its kernel showed it on any connection.
    fn of_request(
        back: &Moment,
        point: Option<PointId>,
        to: Endpoint,
        rtt: Option<Duration>,
    ) -> Self {
        let travel = (!back.path.is_told).then(|| back.asked.since(back.sent) * 2);
        let own = back.think() + back.response.held + back.response.paused;
        let own = own + travel.unwrap_or_default();
        let may_be_far = travel.is_some() && rtt.is_none();
        let rtt = travel.and(rtt).unwrap_or_default();
        Self {
            begin: back.begin,
            kind: if back.is_login {
                CallKind::Connecting
            } else {
                CallKind::Request
            },
            answered: Some(back.answered),
            end: back.end,
            caller: back.client,
            point,
            to,
            own: own.saturating_sub(rtt),
            may_be_far,
        }
    }

    fn of_setup(back: &Moment, took: Duration, point: Option<PointId>, to: Endpoint) -> Self {
        Self {
            begin: back.begin - took,
            kind: CallKind::Connecting,
            answered: Some(back.begin),
            end: back.begin,
            own: Duration::ZERO,
            may_be_far: false,
            ..Self::of_request(back, point, to, None)
        }
    }

    fn of_attempt(late: &LateAttempt, to: Endpoint) -> Self {
        Self {
            begin: late.begin,
            kind: CallKind::SilentPeer,
            answered: late.end,
            end: late.end.unwrap_or(late.begin),
            caller: late.client,
            point: Some(late.point),
            to,
            own: Duration::ZERO,
            may_be_far: false,
        }
    }

    fn of_lookup(lookup: &ResolverWait) -> Self {
        let kind = if lookup.is_repeated || lookup.end.is_none() {
            CallKind::SilentResolver
        } else {
            CallKind::Lookup
        };
        Self {
            begin: lookup.begin,
            kind,
            answered: lookup.end,
            end: lookup.end.unwrap_or(lookup.begin),
            caller: Endpoint::new(lookup.client, 0),
            point: Some(lookup.point),
            to: Endpoint::new(lookup.resolver, dns::PORT),
            own: Duration::ZERO,
            may_be_far: false,
        }
    }

    /// Returns the time until which the caller waits for the call, at most until `latest`. A call
    /// without an answer is given up when the caller makes its next one.
    pub(super) fn until(&self, next: Option<&Self>, latest: Timestamp) -> Timestamp {
        let end = match self.answered {
            Some(_) => self.end,
            None => next.map_or(latest, |next| next.begin),
        };
        end.min(latest)
    }

    /// Returns true if the call was made at `from` or before, and answered at `until` or within `edge`
    /// of it.
    pub(super) fn spans(&self, from: Timestamp, until: Timestamp, edge: Duration) -> bool {
        let is_answered = (until - edge..=until + edge).contains(&self.end);
        self.answered.is_some() && self.begin <= from && is_answered
    }

    pub(super) fn is_lookup(&self) -> bool {
        matches!(self.kind, CallKind::SilentResolver | CallKind::Lookup)
    }

    /// Returns true if the call was seen where `front` was.
    pub(super) fn is_seen_with(&self, front: &Moment) -> bool {
        self.point.is_none_or(|point| point == front.point)
    }
}

/// Attempts to connect, lookups, addresses and round trips of a capture, from which calls are known
/// besides requests.
#[derive(Debug, Default)]
pub(crate) struct CallTraces {
    /// The attempts to connect that were not answered at once, with the address that was called.
    pub(crate) late: Vec<(Endpoint, LateAttempt)>,
    pub(crate) waits: Vec<ResolverWait>,
    /// The addresses of the capturing hosts, by observation point.
    pub(crate) local: BTreeSet<(PointId, IpAddr)>,
    /// The round trips to servers that their kernels showed.
    pub(crate) rtts: BTreeMap<Endpoint, Duration>,
    /// The times until which the requests to servers were kept, if not all were.
    pub(crate) kept_until: BTreeMap<Endpoint, Timestamp>,
}

impl CallTraces {
    pub(crate) fn of(
        services: &BTreeMap<Endpoint, Service>,
        waits: &[ResolverWait],
        local: &BTreeSet<(PointId, IpAddr)>,
    ) -> Self {
        let late = services.iter().flat_map(|(&to, service)| {
            let late = service.ledger.setups.late.sorted().into_iter();
            late.map(move |late| (to, late))
        });
        let rtt = |(&at, service): (&Endpoint, &Service)| {
            let trips = &service.ledger.trips;
            Some((at, trips.handshake.or(trips.fin)?))
        };
        let kept_until = |(&at, service): (&Endpoint, &Service)| {
            let until = service.timeline.kept_until()?;
            Some((at, until))
        };
        Self {
            late: late.collect(),
            waits: waits.to_vec(),
            local: local.clone(),
            rtts: services.iter().filter_map(rtt).collect(),
            kept_until: services.iter().filter_map(kept_until).collect(),
        }
    }
}

/// The earliest calls that were seen.
#[derive(Debug, Default)]
pub(crate) struct HostCalls {
    /// In the order in which they began.
    list: Vec<Call>,
    /// The addresses of the capturing hosts, by observation point.
    local: BTreeSet<(PointId, IpAddr)>,
    /// The times until which the requests to servers were kept, if not all were.
    kept_until: BTreeMap<Endpoint, Timestamp>,
}

impl HostCalls {
    /// Returns the calls of all hosts: the requests to each service, and what `traces` shows.
    pub(crate) fn of(rhythms: &BTreeMap<Endpoint, Rhythm>, traces: &CallTraces) -> Self {
        let requests = rhythms.iter().flat_map(|(&to, rhythm)| {
            let point = |back: &Moment| (!rhythm.is_called_here).then_some(back.point);
            let moments = rhythm
                .moments
                .iter()
                .filter(|back| !back.response.is_unowed);
            moments.map(move |back| (to, back, point(back)))
        });
        let mut calls = Self::default();
        calls.add(requests, traces);
        calls
    }

    /// Adds the requests of a second capture, by the service that they asked, and what its `traces`
    /// shows.
    pub(crate) fn add_far(
        &mut self,
        moments: &BTreeMap<Endpoint, Vec<Moment>>,
        traces: &CallTraces,
    ) {
        let requests = moments.iter().flat_map(|(&to, moments)| {
            let moments = moments.iter().filter(|back| !back.response.is_unowed);
            moments.map(move |back| (to, back, Some(back.point)))
        });
        self.add(requests, traces);
    }

    /// Adds requests with whom they asked and where they were seen.
    fn add<'a>(
        &mut self,
        requests: impl Iterator<Item = (Endpoint, &'a Moment, Option<PointId>)>,
        traces: &CallTraces,
    ) {
        let mut list = Least::<Call, MAX_CALLS>::default();
        self.list.drain(..).for_each(|call| list.add(call));
        for (to, back, point) in requests {
            let rtt = traces.rtts.get(&to).copied();
            list.add(Call::of_request(back, point, to, rtt));
            if let Some(took) = back.setup.filter(|_| back.ordinal == 0) {
                list.add(Call::of_setup(back, took, point, to));
            }
        }
        let late = traces.late.iter();
        late.for_each(|(to, late)| list.add(Call::of_attempt(late, *to)));
        let waits = traces.waits.iter();
        waits.for_each(|wait| list.add(Call::of_lookup(wait)));
        self.list = list.sorted();
        self.local.extend(&traces.local);
        self.kept_until.extend(&traces.kept_until);
    }

    /// Returns whom the host of `front` called most often without an answer, and how often.
    pub(super) fn unanswered_of(&self, front: Endpoint) -> Option<(Call, u64)> {
        let mut counts: BTreeMap<Endpoint, (u64, Call)> = BTreeMap::new();
        let calls = self.of_host(front).into_iter();
        for call in calls.filter(|call| call.answered.is_none()) {
            counts.entry(call.to).or_insert((0, call)).0 += 1;
        }
        let most = counts.into_values().max_by_key(|(count, _)| *count);
        most.map(|(count, call)| (call, count))
    }

    /// Returns the time until which all of these calls were kept; `None` if that is the end.
    pub(super) fn kept_until(&self, calls: &[Call]) -> Option<Timestamp> {
        let called: BTreeSet<Endpoint> = calls.iter().map(|call| call.to).collect();
        let until = called.iter().filter_map(|to| self.kept_until.get(to));
        until.min().copied()
    }

    /// Returns the calls that the host of `front` made, in the order in which they began.
    pub(super) fn of_host(&self, front: Endpoint) -> Vec<Call> {
        let is_own = |call: &Call| {
            let addr = call.caller.addr;
            let is_same = addr == front.addr || addr.is_loopback();
            let is_local = |point, addr| self.local.contains(&(point, addr));
            match call.point {
                None => true,
                Some(point) => {
                    let is_here = front.addr.is_loopback() || is_local(point, front.addr);
                    is_same || is_here && is_local(point, addr)
                }
            }
        };
        let own = self.list.iter().copied();
        own.filter(|call| is_own(call) && !is_itself(front, call.to))
            .collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a request that was sent and answered at these times, in milliseconds.
    pub(in crate::cause) fn call(begin: i64, answered: i64) -> Call {
        let moment = Moment::between(40_000, at(begin), at(answered));
        Call::of_request(&moment, None, Endpoint::new(host(9), 80), None)
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    fn host(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    /// The calls of the host 10.0.0.2, and of others, to resolvers.
    fn resolving(waits: &[(u8, u8, Option<i64>)]) -> HostCalls {
        let wait =
            |(at_ms, &(client, resolver, end)): (usize, &(u8, u8, Option<i64>))| ResolverWait {
                begin: at(at_ms as i64),
                end: end.map(at),
                point: PointId(0),
                client: host(client),
                resolver: host(resolver),
                is_repeated: false,
            };
        let waits: Vec<_> = waits.iter().enumerate().map(wait).collect();
        let traces = CallTraces {
            waits,
            ..CallTraces::default()
        };
        HostCalls::of(&BTreeMap::new(), &traces)
    }

    #[test]
    fn whom_a_host_called_in_vain_most_often_is_told() {
        let front = Endpoint::new(host(2), 80);
        let calls = resolving(&[
            (2, 53, None),
            (2, 54, None),
            (2, 54, None),
            (2, 53, Some(9)),
            (7, 53, None),
            (7, 53, None),
        ]);
        let (call, count) = calls.unanswered_of(front).expect("three of its own");
        assert_eq!((call.to.addr, count), (host(54), 2));
        assert!(calls.unanswered_of(Endpoint::new(host(3), 80)).is_none());
    }

    #[test]
    fn pauses_within_an_answer_are_the_callee_s_own_time() {
        let mut moment = Moment::between(40_000, at(0), at(5));
        let own = |moment: &Moment| {
            let call = Call::of_request(moment, None, Endpoint::new(host(9), 80), None);
            call.own
        };
        let without = own(&moment);
        moment.response.paused = Duration::from_millis(30);
        assert_eq!(own(&moment), without + Duration::from_millis(30));
    }

    #[test]
    fn a_login_belongs_to_connecting() {
        let kind = |is_login| {
            let moment = Moment {
                is_login,
                ..Moment::between(40_000, at(0), at(5))
            };
            Call::of_request(&moment, None, Endpoint::new(host(9), 5432), None).kind
        };
        assert_eq!(kind(true), CallKind::Connecting);
        assert_eq!(kind(false), CallKind::Request);
    }

    #[test]
    fn a_call_without_an_answer_ends_when_the_next_one_begins() {
        let calls = resolving(&[(2, 53, None), (2, 54, Some(30)), (2, 53, None)]);
        let list = calls.of_host(Endpoint::new(host(2), 80));
        let ends: Vec<_> = (0..3)
            .map(|n| list[n].until(list.get(n + 1), at(20)))
            .collect();
        assert_eq!(ends, [at(1), at(20), at(20)]);
    }
}
