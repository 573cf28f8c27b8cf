//! Refused connection attempts, by the sender of the refusal. The rules on refused attempts share
//! this file.

use std::collections::BTreeMap;

use super::Case;
use super::first_packets::FirstPackets;
use crate::claim::Statement;
use crate::connection::{Setup, SetupOutcome};
use crate::observed::icmp::IcmpKind;
use crate::observed::segment::hops;
use crate::report::{EvidenceKind, counted};
use crate::stats::Merge;

/// Refused attempts at one service.
#[derive(Clone, Debug, Default, Merge)]
pub(super) struct Refusals {
    /// RSTs by their TTL.
    #[merge(entries)]
    resets: BTreeMap<u8, SeenRefusals>,
    /// ICMP errors of packet filters.
    prohibited: SeenRefusals,
    /// Number of these that the host itself sent.
    pub(super) by_host: u64,
    /// All other ICMP errors.
    unreachable: SeenRefusals,
    /// Number of attempts that ended in another way.
    pub(super) others: u64,
    /// Number of these that the host accepted.
    pub(super) accepted: u64,
}

/// The number of refusals of one kind, and some of the packets.
#[derive(Clone, Debug, Default, Merge)]
pub(super) struct SeenRefusals {
    pub(super) count: u64,
    packets: FirstPackets,
}

impl Refusals {
    pub(super) fn add_setup(&mut self, setup: &Setup) {
        match (setup.outcome, setup.icmp_rejection) {
            (Some(SetupOutcome::Refused), _) => self
                .resets
                .entry(setup.answer.ttl.unwrap_or_default())
                .or_default()
                .add(&[setup.syns.packets.first]),
            (Some(SetupOutcome::Unanswered), Some(rejection)) => {
                self.by_host += u64::from(rejection.is_by_host);
                let kind = IcmpKind::Unreachable(rejection.code);
                let is_prohibited = is_prohibited(kind, setup);
                let seen = if rejection.is_by_host || is_prohibited {
                    &mut self.prohibited
                } else {
                    &mut self.unreachable
                };
                seen.add(&[setup.syns.packets.first, rejection.number]);
            }
            (outcome, _) => {
                self.others += 1;
                self.accepted += u64::from(outcome == Some(SetupOutcome::Established));
            }
        }
    }

    /// Returns the RSTs from the host itself, and the RSTs from devices on the path. The TTL of the
    /// latter shows a distance that no other packet of the host has.
    pub(super) fn resets(&self, case: &Case<'_>) -> (SeenRefusals, SeenRefusals) {
        let host = case.facts.hosts.ttl(case.endpoint.addr);
        let (mut own, mut foreign) = (SeenRefusals::default(), SeenRefusals::default());
        for (&ttl, seen) in &self.resets {
            let is_own = host
                .is_none_or(|(least, most)| hops(ttl) == hops(least) || hops(ttl) == hops(most));
            if is_own {
                own.merge(seen.clone())
            } else {
                foreign.merge(seen.clone())
            }
        }
        (own, foreign)
    }

    pub(super) fn prohibited(&self) -> &SeenRefusals {
        &self.prohibited
    }

    pub(super) fn unreachable(&self) -> &SeenRefusals {
        &self.unreachable
    }
}

impl SeenRefusals {
    pub(super) fn add(&mut self, packets: &[u64]) {
        self.count += 1;
        self.packets.extend(packets.iter().copied());
    }

    /// Returns the evidence of the refusals; `None` if there were none.
    pub(super) fn evidence(&self, one: &str, many: &str) -> Option<Statement> {
        let text = counted(self.count, one, many);
        (self.count > 0).then(|| {
            Statement::shows(EvidenceKind::Wire, text)
                .count(self.count)
                .packets(&self.packets)
        })
    }
}

/// Returns true if the ICMP error comes from a packet filter (RFC 1812 §5.2.7.1, RFC 4443 §3.1). A
/// host's own errors about SYNs come from its filter, whatever their code: its TCP resets.
fn is_prohibited(kind: IcmpKind, setup: &Setup) -> bool {
    let is_v4 = setup.ends.is_some_and(|(_, server)| server.addr.is_ipv4());
    kind.is_prohibited(is_v4)
}
