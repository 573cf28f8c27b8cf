//! The order of claims: what a reader must know first comes first.

use super::full_links::is_loss_behind;
use super::{Observations, failures};
use crate::claim::Claim;
use crate::registry::{Failing, Id};
use crate::report::Verdict;

/// Failed connection attempts do not matter if they are fewer than [`FEW_ATTEMPTS`] and fewer than
/// one per this many requests.
const STRANGERS: u64 = 100;
const FEW_ATTEMPTS: u64 = 10;
/// Packet loss is ranked before another claim if it costs at least this share of the other cost.
/// Repairing the path changes the other claim's figures too.
const GROUND_SHARE: f64 = 0.1;

/// Minimum cost of a full link that is ranked before the losses of its service, as a share of the
/// losses' cost.
const FULL_SHARE: f64 = 0.5;

/// Minimum cost of a claim on a service that waits for another one, as a share of the other one's own
/// cost. Calls side by side cost more than the wait for them.
const CALLER_SHARE: f64 = 0.2;
/// Minimum cost of a claim that says why another service takes the time, as a share of the cost of the
/// claim on who waits for it.
const WHY_SHARE: f64 = 0.5;

/// A place is ranked before a cause that says only where, if it has this many times the cause's time.
const MUCH_MORE: f64 = 1.5;

/// Sorts the claims. Causes that let no request succeed come first, with two exceptions. One is a
/// few failed attempts among many requests that succeed. The other is a few attempts at a service
/// that never answered, if a claim with a more certain verdict costs more time. Requests that fail
/// come first too, if they are many.
///
/// The other claims are sorted by weight: the time that they claim or, before the account is
/// made, their cost. Claimed time is better because two claims of equal cost may explain the same
/// time.
pub(super) fn rank(
    claims: &mut Vec<Claim>,
    evidence: &Observations,
    weight: impl Fn(&Claim) -> u64,
) {
    let costs: Vec<_> = claims
        .iter()
        .map(|f| (f.verdict_on_place(), f.time.cost.likely))
        .collect();
    let dearest = |than| {
        let surer = costs.iter().filter(|(verdict, _)| *verdict > than);
        surer.map(|&(_, cost)| cost).max().unwrap_or_default()
    };
    let is_small = |claim: &Claim| {
        let service = evidence.services.get(&claim.at);
        let is_elsewhere = service.is_some_and(|service| {
            service.ledger.counts.count == 0
                && service.ledger.setups.waits.total() < dearest(claim.verdict_on_place())
        });
        claim.affected.exchanges < FEW_ATTEMPTS && is_elsewhere
    };
    let seen = evidence
        .services
        .values()
        .map(|service| service.ledger.uncut());
    let seen: u64 = seen.sum();
    let fails = |f: &Claim| failures::leads(f, seen);
    claims.sort_by(|a, b| {
        let key = |f: &Claim| {
            let is_blocking =
                is_blocking(f) && !is_strangers(f.affected.exchanges, seen) && !is_small(f);
            (!is_blocking, !fails(f), core::cmp::Reverse(weight(f)))
        };
        key(a)
            .cmp(&key(b))
            .then_with(|| (a.at, a.cause.as_str()).cmp(&(b.at, b.cause.as_str())))
    });
    put_particular_first(claims);
    put_ground_first(claims, fails);
    put_full_links_first(claims);
    put_callers_first(claims);
    put_named_first(claims);
}

/// Moves each claim that says why a server is late before one that says only that it is, unless it costs
/// less than the share [`WHY_SHARE`] of it: what remains may be necessary work.
fn put_named_first(claims: &mut Vec<Claim>) {
    // A claim that moves to an earlier place does not change the places of those after it.
    for at in 0..claims.len() {
        let Some(named) = claims.get(at).filter(|f| f.verdict() >= Verdict::Strong) else {
            continue;
        };
        let row = named.cause.cause();
        let is_work = |f: &Claim| {
            let least = f.time.cost.likely as f64 * WHY_SHARE;
            f.cause == Id::ServerThink
                && (f.at, f.culprit) == (named.at, named.culprit)
                && named.time.cost.likely as f64 >= least
        };
        let to = claims.iter().take(at).position(is_work);
        if let Some(to) = to.filter(|_| !row.says_only_where && !row.may_be_work) {
            let named = claims.remove(at);
            claims.insert(to, named);
        }
    }
}

