//! The rule of the cause `dns-retry`.

use super::delays::Delays;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim};
use crate::connection::Setup;
use crate::exchange::wait::Owner;
use crate::preconnect::LostQueries;
use crate::report::counted;
use crate::stats::Merge;

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
    /// Number of lookups of which a retry was answered at once.
    at_once: u64,
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
        self.at_once += u64::from(lookup.answered_after_retry * AT_ONCE <= lookup.retried);
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

    fn claim(&self, case: &Case<'_>) -> Claim {
        let mut claim = self.all.claim(Id::DnsRetry, Owner::Path, case);
        claim.affected.of = self.lookups;
        let text = format!(
            "in {} of {} a query was retried because no answer had come, {} (median) later",
            self.all.count(),
            counted(self.lookups, "lookup", "lookups"),
            self.all.median(),
        );
        claim.evidence.push(self.all.evidence(text));
        // A few answers of a slow resolver come at once by chance.
        let may_be_slow = self.at_once * 2 < self.all.count();
        claim.basis = Basis::new(self.all.count(), may_be_slow);
        let wording = if may_be_slow { &MAY_BE_SLOW } else { &WORDING };
        wording.tell(&mut claim, &[("waited", &self.all.median())]);
        claim
    }
}
