//! The rule of the cause `ipv6-fallback`.

use core::time::Duration;
use std::collections::BTreeMap;

use super::delays::Delays;
use super::evidence;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::connection::Setup;
use crate::exchange::wait::Owner;
use crate::facts::Hosts;
use crate::observed::event::{OtherAddress, ProbeAnswer};
use crate::observed::flow::Endpoint;
use crate::observed::time::nanos;
use crate::preconnect::Elsewhere;
use crate::report::{EvidenceKind, counted};
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The server's name has an IPv6 address that does not answer. The client tries it \
              first and, after {waited} (median), falls back to {service}.",
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

/// The wording for our own attempts at an address that our requests did not use.
const PROBED: Wording = Wording {
    summary: "The name has an IPv6 address, {silent}, that does not answer, while {service} does. Our \
              requests used IPv4 and did not pay for it. A client that tries IPv6 first waits 250 ms \
              for each connection if it races addresses (RFC 8305), and otherwise until its connect \
              times out, after minutes on Linux if it sets no limit.",
    ruled_out: &[(
        Id::FirewallDrop,
        "the IPv4 address of the same name answered",
    )],
    ..WORDING
};

/// Minimum number of attempts for a claim without a lookup of both addresses. Only equal delays
/// then show that the attempts belong together.
const NAMELESS: u64 = 5;
/// Maximum number of IPv6 addresses kept for one server.
const MOST_ADDRESSES: usize = 64;
/// Maximum spread of the delays of attempts without a lookup. A client's timer varies by less.
const SPREAD: Duration = Duration::from_millis(20);

/// Watches connections to an IPv4 address that began only after a SYN to the same server's IPv6
/// address had got no answer. A lookup of both addresses connects the two attempts. Without such a
/// lookup, there must be many attempts with equal delays.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule {
    named: Attempts,
    nameless: Attempts,
    #[merge(max)]
    syns: u32,
}

/// Attempts at IPv6 addresses, by address.
#[derive(Clone, Debug, Default)]
struct Attempts {
    of: BTreeMap<Endpoint, Attempted>,
}

/// Attempts at one IPv6 address.
#[derive(Clone, Debug, Default, Merge)]
struct Attempted {
    /// The delays of the connections that followed.
    delays: Delays,
    /// The part of the time, in nanoseconds, that the address's account already contains as SYN
    /// retransmissions.
    repeating: u64,
}

impl Merge for Attempts {
    fn merge(&mut self, other: Self) {
        let Self { of } = other;
        for (server, attempted) in of {
            self.add(server, attempted);
        }
    }
}

impl Attempts {
    fn add_attempts(&mut self, elsewhere: &Elsewhere, setup: &Setup) {
        let mut attempted = Attempted::default();
        attempted.delays.add(
            elsewhere.took,
            &[elsewhere.first_packet, setup.syns.packets.first],
        );
        attempted.repeating = nanos(elsewhere.repeating);
        self.add(elsewhere.server, attempted);
    }

    fn add(&mut self, server: Endpoint, attempted: Attempted) {
        if self.of.len() < MOST_ADDRESSES || self.of.contains_key(&server) {
            self.of.entry(server).or_default().merge(attempted);
        }
    }

    /// Returns the attempts at addresses that never answered. An answer may also come after the
    /// client has tried the other address.
    fn silent(&self, hosts: &Hosts) -> Self {
        let mut silent = self.clone();
        silent.of.retain(|server, _| !hosts.answers(server.addr));
        silent
    }

    /// Returns the delays of all connections.
    fn delays(&self) -> Delays {
        let mut all = Delays::default();
        for attempted in self.of.values() {
            all.merge(attempted.delays.clone());
        }
        all
    }
}

impl super::Rule for Rule {
    fn observe_setup(&mut self, setup: &Setup) {
        let approach = setup.approach.as_ref();
        let Some(elsewhere) = approach.and_then(|approach| approach.elsewhere) else {
            return;
        };
        self.syns = self.syns.max(elsewhere.syns);
        let attempts = if elsewhere.is_same_name {
            &mut self.named
        } else {
            &mut self.nameless
        };
        attempts.add_attempts(&elsewhere, setup);
    }

    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let delays = self.attempts(&case.facts.hosts).delays();
        match delays.conclude(case, || self.claim(case, &delays)) {
            Conclusion::Nothing => probed(case).into(),
            told => told,
        }
    }
}

/// Returns the claim that only our own attempts show: the requests went to another address of the
/// same name, so nothing of their time is charged.
fn probed(case: &Case<'_>) -> Option<Claim> {
    let target = case.target?;
    let is_answered = case.endpoint.addr.is_ipv4() && case.ledger.counts.count > 0;
    let is_silent = |other: &&OtherAddress| {
        other.target == target
            && other.endpoint.addr.is_ipv6()
            && other.answer == ProbeAnswer::Silence
    };
    let mut others = case.facts.other_addresses.iter();
    let other = others.find(is_silent).filter(|_| is_answered)?;
    let attempts = u64::from(other.attempts);
    let mut claim = evidence::bare_claim(Id::Ipv6Fallback, Owner::Path, case);
    let text = format!(
        "{} to {} had no answer within {}",
        counted(attempts, "connect() call", "connect() calls"),
        other.endpoint,
        evidence::human(other.waited),
    );
    let evidence = Statement::shows(EvidenceKind::OwnSocket, text).count(attempts);
    claim.evidence.push(evidence);
    claim.basis = Basis::new(attempts, false);
    PROBED.tell(&mut claim, &[("silent", &other.endpoint.addr)]);
    Some(claim)
}

impl Rule {
    /// Returns the failed attempts that delayed connections.
    fn attempts(&self, hosts: &Hosts) -> Attempts {
        let mut attempts = self.named.silent(hosts);
        let spread = |d: &Delays| {
            let of = |q| d.lost.quantile(q).unwrap_or_default();
            of(1.0).saturating_sub(of(0.0))
        };
        let nameless = self.nameless.silent(hosts);
        let delays = nameless.delays();
        if delays.count() >= NAMELESS && spread(&delays) <= SPREAD {
            attempts.merge(nameless);
        }
        attempts
    }

    /// Returns two times in nanoseconds: the time that connections waited for attempts at IPv6
    /// addresses, and the part of it that each address's account already contains.
    pub(crate) fn waited(&self, hosts: &Hosts) -> (u64, BTreeMap<Endpoint, u64>) {
        let attempts = self.attempts(hosts);
        let repeating = attempts.of.iter();
        let repeating = repeating.map(|(&server, attempted)| (server, attempted.repeating));
        (attempts.delays().sum(), repeating.collect())
    }

    fn claim(&self, case: &Case<'_>, delays: &Delays) -> Claim {
        let mut claim = delays.claim(Id::Ipv6Fallback, Owner::Path, case);
        let repeated = match self.syns {
            ..=1 => String::new(),
            syns => format!(", which was sent up to {syns} times"),
        };
        let text = format!(
            "{} began {} (median) after an unanswered SYN to the server's IPv6 address{repeated}",
            counted(delays.count(), "connection", "connections"),
            delays.median(),
        );
        claim.evidence.push(delays.evidence(text));
        claim.basis = Basis::new(delays.count(), false);
        WORDING.tell(&mut claim, &[("waited", &delays.median())]);
        claim
    }
}