/// Puts each claim on a service that waits for another one, and the other one's own claims, in the
/// order in which they explain each other. What says only that the other one takes the time comes
/// after the claim on who waits: that is whom the clients asked. What says why comes before it, if the
/// claim on who waits does not say why itself.
fn put_callers_first(claims: &mut Vec<Claim>) {
    for at in 0..claims.len() {
        let Some((caller, callee)) = claims.get(at).and_then(|f| Some((f, f.callee?.at))) else {
            continue;
        };
        let cost = caller.time.cost.likely as f64;
        let is_place = |f: &Claim| {
            let least = f.time.cost.likely as f64 * CALLER_SHARE;
            f.at == callee && f.cause.cause().says_only_where && cost >= least
        };
        let is_reason = |f: &Claim| {
            let row = f.cause.cause();
            let is_named = !row.says_only_where && !row.may_be_work && f.callee.is_none();
            let is_sure = f.verdict() >= Verdict::Strong;
            f.at == callee && is_named && is_sure && f.time.cost.likely as f64 >= cost * WHY_SHARE
        };
        if let Some(to) = claims.iter().take(at).position(is_place) {
            let caller = claims.remove(at);
            claims.insert(to, caller);
        } else if caller.cause.cause().may_be_work
            && let Some(behind) = claims.iter().skip(at + 1).position(is_reason)
        {
            let reason = claims.remove(at + 1 + behind);
            claims.insert(at, reason);
        }
    }
}

/// Returns true if no request succeeds while the claim's cause lasts.
fn is_blocking(claim: &Claim) -> bool {
    claim.cause.cause().fails == Some(Failing::Connections)
}

fn is_strangers(attempts: u64, requests: u64) -> bool {
    attempts < FEW_ATTEMPTS && attempts * STRANGERS < requests
}

/// Moves the claim on packet loss before other claims of its service, if the loss costs at
/// least the share [`GROUND_SHARE`] of their cost. Claims that block all requests stay first.
fn put_ground_first(claims: &mut Vec<Claim>, leads: impl Fn(&Claim) -> bool) {
    let Some(at) = claims.iter().position(|f| f.cause == Id::PacketLoss) else {
        return;
    };
    let ground = |f: &Claim| {
        let weight = f.time.cost.likely as f64 * GROUND_SHARE;
        claims
            .get(at)
            .is_some_and(|loss| loss.at == f.at && loss.time.cost.likely as f64 >= weight)
    };
    let to = claims
        .iter()
        .take(at)
        .position(|f| !is_blocking(f) && !leads(f) && ground(f));
    if let Some(to) = to {
        let loss = claims.remove(at);
        claims.insert(to, loss);
    }
}

/// Moves each claim on a special case before the claim on its general cause. Example: if
/// connection setup is slow for a known reason, this reason comes before the number of connections,
/// even if all connections together cost more. Likewise, slow start comes after the claim that
/// makes it matter.
fn put_particular_first(claims: &mut Vec<Claim>) {
    let mut at = 0;
    while let Some(general) = claims.get(at) {
        let behind = claims.iter().enumerate().skip(at + 1).find(|(_, claim)| {
            claim.at == general.at && claim.cause.cause().particular_to.contains(&general.cause)
        });
        if let Some((from, _)) = behind {
            let claim = claims.remove(from);
            claims.insert(at, claim);
        }
        at += 1;
    }
}

/// Moves each claim on a full link before the losses of its service, unless the link costs less
/// than the share [`FULL_SHARE`] of them: they are those of its queue.
fn put_full_links_first(claims: &mut Vec<Claim>) {
    // A claim that moves to an earlier place does not change the places of those after it.
    for at in 0..claims.len() {
        let Some(full) = claims.get(at).filter(|f| f.cause == Id::BandwidthLimit) else {
            continue;
        };
        let is_overflow = |f: &Claim| {
            let least = f.time.cost.likely as f64 * FULL_SHARE;
            is_loss_behind(f, full) && full.time.cost.likely as f64 >= least
        };
        if let Some(to) = claims.iter().take(at).position(is_overflow) {
            let full = claims.remove(at);
            claims.insert(to, full);
        }
    }
}

