//! The rule of the cause `dns-tcp-fallback`.

use super::delays::Delays;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim};
use crate::connection::Setup;
use crate::exchange::wait::Owner;
use crate::report::counted;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The DNS answer for the name of {service} does not fit into the largest datagram that \
        the client accepts: the lookup is repeated over TCP, which adds a handshake and a second \
        query.",
    ruled_out: &[(Id::DnsRetry, "every query was answered")],
    overturned_by: "answers over TCP that come no later than the datagrams",
    fix: &[
        (
            "client",
            "`options edns0` in /etc/resolv.conf, so that 1232 bytes fit into a datagram",
        ),
        (
            "resolver",
            "shorten the answer: fewer aliases (CNAME) and addresses for the name",
        ),
    ],
};

/// Watches lookups that were repeated over TCP because the response did not fit into a datagram (TC
/// bit).
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    lookups: u64,
    delays: Delays,
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        let Some(lookup) = setup.lookup() else {
            return;
        };
        self.lookups += 1;
        if !lookup.streamed.is_zero() {
            self.delays.add(lookup.streamed, &lookup.packets.numbers());
        }
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        self.delays.conclude(case, || self.claim(case))
    }
}

impl Rule {
    fn claim(&self, case: &Case<'_>) -> Claim {
        let mut claim = self.delays.claim(Id::DnsTcpFallback, Owner::Resolver, case);
        claim.affected.of = self.lookups;
        let text = format!(
            "{} of {} got a truncated answer (TC) and were repeated over TCP, which took {} \
             (median)",
            self.delays.count(),
            counted(self.lookups, "lookup", "lookups"),
            self.delays.median(),
        );
        claim.evidence.push(self.delays.evidence(text));
        claim.basis = Basis::new(self.delays.count(), false);
        WORDING.tell(&mut claim, &[]);
        claim
    }
}
