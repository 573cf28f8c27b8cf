//! DNS lookups without a connection after them. If the capture is about nothing else, slow or lost
//! lookups become claims on their resolver. Otherwise they become notes.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use super::Observations;
use super::blank::Blank;
use crate::cause::dns_retry;
use crate::cause::evidence::{self, MATERIAL_SHARE, human, median};
use crate::claim::{Advice, Basis, Claim, Statement};
use crate::exchange::wait::Owner;
use crate::observed::flow::Endpoint;
use crate::preconnect::{Resolved, ResolvedKind};
use crate::protocol::dns;
use crate::registry::Id;
use crate::report::{Affected, EvidenceKind, Remark, Unit, counted};
use crate::stats::histogram::Distribution;

/// Minimum duration of a lookup that the round trip to a nearby resolver cannot explain.
pub(super) const LONG_LOOKUP: Duration = Duration::from_millis(100);

/// A slow lookup takes at least this time beyond the round trip. For a name that is not cached, a
/// resolver needs some round trips to other servers.
const SLOW: Duration = Duration::from_millis(200);
/// Minimum share of the late answers' time that one domain must have to be blamed.
const ONE_DOMAIN: f64 = 0.8;
/// Minimum median time lost to retries over TCP that is reported.
const STREAMED: Duration = Duration::from_millis(20);
/// The id of the remark on lookups that no connection followed.
pub(super) const APART: &str = "lookups-apart";
/// Maximum number of resolvers reported.
const MAX_TOLD: usize = 8;

/// Adds claims and notes on lookups without a connection. Investigations, which run a load, get
/// none.
pub(super) fn add(evidence: &Observations, claims: &mut Vec<Claim>, notes: &mut Vec<Remark>) {
    if !evidence.targets.is_empty() {
        return;
    }
    let is_all = is_all(evidence);
    let mut list: Vec<(&IpAddr, &Resolved)> = evidence.asked.resolved.iter().collect();
    list.sort_by_key(|(resolver, resolved)| (core::cmp::Reverse(resolved.total()), **resolver));
    for (&resolver, resolved) in list.into_iter().take(MAX_TOLD) {
        let found = [
            lost(evidence, resolver, resolved),
            slow(evidence, resolver, resolved),
            streamed(evidence, resolver, resolved),
        ];
        for claim in found.into_iter().flatten() {
            if is_all {
                claims.push(claim)
            } else {
                notes.push(remark(&claim))
            }
        }
        notes.extend(failed(resolver, resolved));
        if is_all {
            notes.push(summary(resolver, resolved));
        }
    }
}

/// Returns true if the capture contains only lookups, and no data of any other service.
fn is_all(evidence: &Observations) -> bool {
    let services = evidence.services.iter();
    let mut others = services.filter(|(at, _)| at.port != dns::PORT);
    others.all(|(_, service)| !service.ledger.has_exchanges() && service.outside.is_none())
}

/// Returns the remark that replaces a claim in a capture that is not only about lookups.
fn remark(claim: &Claim) -> Remark {
    Remark {
        id: APART.to_owned(),
        text: format!(
            "{} No connection followed ({}).",
            claim.text.summary, claim.cause
        ),
    }
}

/// Returns a claim on some of a resolver's lookups, if the time that they lost matters.
fn claim(
    (evidence, resolver, resolved): (&Observations, IpAddr, &Resolved),
    id: Id,
    culprit: Owner,
    lost: &Distribution,
) -> Option<Claim> {
    let cost = u64::try_from(lost.sum_ns()).unwrap_or(u64::MAX);
    let total = resolved.total().max(cost);
    if lost.is_empty() || (cost as f64) < total as f64 * MATERIAL_SHARE {
        return None;
    }
    let blank = Blank::default();
    let case = blank.case(Endpoint::new(resolver, dns::PORT), &evidence.facts);
    let mut claim = evidence::bare_claim(id, culprit, &case);
    claim.unit = Unit::Lookups;
    claim.time.cost_exactly(cost);
    claim.time.wall_ns = cost;
    claim.time.whole_ns = total;
    claim.affected = Affected {
        exchanges: lost.count(),
        of: resolved.lookups,
    };
    Some(claim)
}

