//! The rule of the cause `dns-retry`.

use core::net::IpAddr;

use super::delays::Delays;
use super::evidence::median;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim};
use crate::connection::Setup;
use crate::exchange::wait::Owner;
use crate::preconnect::LostQueries;
use crate::report::counted;
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

const WORDING: Wording = Wording {
    summary: "Queries for the name of {service}, or their answers, are lost. Only the program's \
              resolver library can repeat a lost query, and it waits {waited} (median) before it \
              does.",
    ruled_out: &[
        (
            Id::DnsSlowResolver,
            "the retried query was answered immediately",
        ),
        (
            Id::DnsParallelQueryLoss,
            "the lost query is not always the second of two from one socket",
        ),
    ],
    overturned_by: "a capture at the resolver in which the first query arrives and is answered \
                    late",
    fix: &[
        (
            "path",
            "find out where packets to UDP port 53 are lost: `conntrack -S`, filter rules, the \
             resolver's own drops",
        ),
        (
            "client",
            "`options timeout:1 attempts:3` in /etc/resolv.conf; a second nameserver",
        ),
        (
            "client",
            "a cache on the host (systemd-resolved, dnsmasq, NodeLocal DNSCache)",
        ),
    ],
};

/// The wording if the answers came so late after the retries that they may answer the first queries.
const MAY_BE_SLOW: Wording = Wording {
    summary: "Queries for the name of {service}, or their answers, are lost, or the resolver takes \
              longer than the program's resolver library waits ({waited}, median) before it asks \
              again.",
    ruled_out: &[(
        Id::DnsParallelQueryLoss,
        "the retried query is not always the second of two from one socket",
    )],
    ..WORDING
};

/// The wording if a resolver answered nothing, and the one that was asked next answered.
const SILENT: Wording = Wording {
    summary: "The resolver {first}, which is asked first for the name of {service}, does not answer. \
              The program's resolver library waits {waited} (median), and then asks {second}, which \
              answers.",
    ruled_out: &[(
        Id::DnsSlowResolver,
        "{first} answered no query at all, and {second} those that it got",
    )],
    overturned_by: "an answer of {first} to any query",
    fix: &[
        (
            "resolver",
            "find out why {first} does not answer: is it up, does a firewall drop queries to it",
        ),
        (
            "client",
            "take {first} out of /etc/resolv.conf, or list it last; `options timeout:1`",
        ),
    ],
};

/// The wording for lookups that no connection followed.
const SILENT_ALONE: Wording = Wording {
    summary: "The resolver {first}, which is asked first, does not answer. The client waits {waited} \
              (median), and then asks {second}, which answers.",
    ..SILENT
};

/// The answer to a retry comes at once if it takes less than this part of the wait before the retry.
/// A resolver that is slower than the wait answers the first query at any time after the retry.
const AT_ONCE: u32 = 10;

/// Minimum number of lookups that lost only the second of two queries for
/// `dns-parallel-query-loss`. Random loss would affect the first query in half of the cases.
const ALWAYS_SECOND: u64 = 3;

/// Watches lookups whose queries were retransmitted.
///
/// If first and second queries are lost alike, the path or the resolver is the reason. If only the
/// second of two queries from one socket is ever lost, the cause is `dns-parallel-query-loss`.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    lookups: u64,
    pub(super) all: Delays,
    /// The lookups in which only the second of two queries was lost.
    pub(super) second: Delays,
    /// Number of lookups of which a retry was answered at once, by the resolver that was asked first.
    at_once: u64,
    /// Number of lookups of which another resolver answered the retry, and the least pair of first
    /// and second one.
    moved: u64,
    #[merge(least)]
    resolvers: Option<(IpAddr, IpAddr)>,
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        let Some(lookup) = setup.lookup() else {
            return;
        };
        self.lookups += 1;
        match lookup.lost {
            LostQueries::Nothing => return,
            LostQueries::SecondOfTwo => self.second.add(lookup.retried, &lookup.packets.numbers()),
            LostQueries::Something => {}
        }
        let is_at_once = lookup.answered_after_retry * AT_ONCE <= lookup.retried;
        match lookup.second {
            None => self.at_once += u64::from(is_at_once),
            Some(second) => {
                let pair = (lookup.resolver, second);
                self.moved += 1;
                self.resolvers = Some(self.resolvers.map_or(pair, |known| known.min(pair)));
            }
        }
        self.all.add(lookup.retried, &lookup.packets.numbers());
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        if self.is_parallel() {
            Conclusion::Nothing
        } else {
            self.all.conclude(case, || self.claim(case))
        }
    }
}

impl Rule {
    /// Returns true if `dns-parallel-query-loss` explains the losses.
    pub(super) fn is_parallel(&self) -> bool {
        self.second.count() >= ALWAYS_SECOND && self.second.count() == self.all.count()
    }

    pub(super) fn lookups(&self) -> u64 {
        self.lookups
    }

    /// Returns the resolver that answered nothing, and the one that was asked next and answered, if
    /// that is so of all retried lookups.
    fn silent(&self, case: &Case<'_>) -> Option<(IpAddr, IpAddr)> {
        let (first, second) = self.resolvers.filter(|_| self.moved == self.all.count())?;
        case.facts
            .hosts
            .nearest(first)
            .is_none()
            .then_some((first, second))
    }

    fn claim(&self, case: &Case<'_>) -> Claim {
        let silent = self.silent(case);
        let owner = if silent.is_some() {
            Owner::Resolver
        } else {
            Owner::Path
        };
        let mut claim = self.all.claim(Id::DnsRetry, owner, case);
        claim.affected.of = self.lookups;
        let text = format!(
            "in {} of {} a query was retried because no answer had come, {} (median) later",
            self.all.count(),
            counted(self.lookups, "lookup", "lookups"),
            self.all.median(),
        );
        claim.evidence.push(self.all.evidence(text));
        if let Some(resolvers) = silent {
            tell_silent(&mut claim, &SILENT, resolvers, &self.all.lost);
            return claim;
        }
        // A few answers of a slow resolver come at once by chance.
        let may_be_slow = self.at_once * 2 < self.all.count();
        claim.basis = Basis::new(self.all.count(), may_be_slow);
        let wording = if may_be_slow { &MAY_BE_SLOW } else { &WORDING };
        wording.tell(&mut claim, &[("waited", &self.all.median())]);
        claim
    }
}

/// Adds the texts on a resolver that is silent, and on the second one, to the claim on lookups without a
/// connection.
pub(crate) fn tell_silent_alone(
    claim: &mut Claim,
    resolvers: (IpAddr, IpAddr),
    lost: &Distribution,
) {
    tell_silent(claim, &SILENT_ALONE, resolvers, lost);
}

fn tell_silent(
    claim: &mut Claim,
    wording: &Wording,
    (first, second): (IpAddr, IpAddr),
    lost: &Distribution,
) {
    claim.basis = Basis::new(lost.count(), false);
    let waited = median(lost);
    wording.tell(
        claim,
        &[("first", &first), ("second", &second), ("waited", &waited)],
    );
}
