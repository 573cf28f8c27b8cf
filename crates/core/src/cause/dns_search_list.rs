//! The rule of the cause `dns-search-list`.

use super::delays::Delays;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim};
use crate::connection::Setup;
use crate::exchange::wait::Owner;
use crate::observed::time::nanos;
use crate::report::counted;
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

const WORDING: Wording = Wording {
    summary: "Before the name of {service} itself, the client's library asks for it with {names} \
        suffixes of its search list. Each is a round trip to the resolver that ends in \"no \
        such name\".",
    ruled_out: &[(
        Id::DnsSlowResolver,
        "the time went into the number of queries; each was answered as fast as the others",
    )],
    overturned_by: "lookups that take equally long with a trailing dot after the name",
    fix: &[
        (
            "client",
            "write the name with a trailing dot (`www.example.com.`)",
        ),
        (
            "client",
            "`options ndots:1` and a shorter `search` in /etc/resolv.conf (Kubernetes: dnsConfig)",
        ),
    ],
};

/// Watches lookups that began with nonexistent names. The client appends each suffix of its search
/// list to the name, one after the other, until a name exists.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    lookups: u64,
    delays: Delays,
    /// Numbers of nonexistent names. One nanosecond means one name.
    suffixes: Distribution,
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        let Some(lookup) = setup.lookup() else {
            return;
        };
        self.lookups += 1;
        if lookup.suffixes == 0 {
            return;
        }
        // Time for which lost queries delayed the lookup belongs to another cause.
        let searched = lookup.searched.saturating_sub(lookup.retried);
        self.delays.add(searched, &lookup.packets.numbers());
        self.suffixes
            .record(core::time::Duration::from_nanos(lookup.suffixes.into()));
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        self.delays.conclude(case, || self.claim(case))
    }
}

impl Rule {
    fn claim(&self, case: &Case<'_>) -> Claim {
        let mut claim = self.delays.claim(Id::DnsSearchList, Owner::Client, case);
        claim.affected.of = self.lookups;
        let names = nanos(self.suffixes.quantile(0.5).unwrap_or_default());
        let text = format!(
            "in {} of {} the client first asked for {} (median) that do not exist; this took {} \
             (median)",
            self.delays.count(),
            counted(self.lookups, "lookup", "lookups"),
            counted(names, "name", "names"),
            self.delays.median(),
        );
        claim.evidence.push(self.delays.evidence(text));
        claim.basis = Basis::new(self.delays.count(), false);
        WORDING.tell(&mut claim, &[("names", &names)]);
        claim
    }
}