/// Returns the claim on queries that were retransmitted.
fn lost(evidence: &Observations, resolver: IpAddr, resolved: &Resolved) -> Option<Claim> {
    let (retried, unanswered) = (&resolved.retried, &resolved.unanswered);
    let mut all = retried.lost.clone();
    all.absorb(unanswered.lost.clone());
    let about = (evidence, resolver, resolved);
    let silent = silent(evidence, resolver, resolved);
    let owner = if silent.is_some() {
        Owner::Resolver
    } else {
        Owner::Path
    };
    let mut claim = claim(about, Id::DnsRetry, owner, &all)?;
    claim.evidence.extend(shown(
        retried,
        format!(
            "{} of {} got an answer{} only after a retry, {} (median) later: {}",
            retried.count(),
            counted(resolved.lookups, "lookup", "lookups"),
            match silent {
                Some(second) => format!(" of {second}, and none of {resolver},"),
                None => format!(" from {resolver}"),
            },
            median(&retried.lost),
            retried.name,
        ),
    ));
    claim.evidence.extend(shown(
        unanswered,
        format!(
            "{} of {} sent to {resolver} repeatedly for {} (median) and never answered: {}",
            unanswered.count(),
            counted(resolved.lookups, "lookup was", "lookups were"),
            median(&unanswered.lost),
            unanswered.name,
        ),
    ));
    if let Some(second) = silent {
        dns_retry::tell_silent_alone(&mut claim, (resolver, second), &all);
        return Some(claim);
    }
    // A resolver that gets no answer from its own upstream servers looks the same: it does not
    // answer either.
    let has_look_alike = unanswered.count() > retried.count() && !resolved.took.is_empty();
    claim.basis = Basis::new(all.count(), has_look_alike);
    claim.text.summary = format!(
        "Queries to the resolver {resolver}, or its answers, are lost: {} of {} waited {} (median) \
         until they were retried{}.",
        all.count(),
        counted(resolved.lookups, "lookup", "lookups"),
        median(&all),
        match unanswered.count() {
            0 => String::new(),
            count => format!(", and {count} got no answer at all"),
        },
    );
    claim.text.overturned_by =
        "a capture at the resolver in which the first query arrives and is answered late".into();
    claim.advice = vec![
        Advice::new(
            "path",
            "find out where packets to UDP port 53 are lost: filter rules, conntrack, the \
             resolver's own drops",
        ),
        Advice::new(
            "client",
            "list a nameserver that answers first in /etc/resolv.conf; `options timeout:1`",
        ),
    ];
    Some(claim)
}

/// Returns the resolver that answered what `resolver` had left unanswered, if that one answered no
/// lookup at all.
fn silent(evidence: &Observations, resolver: IpAddr, resolved: &Resolved) -> Option<IpAddr> {
    let is_silent = resolved.moved == resolved.retried.count()
        && evidence.facts.hosts.nearest(resolver).is_none();
    resolved.second.filter(|_| is_silent)
}

