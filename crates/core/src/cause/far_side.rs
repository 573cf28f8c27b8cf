//! The capture nearer to the servers, if two captures contain the same connections.
//!
//! The requests to diagnose are those of the capture near the clients. The other one saw each of
//! them as well, and what the servers' hosts called while the clients waited.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use super::calls::CallTraces;
use super::service::Service;
use crate::observed::event::PointId;
use crate::observed::flow::Endpoint;
use crate::observed::time::Timestamp;
use crate::preconnect::ResolverWait;
use crate::service::LateAttempt;
use crate::service::far_names::FarNames;
use crate::service::timeline::Moment;

/// Requests and calls that the capture near the servers shows, in the names and on the clock of the
/// other one.
#[derive(Debug, Default)]
pub struct FarSide {
    /// The requests that both captures saw, by their servers.
    pub(crate) shared: BTreeMap<Endpoint, Vec<Moment>>,
    /// The other requests, by their servers.
    pub(crate) calls: BTreeMap<Endpoint, Vec<Moment>>,
    pub(crate) traces: CallTraces,
}

impl FarSide {
    /// Translates what the capture shows: the requests to `services`, and what else shows calls.
    pub(crate) fn new(
        services: &BTreeMap<Endpoint, Service>,
        traces: &CallTraces,
        near: &FarNames,
    ) -> Self {
        let mut far_side = Self {
            traces: translated(traces, near),
            ..Self::default()
        };
        for (&server, service) in services {
            let (moments, elsewhere) = service.timeline.sorted();
            for one in moments.iter().chain(&elsewhere) {
                let is_shared = near.has(one.client, server);
                let list = if is_shared {
                    &mut far_side.shared
                } else {
                    &mut far_side.calls
                };
                let list = list.entry(near.end(server)).or_default();
                list.push(moment(one, near));
            }
        }
        far_side
    }
}

fn translated(traces: &CallTraces, near: &FarNames) -> CallTraces {
    let attempts = traces.late.iter();
    let own = attempts.filter(|(to, late)| !near.has(late.client, *to));
    let end = |(to, rtt): (&Endpoint, &Duration)| (near.end(*to), *rtt);
    let until = |(to, at): (&Endpoint, &Timestamp)| (near.end(*to), near.at(*at));
    let local = |(point, addr): &(PointId, IpAddr)| (*point, near.host(*addr));
    CallTraces {
        late: own
            .map(|(to, late)| (near.end(*to), attempt(late, near)))
            .collect(),
        waits: traces
            .waits
            .iter()
            .map(|wait| resolving(wait, near))
            .collect(),
        local: traces.local.iter().map(local).collect(),
        rtts: traces.rtts.iter().map(end).collect(),
        kept_until: traces.kept_until.iter().map(until).collect(),
    }
}

fn moment(of: &Moment, near: &FarNames) -> Moment {
    Moment {
        begin: near.at(of.begin),
        client: near.end(of.client),
        sent: near.at(of.sent),
        asked: near.at(of.asked),
        answered: near.at(of.answered),
        resumed: near.at(of.resumed),
        end: near.at(of.end),
        ..*of
    }
}

fn attempt(of: &LateAttempt, near: &FarNames) -> LateAttempt {
    LateAttempt {
        begin: near.at(of.begin),
        end: of.end.map(|end| near.at(end)),
        client: near.end(of.client),
        ..*of
    }
}

fn resolving(of: &ResolverWait, near: &FarNames) -> ResolverWait {
    ResolverWait {
        begin: near.at(of.begin),
        end: of.end.map(|end| near.at(end)),
        client: near.host(of.client),
        ..*of
    }
}
