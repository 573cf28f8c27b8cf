//! The rule of the cause `dns-parallel-query-loss`.

use super::wording::Wording;
use super::{Case, Conclusion, Id, dns_retry};
use crate::claim::{Basis, Claim};
use crate::connection::Setup;
use crate::exchange::wait::Owner;
use crate::report::counted;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "Of the queries for A and AAAA that leave one socket in parallel, the second is lost. \
        The library has an address and waits {waited} (median) for the other answer.",
    ruled_out: &[
        (
            Id::DnsRetry,
            "chance would lose the first query as often as the second",
        ),
        (
            Id::DnsSlowResolver,
            "the first query was answered immediately",
        ),
    ],
    overturned_by: "lookups in which the first query is lost, or in which the lost query was the \
                    only one from its socket",
    fix: &[
        (
            "client",
            "`options single-request-reopen` in /etc/resolv.conf (glibc), or `use-vc`",
        ),
        (
            "path",
            "a resolver cache on the host, so that queries do not pass through NAT; see \
             insert_failed in `conntrack -S`",
        ),
    ],
};

/// Watches lookups that repeatedly lose the second of two queries and never the first. Random loss
/// would affect either.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    lookups: dns_retry::Rule,
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        self.lookups.observe_setup(setup);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        if self.lookups.is_parallel() {
            self.lookups.second.conclude(case, || self.claim(case))
        } else {
            Conclusion::Nothing
        }
    }
}

impl Rule {
    fn claim(&self, case: &Case<'_>) -> Claim {
        let (delays, of) = (&self.lookups.second, self.lookups.lookups());
        let mut claim = delays.claim(Id::DnsParallelQueryLoss, Owner::Path, case);
        claim.affected.of = of;
        let text = format!(
            "in {} of {} two queries left one socket together; the first was answered immediately, \
             the second only when retried {} (median) later",
            delays.count(),
            counted(of, "lookup", "lookups"),
            delays.median(),
        );
        claim.evidence.push(delays.evidence(text));
        claim.basis = Basis::new(delays.count(), false);
        WORDING.tell(&mut claim, &[("waited", &delays.median())]);
        claim
    }
}
