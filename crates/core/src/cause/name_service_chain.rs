//! `name-service-chain`: the client first queries the name on the link (multicast DNS, LLMNR). Only
//! after no host has answered, it queries its resolver. Unlike other work of the name service
//! library, these queries are visible in packets.

use super::delays::Delays;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim};
use crate::connection::Setup;
use crate::exchange::wait::Owner;
use crate::report::counted;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The client asks for the name of {service} on its own link first ({how}) and waits \
        {waited} (median) for an answer that does not come before it asks its resolver.",
    ruled_out: &[(Id::DnsSlowResolver, "the resolver had not been asked yet")],
    overturned_by: "a lookup that takes equally long with `hosts: files dns` in /etc/nsswitch.conf",
    fix: &[
        (
            "client",
            "`LLMNR=no` in /etc/systemd/resolved.conf (Windows: the policy that turns off multicast name resolution)",
        ),
        (
            "client",
            "ask for the full name, with its domain: only single labels go to the link",
        ),
    ],
};

/// The wording for queries by multicast DNS.
const MULTICAST: Wording = Wording {
    fix: &[
        (
            "client",
            "`hosts: files dns` in /etc/nsswitch.conf, or `mdns4_minimal [NOTFOUND=return]`, which asks the link for .local only",
        ),
        (
            "client",
            "no names below .local for hosts that the resolver knows",
        ),
    ],
    ..WORDING
};

/// Watches lookups that came after unanswered queries on the link.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    lookups: u64,
    delays: Delays,
    llmnr: u64,
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        let Some(approach) = setup.approach.as_ref().filter(|a| a.lookup.is_some()) else {
            return;
        };
        self.lookups += 1;
        if let Some(chain) = &approach.chain {
            self.delays.add(chain.took, &chain.packets.numbers());
            self.llmnr += u64::from(chain.is_llmnr);
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        self.delays.conclude(case, || self.claim(case))
    }
}

impl Rule {
    fn claim(&self, case: &Case<'_>) -> Claim {
        let mut claim = self.delays.claim(Id::NameServiceChain, Owner::Client, case);
        claim.affected.of = self.lookups;
        let is_llmnr = self.llmnr * 2 > self.delays.count();
        let how = if is_llmnr { "LLMNR" } else { "multicast DNS" };
        let text = format!(
            "before {} of {} the client asked its link for the same name by {how}, nobody \
             answered, and its resolver was asked only {} (median) later",
            self.delays.count(),
            counted(self.lookups, "lookup", "lookups"),
            self.delays.median(),
        );
        claim.evidence.push(self.delays.evidence(text));
        claim.basis = Basis::new(self.delays.count(), false);
        let wording = if is_llmnr { &WORDING } else { &MULTICAST };
        wording.tell(
            &mut claim,
            &[("how", &how), ("waited", &self.delays.median())],
        );
        claim
    }
}