/// Moves the claim on requests that wait in the client behind the cause that takes most of the
/// exchanges' time. That cause keeps the connections busy, so requests find none free. Causes that
/// may be necessary work do not count: against them, only more connections help.
pub(super) fn put_queue_behind(claims: &mut Vec<Claim>, is_most: impl Fn(&Claim) -> bool) {
    let is_queue = |claim: &Claim| claim.cause == Id::ClientQueue;
    let Some(from) = claims.iter().position(is_queue) else {
        return;
    };
    let root = claims.iter().skip(from + 1).position(|claim| {
        let cause = claim.cause.cause();
        claims.get(from).is_some_and(|queue| queue.at == claim.at)
            && !cause.may_be_work
            && !claim.locates()
            && is_most(claim)
    });
    if let Some(root) = root {
        let queue = claims.remove(from);
        claims.insert(from + root + 1, queue);
    }
}

/// Returns the rank of a place of unexplained time: behind all claims that say why, and before those
/// that say only where, like the place itself, if they have much less time.
pub(super) fn rank_of_place(
    claims: &[Claim],
    place: &Claim,
    weight: impl Fn(&Claim) -> u64,
) -> usize {
    let is_less = |claim: &Claim| {
        let row = claim.cause.cause();
        let has_less = weight(claim) as f64 * MUCH_MORE < weight(place) as f64;
        row.says_only_where && row.fails.is_none() && has_less
    };
    let last = claims.iter().rposition(|claim| !is_less(claim));
    last.map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Basis, Callee, Statement};
    use crate::exchange::wait::Owner;
    use crate::observed::flow::Endpoint;
    use crate::report::EvidenceKind;

    const ONE: u16 = 80;
    const OTHER: u16 = 443;

    /// Returns a claim on the service at `port` that costs `cost_ns`.
    fn claim(cause: Id, port: u16, cost_ns: u64) -> Claim {
        let at = Endpoint::new([10, 0, 0, 2].into(), port);
        let mut claim = Claim::blank(cause, Owner::Unknown, at);
        claim.time.cost_exactly(cost_ns);
        claim
    }

    fn causes(claims: &[Claim]) -> Vec<Id> {
        claims.iter().map(|claim| claim.cause).collect()
    }

    #[test]
    fn a_full_link_comes_before_the_losses_of_its_service() {
        let order = |link: u64| {
            let mut claims = vec![
                claim(Id::PacketLoss, OTHER, 30),
                claim(Id::PacketLoss, ONE, 20),
                claim(Id::ServerPause, ONE, 15),
                claim(Id::BandwidthLimit, ONE, link),
            ];
            put_full_links_first(&mut claims);
            let mut claims = claims.iter();
            claims.position(|claim| claim.cause == Id::BandwidthLimit)
        };
        assert_eq!(order(10), Some(1));
        assert_eq!(order(9), Some(3), "the losses cost more than twice as much");
    }

    #[test]
    fn why_a_server_is_late_comes_before_that_it_is() {
        let order = |queue: u64, port: u16| {
            let mut queue = claim(Id::WorkerSaturation, port, queue);
            queue
                .evidence
                .push(Statement::shows(EvidenceKind::Wire, String::new()));
            queue.basis = Basis::new(50, false);
            let mut claims = vec![claim(Id::ServerThink, ONE, 55), queue];
            put_named_first(&mut claims);
            causes(&claims).first().copied()
        };
        assert_eq!(order(45, ONE), Some(Id::WorkerSaturation));
        assert_eq!(order(20, ONE), Some(Id::ServerThink), "most is work");
        assert_eq!(order(45, OTHER), Some(Id::ServerThink), "another service");
    }

    #[test]
    fn who_waits_comes_before_where_the_time_is_that_it_waits_for() {
        let order = |waits: u64, behind: u16, place: Id| {
            let mut caller = claim(Id::DownstreamWait, ONE, waits);
            caller.callee = Some(Callee {
                at: claim(place, behind, 0).at,
                is_silent: false,
            });
            let mut claims = vec![claim(place, OTHER, 100), caller];
            put_callers_first(&mut claims);
            causes(&claims)[0]
        };
        assert_eq!(order(20, OTHER, Id::ServerThink), Id::DownstreamWait);
        assert_eq!(order(19, OTHER, Id::ServerThink), Id::ServerThink, "little");
        assert_eq!(order(50, 81, Id::ServerThink), Id::ServerThink, "another");
        assert_eq!(order(50, OTHER, Id::PacketLoss), Id::PacketLoss, "a cause");
    }

    #[test]
    fn why_the_callee_is_late_comes_before_who_waits_for_it() {
        let order = |cost: u64, repeats: u64| {
            let mut why = claim(Id::NagleDelayedAckRequest, OTHER, cost);
            why.evidence = vec![Statement::shows(EvidenceKind::Wire, String::new())];
            why.basis = Basis::new(repeats, false);
            let mut caller = claim(Id::DownstreamWait, ONE, 100);
            caller.callee = Some(Callee {
                at: why.at,
                is_silent: false,
            });
            let mut claims = vec![caller, claim(Id::PacketLoss, OTHER, 60), why];
            put_callers_first(&mut claims);
            causes(&claims)[0]
        };
        assert_eq!(order(50, 9), Id::NagleDelayedAckRequest);
        assert_eq!(order(49, 9), Id::DownstreamWait, "little");
        assert_eq!(order(50, 1), Id::DownstreamWait, "possible");
    }

    #[test]
    fn losses_come_before_what_changes_with_them() {
        let order = |loss: u64, port: u16| {
            let mut claims = vec![
                claim(Id::FirewallDrop, ONE, 0),
                claim(Id::SlowStart, ONE, 100),
                claim(Id::PacketLoss, port, loss),
            ];
            put_ground_first(&mut claims, |_| false);
            causes(&claims)
        };
        let [blocked, start, loss] = [Id::FirewallDrop, Id::SlowStart, Id::PacketLoss];
        assert_eq!(order(10, ONE), [blocked, loss, start]);
        assert_eq!(order(9, ONE), [blocked, start, loss], "too little");
        assert_eq!(
            order(10, OTHER),
            [blocked, start, loss],
            "of another service"
        );
    }

    #[test]
    fn a_special_case_comes_before_its_general_cause() {
        let special = Id::ALL.iter().copied();
        let special = special.filter(|id| !id.cause().particular_to.is_empty());
        for id in special {
            let general = id.cause().particular_to[0];
            let mut claims = vec![
                claim(general, ONE, 9),
                claim(id, OTHER, 5),
                claim(id, ONE, 1),
            ];
            put_particular_first(&mut claims);
            assert_eq!((claims[0].cause, claims[0].at.port), (id, ONE));
        }
    }

    #[test]
    fn a_few_strangers_do_not_come_before_what_all_requests_meet() {
        for (attempts, requests, expected) in [
            (9, 901, true),
            (9, 900, false),
            (10, 100_000, false),
            (1, 101, true),
        ] {
            assert_eq!(is_strangers(attempts, requests), expected, "{attempts}");
        }
    }

    #[test]
    fn a_place_comes_before_what_says_only_where_and_is_much_less() {
        let rank = |claims: &[(Id, u64)], place| {
            let claims = claims.iter().map(|&(id, cost)| claim(id, ONE, cost));
            let claims: Vec<_> = claims.collect();
            let place = claim(Id::TimeInClient, ONE, place);
            rank_of_place(&claims, &place, |claim| claim.time.cost.likely)
        };
        let (pause, think) = ((Id::ServerPause, 15), (Id::ServerThink, 5));
        assert_eq!(rank(&[pause, think], 37), 0);
        assert_eq!(rank(&[pause, think], 16), 1);
        assert_eq!(rank(&[pause, think], 4), 2);
        assert_eq!(rank(&[(Id::PacketLoss, 1), pause], 37), 1, "it says why");
        assert_eq!(rank(&[(Id::RequestsFail, 0)], 37), 1);
    }
}
