//! The rule of the cause `dns-slow-resolver`.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeMap;

use super::delays::Delays;
use super::evidence::human;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim};
use crate::connection::Setup;
use crate::exchange::wait::Owner;
use crate::observed::packet::PacketRange;
use crate::report::counted;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The resolver takes {late} (median) to resolve the name of {service}: it does not \
        have the answer yet and asks others first.",
    ruled_out: &[
        (
            Id::PathDistance,
            "the resolver answered other queries within its round-trip time",
        ),
        (Id::DnsRetry, "no query was sent twice"),
    ],
    overturned_by: "a second lookup of the same name that takes equally long: then the path is \
                    slow",
    fix: &[
        (
            "resolver",
            "make it cache answers for longer, prefetch names in use, or use a nearer upstream",
        ),
        ("client", "keep connections open; a cache on the host"),
    ],
};

/// Maximum number of lookups kept. These are the first ones.
const MAX_LOOKUPS: usize = 4096;
/// A late response takes at least this time beyond the round trip. A resolver answers from its
/// cache within a millisecond, and a busy one, or one that asks a server nearby, within some.
const LATE: Duration = Duration::from_millis(20);

/// Watches the response times of queries that were not retransmitted. A response is late if it
/// takes at least twice the round trip to the resolver, and at least [`LATE`] longer than the round
/// trip. The resolver's quickest response or its SYN/ACK shows the round trip.
#[derive(Clone, Debug, Default, Merge)]
#[merge(then = Self::bound)]
pub(crate) struct Rule {
    #[merge(extend)]
    lookups: BTreeMap<u64, Waited>,
}

#[derive(Clone, Copy, Debug)]
struct Waited {
    resolver: IpAddr,
    waited: Duration,
    names: u32,
    packets: PacketRange,
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        let Some(lookup) = setup.lookup() else {
            return;
        };
        if let Some(waited) = lookup.waited {
            let waited = Waited {
                resolver: lookup.resolver,
                waited,
                names: lookup.names,
                packets: lookup.packets,
            };
            self.lookups.insert(setup.syns.packets.first, waited);
            self.bound();
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let mut delays = Delays::default();
        let mut distance = Duration::ZERO;
        for lookup in self.lookups.values() {
            let Some(nearest) = case.facts.hosts.nearest(lookup.resolver) else {
                continue;
            };
            let excess = lookup.waited.saturating_sub(nearest * lookup.names);
            if excess >= LATE * lookup.names && excess >= nearest * lookup.names {
                delays.add(excess, &lookup.packets.numbers());
                distance = distance.max(nearest);
            }
        }
        delays.conclude(case, || self.claim(case, &delays, distance))
    }
}

impl Rule {
    fn bound(&mut self) {
        while self.lookups.len() > MAX_LOOKUPS {
            self.lookups.pop_last();
        }
    }

    fn claim(&self, case: &Case<'_>, delays: &Delays, distance: Duration) -> Claim {
        let mut claim = delays.claim(Id::DnsSlowResolver, Owner::Resolver, case);
        let of = self.lookups.len() as u64;
        claim.affected.of = of;
        let text = format!(
            "{} of {} answered {} (median) later than the round trip to the resolver ({}) \
             explains, with no query repeated",
            delays.count(),
            counted(of, "lookup was", "lookups were"),
            delays.median(),
            human(distance),
        );
        claim.evidence.push(delays.evidence(text));
        claim.basis = Basis::new(delays.count(), false);
        WORDING.tell(&mut claim, &[("late", &delays.median())]);
        claim
    }
}
