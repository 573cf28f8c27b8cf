//! The books: what each claim takes of the time, in which order, and what nobody claims.

use std::collections::BTreeMap;

use super::account::{self, Booked};
use super::{Observations, Scene, judge, order, tables};
use crate::cause::Case;
use crate::cause::service::Service;
use crate::claim::Claim;
use crate::observed::event::TargetId;
use crate::observed::flow::Endpoint;
use crate::observed::time::nanos;
use crate::report::{Account, Remark};

/// Makes the account of each service except [`TargetId::Twin`]: books its time, lets the claims
/// take theirs, and appends a claim for each place with material unclaimed time. Where it is
/// not known whether anybody waited, a remark says so instead.
pub(super) fn book<'a>(
    scene: &'a Scene<'a>,
    claims: &mut Vec<Claim>,
    notes: &mut Vec<Remark>,
) -> Vec<Account> {
    let observations = scene.observations;
    claims.retain(|claim| !is_short(claim));
    order::rank(claims, observations, |claim| claim.time.cost.likely);
    let cases = observations
        .services
        .iter()
        .filter_map(|(&endpoint, service)| {
            let case = scene.case(endpoint, service, None, None)?;
            (case.target != Some(TargetId::Twin)).then_some((case, service))
        });
    let cases: Vec<_> = cases.collect();
    let elsewhere = elsewhere(observations);
    let opened = |(case, service): &(Case<'_>, &'a Service)| {
        let of_others = elsewhere.get(&case.endpoint).copied().unwrap_or_default();
        Booked::new(
            case.endpoint,
            service,
            case.weight,
            of_others,
            &observations.facts.hosts,
        )
    };
    let mut booked: Vec<Booked<'_>> = cases.iter().map(opened).collect();
    let certainty = |claim: &Claim| judge::certainty(claim, &scene.observed(claim.at));
    account::settle(&mut booked, claims, certainty);
    order::rank(claims, observations, |claim| {
        account::weight(claim, &booked)
    });
    order::put_queue_behind(claims, |claim| account::claims_most(claim, &booked));
    let whole = account::whole(&booked);
    let mut places = Vec::new();
    for ((case, _), booked) in cases.iter().zip(&booked) {
        places.extend(account::locate(case, booked, whole, claims, certainty));
        notes.extend(account::owed_unknown(booked, whole));
    }
    if let Some((case, _)) = cases.iter().find(|(case, _)| case.target.is_some()) {
        let experiments = tables::experiments(&observations.facts);
        let bare = || account::unknown(case);
        account::tried(&experiments, case.endpoint, claims, &mut places, bare);
    }
    let subject = |(case, _): &&(Case<'_>, &Service)| case.target == Some(TargetId::Subject);
    places.extend(
        cases
            .iter()
            .find(subject)
            .and_then(|(case, _)| account::resolution(case)),
    );
    places.sort_by_key(|place| core::cmp::Reverse(place.time.cost.likely));
    for place in places {
        let at = order::rank_of_place(claims, &place, |claim| account::weight(claim, &booked));
        claims.insert(at, place);
    }
    let with_time = booked.into_iter().filter(|booked| booked.total() > 0);
    with_time.map(|booked| booked.account).collect()
}

/// Returns true if the claim says only where a short time passed that is a small part of all: as
/// such time that nobody claims, it is no finding.
fn is_short(claim: &Claim) -> bool {
    let each = claim.time.cost.likely / claim.affected.exchanges.max(1);
    claim.cause.cause().says_only_where
        && claim.time.cost.likely > 0
        && each < nanos(account::NOTICED)
        && claim.time.share() < account::NOTICED_SHARE
}

/// Returns, for each address, the time for which connections to other addresses waited for attempts
/// at it, in nanoseconds.
pub(super) fn elsewhere(observations: &Observations) -> BTreeMap<Endpoint, u64> {
    let mut sums: BTreeMap<Endpoint, u64> = BTreeMap::new();
    for service in observations.services.values() {
        for (address, time) in service
            .rules
            .ipv6_fallback
            .waited(&observations.facts.hosts)
            .1
        {
            let sum = sums.entry(address).or_default();
            *sum = sum.saturating_add(time);
        }
    }
    sums
}
