//! Connections with a dead peer: one side retransmits its data until it gives up or the capture
//! ends, and the other side never acknowledges the data.

use core::time::Duration;

use super::Observations;
use super::blank::Blank;
use crate::cause::evidence::{self, MATERIAL_SHARE, human, ruled_out};
use crate::cause::service::{DeadPeers, Service};
use crate::claim::{Advice, Claim, Statement};
use crate::exchange::Side;
use crate::exchange::wait::Owner;
use crate::observed::flow::Endpoint;
use crate::registry::Id;
use crate::report::{EvidenceKind, Unit, counted};

/// Adds a claim for each service with dead peers, unless another claim describes them.
pub(super) fn add(evidence: &Observations, claims: &mut Vec<Claim>) {
    for (&endpoint, service) in &evidence.services {
        let Some(outside) = &service.outside else {
            continue;
        };
        let is_told = claims
            .iter()
            .any(|claim| claim.at == endpoint && claim.cause.cause().tells_dead_peer);
        if !is_told {
            claims.extend(claim(evidence, endpoint, service, &outside.dead_peers));
        }
    }
}

fn claim(
    evidence: &Observations,
    endpoint: Endpoint,
    service: &Service,
    dead_peers: &DeadPeers,
) -> Option<Claim> {
    let (longest, packets) = dead_peers.longest?;
    let cost = u64::try_from(dead_peers.lasted.sum_ns()).unwrap_or(u64::MAX);
    let all = service.ledger.total().saturating_add(cost);
    let share = cost as f64 / all.max(1) as f64;
    if share < MATERIAL_SHARE {
        return None;
    }
    let blank = Blank::default();
    let case = blank.case(endpoint, &evidence.facts);
    let mut claim = evidence::bare_claim(Id::RetransmissionTimeout, Owner::Unknown, &case);
    let count = dead_peers.lasted.count();
    claim.unit = Unit::Transfers;
    claim.affected.exchanges = count;
    claim.affected.of = count.max(service.ledger.setups.count);
    (claim.time.cost.likely, claim.time.cost.high) = (cost, cost);
    claim.time.whole_ns = all;
    let times = if count == 1 {
        "connection"
    } else {
        "connections"
    };
    let text = format!(
        "on {count} {times} the same bytes were retransmitted up to {}, for at most {}, and never \
         acknowledged: {}",
        counted(u64::from(dead_peers.repeats), "time", "times"),
        human(longest),
        senders(dead_peers),
    );
    claim.evidence.push(
        Statement::shows(EvidenceKind::Wire, text)
            .count(count)
            .packets(&packets.numbers()),
    );
    claim.text.summary = format!(
        "{count} {times} to {endpoint} ended in silence: timers retransmitted data for {} in \
         total, and no ACK came. The other end is gone, or the path no longer forwards these \
         packets.",
        human(Duration::from_nanos(cost)),
    );
    claim.ruled_out.push(ruled_out(
        Id::ZeroWindow,
        "the silent side had neither closed its window nor ended the connection",
    ));
    claim.text.overturned_by = "a capture at the silent end in which its ACKs leave".to_owned();
    claim.advice = vec![
        Advice::new(
            "path",
            "look for a device that has dropped the connection's state (conntrack and NAT \
             timeouts), or that drops packets of this size",
        ),
        Advice::new(
            "server",
            "check whether the host, its address and its process were available all the time",
        ),
        Advice::new(
            "client",
            "limit the wait: `TCP_USER_TIMEOUT`, and keep-alive probes on idle connections",
        ),
    ];
    Some(claim)
}

/// Returns a clause on the side that was silent.
fn senders(dead_peers: &DeadPeers) -> String {
    let [client, server] = [Side::Client, Side::Server].map(|side| dead_peers.senders.of(side));
    match (client, server) {
        (0, _) => "the client was silent".to_owned(),
        (_, 0) => "the server was silent".to_owned(),
        _ => format!(
            "the server was silent {}, the client {}",
            counted(client, "time", "times"),
            counted(server, "time", "times"),
        ),
    }
}