/// Returns the claim on answers that were slow although no packet was lost.
fn slow(evidence: &Observations, resolver: IpAddr, resolved: &Resolved) -> Option<Claim> {
    let nearest = evidence.facts.hosts.nearest(resolver)?;
    let (mut late, mut packets) = (Distribution::default(), Vec::new());
    let mut domains: BTreeMap<u64, (Duration, BTreeSet<u64>)> = BTreeMap::new();
    for waited in &resolved.waited {
        let excess = waited.took.saturating_sub(nearest * waited.names);
        if excess >= SLOW {
            late.record(excess);
            packets.extend(waited.packets.numbers());
            let (sum, names) = domains.entry(waited.domain).or_default();
            *sum += excess;
            names.insert(waited.name);
        }
    }
    // If nearly all of the time belongs to several names of one domain, that domain's own servers
    // may be slow. The server at the end of a DNS tunnel is slow on purpose.
    let several = domains.values().filter(|(_, names)| names.len() > 1);
    let most = several.map(|(sum, _)| sum.as_nanos()).max();
    let is_one_domain = most.unwrap_or_default() as f64 >= late.sum_ns() as f64 * ONE_DOMAIN;
    let about = (evidence, resolver, resolved);
    let mut claim = claim(about, Id::DnsSlowResolver, Owner::Resolver, &late)?;
    let text = format!(
        "{} of {} answered {} (median) later than the round trip to {resolver} ({}) explains, with \
         no query repeated",
        late.count(),
        counted(resolved.lookups, "lookup was", "lookups were"),
        median(&late),
        human(nearest),
    );
    let shown = Statement::shows(EvidenceKind::Wire, text).count(late.count());
    claim.evidence.push(shown.packets(&packets));
    claim.basis = Basis::new(late.count(), is_one_domain);
    claim.text.summary = format!(
        "The resolver {resolver} takes {} (median) longer than the round trip to it for {} of {}: \
         it asks others first.",
        median(&late),
        late.count(),
        counted(resolved.lookups, "lookup", "lookups"),
    );
    claim.text.overturned_by =
        "a second lookup of the same name that takes equally long: then the path is slow".into();
    claim.advice = vec![Advice::new(
        "resolver",
        "make it cache answers for longer, prefetch names in use, or use a nearer upstream",
    )];
    Some(claim)
}

/// Returns the claim on answers that did not fit into a UDP datagram.
fn streamed(evidence: &Observations, resolver: IpAddr, resolved: &Resolved) -> Option<Claim> {
    let streamed = &resolved.streamed;
    let typical = streamed
        .lost
        .quantile(0.5)
        .filter(|&typical| typical >= STREAMED)?;
    let about = (evidence, resolver, resolved);
    let mut claim = claim(about, Id::DnsTcpFallback, Owner::Resolver, &streamed.lost)?;
    claim.evidence.extend(shown(
        streamed,
        format!(
            "{} of {} of {resolver} did not fit into a datagram, and the lookup was repeated over \
             TCP, which took {} (median) more: {}",
            streamed.count(),
            counted(resolved.lookups, "answer", "answers"),
            human(typical),
            streamed.name,
        ),
    ));
    claim.basis = Basis::new(streamed.count(), false);
    claim.text.summary = format!(
        "Answers of the resolver {resolver} do not fit into a datagram, and repeating the lookup \
         over TCP takes {} (median).",
        human(typical),
    );
    claim.text.overturned_by = "the same answers within one datagram".into();
    claim.advice = vec![Advice::new(
        "client",
        "allow larger answers (EDNS, `options edns0`); query fewer records",
    )];
    Some(claim)
}

fn shown(kind: &ResolvedKind, text: String) -> Option<Statement> {
    (kind.count() > 0).then(|| {
        Statement::shows(EvidenceKind::Wire, text)
            .count(kind.count())
            .median(&kind.lost)
            .packets(&kind.packets)
    })
}

/// Returns the remark on lookups that failed at the resolver.
fn failed(resolver: IpAddr, resolved: &Resolved) -> Option<Remark> {
    let failed = &resolved.failed;
    (failed.count() > 0).then(|| Remark {
        id: "dns-failures".to_owned(),
        text: format!(
            "{resolver} could not answer {} of {} (SERVFAIL or REFUSED), after {} (median): {}.",
            failed.count(),
            counted(resolved.lookups, "lookup", "lookups"),
            median(&failed.lost),
            failed.name,
        ),
    })
}

fn summary(resolver: IpAddr, resolved: &Resolved) -> Remark {
    let answered = resolved.took.count();
    let times = resolved.took.max().map_or(String::new(), |most| {
        format!(
            " in {} (median; at most {})",
            median(&resolved.took),
            human(most)
        )
    });
    let total = human(Duration::from_nanos(resolved.total()));
    let outcome = match answered {
        0 => "and answered none".to_owned(),
        _ => format!("which took {total} in total: {answered} answered{times}"),
    };
    Remark {
        id: "lookups".to_owned(),
        text: format!(
            "{resolver} got {} without a connection after it, {outcome}.",
            counted(resolved.lookups, "lookup", "lookups"),
        ),
    }
}
