//! `ipv6-fallback`.

use core::time::Duration;

use super::delays::Delays;
use super::evidence::{self};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::connection::Setup;
use crate::exchange::wait::Owner;
use crate::report::Finding;

const WORDING: Wording = Wording {
    summary: "The server's name has an IPv6 address from which nothing comes back. The client \
        tries it first and falls back to {service} {waited} (median) later.",
    ruled_out: &[(
        Id::SynLoss,
        "every SYN to the IPv6 address stayed unanswered, but SYNs to the IPv4 address were \
         answered",
    )],
    overturned_by: "a connection over IPv6 to the same server that succeeds",
    fix: &[
        (
            "path or server",
            "make the IPv6 address work (firewall, route, listener on [::]), or withdraw its AAAA \
             record",
        ),
        (
            "client",
            "prefer IPv4 until then: `precedence ::ffff:0:0/96 100` in /etc/gai.conf; race addresses (RFC 8305)",
        ),
    ],
};

/// Minimum number of attempts that are matched only by their similarity, without a lookup of both
/// addresses.
const NAMELESS: u64 = 5;
/// Maximum spread of the client's wait in such attempts: the client's own timer is that constant.
const SPREAD: Duration = Duration::from_millis(20);

/// Watches connections to an IPv4 address that began only after a SYN to the same server's IPv6
/// address had remained unanswered. One lookup of both addresses ties them together; without such a
/// lookup there must be many attempts with equal delays.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rule {
    named: Delays,
    nameless: Delays,
    syns: u32,
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        let approach = setup.approach.as_ref();
        let Some(elsewhere) = approach.and_then(|approach| approach.elsewhere) else {
            return;
        };
        self.syns = self.syns.max(elsewhere.syns);
        let delays = if elsewhere.is_same_name {
            &mut self.named
        } else {
            &mut self.nameless
        };
        delays.add(
            elsewhere.took,
            &[elsewhere.first_packet, setup.first_packet],
        );
    }

    fn merge(&mut self, other: Self) {
        self.named.merge(other.named);
        self.nameless.merge(other.nameless);
        self.syns = self.syns.max(other.syns);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let mut delays = self.named.clone();
        let spread = |d: &Delays| {
            let of = |q| d.lost.quantile(q).unwrap_or_default();
            of(1.0).saturating_sub(of(0.0))
        };
        if self.nameless.count() >= NAMELESS && spread(&self.nameless) <= SPREAD {
            delays.merge(self.nameless.clone());
        }
        delays.conclude(case, || self.finding(case, &delays))
    }
}

impl Rule {
    fn finding(&self, case: &Case<'_>, delays: &Delays) -> Finding {
        let mut finding = delays.finding(Id::Ipv6Fallback, Owner::Path, case);
        let text = format!(
            "{} connections began {} (median) after a SYN to the server's IPv6 address that nothing \
             answered; up to {} SYNs were sent there first",
            delays.count(),
            delays.median(),
            self.syns
        );
        finding.evidence.push(delays.evidence(text));
        finding.verdict = evidence::judge(&finding.evidence, delays.count(), false);
        WORDING.tell(&mut finding, &[("waited", &delays.median())]);
        finding
    }
}
