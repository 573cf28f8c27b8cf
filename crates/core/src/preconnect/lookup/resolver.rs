//! Lookups after which no connection was opened, summed up by resolver.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use super::open::OpenLookup;
use super::{Lookup, Unanswered};
use crate::observed::event::PointId;
use crate::observed::packet::PacketRange;
use crate::protocol::http::fingerprint;
use crate::stats::histogram::Distribution;

/// Maximum number of resolvers distinguished at each observation point.
const MAX_RESOLVERS: usize = 256;
/// Maximum number of lookups per resolver whose times are kept individually; these are the first
/// ones.
const MAX_WAITED: usize = 1024;
/// Maximum number of packet numbers kept for each kind of problem.
const MAX_PACKETS: usize = 6;

/// The lookups at one resolver after which no connection was opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Resolved {
    pub(crate) lookups: u64,
    /// Time from the first query to the last answer, for lookups that were answered.
    pub(crate) took: Distribution,
    /// Time until queries were retried, in lookups that were answered in the end.
    pub(crate) retried: ResolvedKind,
    /// Number of retried lookups that another resolver answered, and the first such resolver.
    pub(crate) moved: u64,
    pub(crate) second: Option<IpAddr>,
    /// Time until queries were retried, in lookups that were never answered.
    pub(crate) unanswered: ResolvedKind,
    /// Time from a truncated answer to the answer over TCP.
    pub(crate) streamed: ResolvedKind,
    /// Lookups that the resolver could not answer (SERVFAIL, REFUSED).
    pub(crate) failed: ResolvedKind,
    /// Waits for answers, in lookups whose queries were sent only once.
    pub(crate) waited: Vec<Waited>,
}

/// The wait for answers in a lookup whose queries were sent only once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waited {
    pub(crate) took: Duration,
    /// Number of names that were queried one after another.
    pub(crate) names: u32,
    pub(crate) packets: PacketRange,
    /// Fingerprints of the name, and of its domain (its last two labels).
    pub(crate) name: u64,
    pub(crate) domain: u64,
}

/// Lookups with the same problem.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ResolvedKind {
    pub(crate) lost: Distribution,
    pub(crate) packets: Vec<u64>,
    /// The name of one such lookup.
    pub(crate) name: String,
}

/// All resolvers of a capture.
#[derive(Clone, Debug, Default)]
pub(super) struct Resolvers {
    list: BTreeMap<(PointId, IpAddr), Resolved>,
}

impl Resolvers {
    /// Processes a completed lookup, unless a connection was opened after it.
    pub(super) fn add_lookup(&mut self, open: &OpenLookup) {
        let key = (open.point, open.resolver());
        let has_room = self.list.len() < MAX_RESOLVERS || self.list.contains_key(&key);
        if open.is_used() || !has_room {
            return;
        }
        let unanswered = open.unanswered();
        if unanswered.is_none() && !open.is_answered() {
            // The question was sent only once, and may be answered after the capture's end.
            return;
        }
        let resolved = self.list.entry(key).or_default();
        resolved.add_lookup(&open.conclude(), unanswered, open.is_failed());
    }

    /// Iterates over the resolvers that were queried.
    pub(super) fn resolvers(&self) -> impl Iterator<Item = IpAddr> {
        self.list.keys().map(|&(_, resolver)| resolver)
    }

    /// Returns the lookups by resolver. Of several observation points, the one that saw most
    /// lookups is used.
    pub(super) fn by_address(self, shows_answers: bool) -> BTreeMap<IpAddr, Resolved> {
        let mut list: BTreeMap<IpAddr, Resolved> = BTreeMap::new();
        for ((_, resolver), mut resolved) in self.list {
            if !shows_answers {
                resolved.unanswered = ResolvedKind::default();
            }
            let known = list.entry(resolver).or_default();
            if resolved.lookups > known.lookups {
                *known = resolved;
            }
        }
        list
    }
}

impl Resolved {
    fn add_lookup(&mut self, lookup: &Lookup, unanswered: Option<Unanswered>, is_failed: bool) {
        self.lookups += 1;
        if let Some(lost) = unanswered {
            self.unanswered.add(lost.took, &lost.name, lookup.packets);
            return;
        }
        self.took.record(lookup.took);
        let name = &lookup.name;
        if !lookup.retried.is_zero() {
            self.retried.add(lookup.retried, name, lookup.packets);
            self.moved += u64::from(lookup.second.is_some());
            self.second = self.second.or(lookup.second);
        }
        if !lookup.streamed.is_zero() {
            self.streamed.add(lookup.streamed, name, lookup.packets);
        }
        if is_failed {
            self.failed.add(lookup.took, name, lookup.packets);
        }
        if let Some(waited) = lookup.waited.filter(|_| self.waited.len() < MAX_WAITED) {
            self.waited.push(Waited {
                took: waited,
                names: lookup.names,
                packets: lookup.packets,
                name: fingerprint(name.as_bytes()),
                domain: fingerprint(domain_of(name)),
            });
        }
    }

    /// Returns the total time of all lookups, in nanoseconds.
    pub(crate) fn total(&self) -> u64 {
        let sum = self.took.sum_ns() + self.unanswered.lost.sum_ns();
        u64::try_from(sum).unwrap_or(u64::MAX)
    }
}

/// Returns the last two labels of `name`.
fn domain_of(name: &str) -> &[u8] {
    let start = name.rmatch_indices('.').nth(1).map_or(0, |(at, _)| at + 1);
    name.as_bytes().get(start..).unwrap_or_default()
}

impl ResolvedKind {
    fn add(&mut self, lost: Duration, name: &str, packets: PacketRange) {
        self.lost.record(lost);
        if self.name.is_empty() {
            name.clone_into(&mut self.name);
        }
        if self.packets.len() < MAX_PACKETS {
            self.packets.extend(packets.numbers());
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.lost.count()
    }
}
