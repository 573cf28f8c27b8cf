//! The claims of all rules, and those that other observations make.

use super::blank::Blank;
use super::{Observations, Scene, dead_peers, icmp_errors, kernel_join, lookups, outside, streams};
use crate::cause::behind::Behind;
use crate::cause::upstream::Upstream;
use crate::cause::{self, Conclusion};
use crate::claim::Claim;
use crate::connection::SetupOutcome;
use crate::observed::event::TargetId;
use crate::observed::flow::Endpoint;
use crate::preconnect::Silent;
use crate::report::{PassedOn, Remark};

/// The claims and remarks of rules and of other observations, not yet related.
#[derive(Default)]
pub(super) struct Claims {
    pub(super) list: Vec<Claim>,
    pub(super) notes: Vec<Remark>,
    /// The requests that proxies passed on.
    pub(super) passed_on: Vec<PassedOn>,
}

/// Returns the claims of all rules on each service, and those that no rule makes: on hosts, on data
/// outside of exchanges, and on lookups that no connection followed.
pub(super) fn claims(scene: &Scene<'_>) -> Claims {
    let observations = scene.observations;
    let mut claims = of_rules(scene);
    claims.list.extend(silent(observations));
    outside::add(observations, &mut claims.list);
    dead_peers::add(observations, &mut claims.list);
    icmp_errors::add(observations, &mut claims.list, &mut claims.notes);
    lookups::add(observations, &mut claims.list, &mut claims.notes);
    claims
}

fn of_rules(scene: &Scene<'_>) -> Claims {
    let observations = scene.observations;
    let Claims {
        mut list,
        mut notes,
        mut passed_on,
    } = Claims::default();
    for (&endpoint, service) in &observations.services {
        let upstream = Upstream::of(endpoint, &scene.rhythms);
        if let Some(upstream) = &upstream {
            let room = PassedOn::MAX.saturating_sub(passed_on.len());
            passed_on.extend(upstream.passed_on(endpoint).take(room));
        }
        let rhythm = scene.rhythms.get(&endpoint);
        let behind = rhythm.and_then(|rhythm| Behind::of(endpoint, rhythm, &scene.calls));
        let Some(case) = scene.case(endpoint, service, upstream.as_ref(), behind.as_ref()) else {
            continue;
        };
        notes.extend(kernel_join::remarks(&case, &service.served));
        notes.extend(streams::remarks(endpoint, &service.ledger));
        for conclusion in service.rules.conclude(&case) {
            let claim = match conclusion {
                Conclusion::Nothing => None,
                Conclusion::Note(remark) => {
                    notes.push(remark);
                    None
                }
                Conclusion::Claim(claim) => {
                    let weighed = kernel_join::weigh(*claim, &service.served);
                    weighed.map_err(|remark| notes.push(remark)).ok()
                }
            };
            match case.target {
                Some(TargetId::Twin) => notes.extend(claim.as_ref().map(twin_remark)),
                _ => list.extend(claim),
            }
        }
    }
    Claims {
        list,
        notes,
        passed_on,
    }
}

fn twin_remark(claim: &Claim) -> Remark {
    Remark {
        id: "twin-finding".to_owned(),
        text: format!(
            "The control {} is not healthy: {} ({}).",
            claim.service(),
            claim.text.title,
            claim.cause
        ),
    }
}

/// Returns the claims on hosts whose hardware address the kernel could not find. Only hosts that
/// the capture is about get a claim: on any link, kernels still search for hosts that are long
/// gone.
fn silent(observations: &Observations) -> Vec<Claim> {
    let servers = || observations.services.keys().map(|endpoint| endpoint.addr);
    // If there are connections, the capture is about their servers, and other silent hosts do not
    // matter.
    let is_missed = observations.tallied.connections > 0 || !observations.services.is_empty();
    let is_meant = |addr| !is_missed || servers().any(|server| server == addr);
    // The hardware address of a host that accepts connections is known.
    let is_alive = |addr| {
        let mut services = observations
            .services
            .iter()
            .filter(|(at, _)| at.addr == addr);
        services.any(|(_, service)| {
            let setups = &service.ledger.setups.outcomes;
            service.ledger.has_exchanges() || setups.of(SetupOutcome::Established) > 0
        })
    };
    let meant = observations.silent.iter();
    let meant = meant.filter(|host| is_meant(host.target) && !is_alive(host.target));
    let blank = Blank::default();
    let claim = |host: &Silent| {
        let case = blank.case(Endpoint::new(host.target, 0), &observations.facts);
        cause::neighbour_silent(&case, host, is_missed)
    };
    meant.map(claim).collect()
}
