//! Consequences of a cause. They become evidence of the cause instead of separate claims.

use std::collections::BTreeSet;

use crate::cause::evidence::percent;
use crate::claim::Claim;
use crate::observed::flow::Endpoint;
use crate::registry::{Id, SharedTime};

/// Minimum ratio of a cause's cost to its consequence's cost, if both count the same time.
const EXPLAINED: f64 = 0.5;
/// Minimum ratio of the exchanges that a cause affects to those that its consequence affects, if
/// both count the same time.
const SAME: f64 = 0.1;

/// Merges each consequence into the first of its causes that has a claim and explains it.
/// `abandoned` are the addresses from which clients fell back to others.
pub(super) fn fold(claims: &mut Vec<Claim>, abandoned: &BTreeSet<Endpoint>) {
    drop_abandoned(claims, abandoned);
    take_in_unreached(claims);
    let mut grown = BTreeSet::new();
    for consequence in consequences() {
        while let Some((at, root, time)) = pair(claims, consequence) {
            let folded = claims.remove(at);
            let root = if root > at { root - 1 } else { root };
            if let Some(root) = claims.get_mut(root)
                && take_in(root, folded, time)
            {
                grown.insert((root.cause.as_str(), root.at));
            }
        }
    }
    for claim in claims {
        if grown.contains(&(claim.cause.as_str(), claim.at)) {
            let share = percent(claim.time.share());
            claim.text.summary +=
                &format!(" Including its consequences, it costs {share} of the time.");
        }
    }
}

/// Returns the causes that can be consequences, each before its own causes. A consequence must have
/// received all evidence of its own consequences before it is merged itself.
fn consequences() -> Vec<Id> {
    let mut rest: Vec<Id> = Id::ALL.to_vec();
    rest.retain(|id| !id.cause().follows.is_empty());
    let mut ordered = Vec::with_capacity(rest.len());
    while !rest.is_empty() {
        let follows = |other: &Id, id: Id| other.cause().follows.iter().any(|o| o.cause == id);
        let (bound, free): (Vec<Id>, Vec<Id>) = rest
            .iter()
            .partition(|&&id| rest.iter().any(|other| follows(other, id)));
        // The registry has no cycle. If it had one, the causes of the cycle would keep the
        // registry's order.
        let (next, left) = if free.is_empty() {
            (bound, free)
        } else {
            (free, bound)
        };
        ordered.extend(next);
        rest = left;
    }
    ordered
}

/// Returns the indices of a consequence and of its cause in `claims`, for one service, and the
/// relation of their times.
fn pair(claims: &[Claim], consequence: Id) -> Option<(usize, usize, SharedTime)> {
    let origins = consequence.cause().follows;
    let consequences = claims.iter().enumerate();
    consequences
        .filter(|(_, claim)| claim.cause == consequence)
        .find_map(|(at, claim)| {
            origins.iter().find_map(|origin| {
                let root = claims.iter().position(|other| {
                    other.cause == origin.cause
                        && other.at == claim.at
                        && explains(other, claim, origin.time)
                });
                root.map(|root| (at, root, origin.time))
            })
        })
}

/// Returns true if `cause` explains `consequence`. Unless the consequence follows in any case, the
/// cause must cost enough in comparison, and must affect enough exchanges: a cause of one exchange
/// does not explain a wait of many.
fn explains(cause: &Claim, consequence: &Claim, time: SharedTime) -> bool {
    let is_mostly = |cause: u64, consequence: u64| cause as f64 >= consequence as f64 * EXPLAINED;
    time == SharedTime::Besides
        || (is_mostly(cause.time.cost.likely, consequence.time.cost.likely)
            && cause.affected.exchanges as f64 >= consequence.affected.exchanges as f64 * SAME)
}

/// Adds a consequence to its cause. Returns true if the cause costs more with it.
fn take_in(root: &mut Claim, folded: Claim, time: SharedTime) -> bool {
    // A delay outside the exchanges is one that the cause's own figures include.
    let is_more = match time {
        SharedTime::Besides => true,
        SharedTime::Behind => !folded.time.waits.is_empty(),
        SharedTime::Within => false,
    };
    if is_more {
        root.time.take_in(&folded.time);
    }
    root.inherit(folded);
    is_more
}

/// Drops the claims on addresses from which clients fell back to others. The silence of such an
/// address is evidence of `ipv6-fallback`, not a second cause.
fn drop_abandoned(claims: &mut Vec<Claim>, abandoned: &BTreeSet<Endpoint>) {
    let falls_back = |f: &Claim| f.cause == Id::Ipv6Fallback;
    if claims.iter().any(falls_back) {
        claims.retain(|f| f.cause != Id::FirewallDrop || !abandoned.contains(&f.at));
    }
}

/// Returns whom the claim's service could not reach.
fn silent_callee(claim: &Claim) -> Option<Endpoint> {
    let callee = claim.callee.filter(|callee| callee.is_silent);
    callee.map(|callee| callee.at)
}

/// Merges claims on attempts to connect, and on lookups, that get no answer, into the claim of the
/// service that waits for them.
fn take_in_unreached(claims: &mut Vec<Claim>) {
    let waiting: Vec<(Endpoint, Endpoint)> = claims
        .iter()
        .filter_map(|claim| Some((claim.at, silent_callee(claim)?)))
        .collect();
    for (at, unreached) in waiting {
        let is_met = |claim: &Claim| claim.cause.cause().is_silence && claim.at == unreached;
        let met: Vec<Claim> = claims.extract_if(.., |claim| is_met(claim)).collect();
        let waits = claims
            .iter_mut()
            .find(|claim| claim.at == at && silent_callee(claim) == Some(unreached));
        if let Some(claim) = waits {
            met.into_iter().for_each(|silent| claim.inherit(silent));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Callee;
    use crate::exchange::wait::Owner;

    fn endpoint(addr: &str) -> Endpoint {
        Endpoint::new(addr.parse().expect("valid"), 443)
    }

    fn claim(cause: Id, at: Endpoint, cost_ns: u64, whole_ns: u64) -> Claim {
        let mut claim = Claim::blank(cause, Owner::Server, at);
        claim.time.cost_exactly(cost_ns);
        claim.time.whole_ns = whole_ns;
        claim
    }

    #[test]
    fn only_the_silence_of_an_address_that_clients_fell_back_from_is_dropped() {
        let [at, silent, other] = ["10.77.0.2", "fd77::2", "fd77::99"].map(endpoint);
        let mut claims = vec![
            claim(Id::Ipv6Fallback, at, 30, 60),
            claim(Id::FirewallDrop, silent, 0, 0),
            claim(Id::FirewallDrop, other, 0, 0),
        ];
        fold(&mut claims, &[silent].into());
        let left: Vec<_> = claims.iter().map(|claim| claim.at).collect();
        assert_eq!(left, [at, other]);
    }

    #[test]
    fn a_service_that_waits_for_silence_takes_in_nothing_else_of_the_silent() {
        let [at, silent, other] = ["10.77.0.2", "10.77.0.9", "10.77.0.8"].map(endpoint);
        let mut waiting = claim(Id::UpstreamUnreachable, at, 50, 60);
        waiting.callee = Some(Callee {
            at: silent,
            is_silent: true,
        });
        let mut claims = vec![
            waiting,
            claim(Id::FirewallDrop, silent, 0, 0),
            claim(Id::ConnectionNotReused, silent, 5, 10),
            claim(Id::SynLoss, other, 5, 10),
        ];
        fold(&mut claims, &BTreeSet::new());
        let left: Vec<_> = claims.iter().map(|claim| (claim.cause, claim.at)).collect();
        let expected = [
            (Id::UpstreamUnreachable, at),
            (Id::ConnectionNotReused, silent),
            (Id::SynLoss, other),
        ];
        assert_eq!(left, expected);
    }

    #[test]
    fn shares_of_different_times_are_not_added() {
        // 45 ms of 100 ms with connection setup, and 18 ms of 20 ms without.
        let at = endpoint("10.77.0.2");
        let mut claims = vec![
            claim(Id::TlsSlowHandshake, at, 45_000_000, 100_000_000),
            claim(Id::ServerThink, at, 18_000_000, 20_000_000),
        ];
        let follows = Id::ServerThink.cause().follows.iter();
        assert!(
            follows
                .into_iter()
                .any(|origin| origin.cause == Id::TlsSlowHandshake)
        );
        fold(&mut claims, &BTreeSet::new());
        let [together] = &claims[..] else {
            panic!("{claims:#?}");
        };
        assert_eq!(together.time.cost.likely, 63_000_000);
        assert!(
            (together.time.share() - 0.63).abs() < 1e-9,
            "{}",
            together.time.share()
        );
        assert!(
            together
                .text
                .summary
                .ends_with("it costs 63 % of the time."),
            "{}",
            together.text.summary
        );
    }

    #[test]
    fn a_cause_that_explains_too_little_takes_no_consequence() {
        let left = |cost: u64, affected: u64, port: u16| {
            let at = endpoint("10.77.0.2");
            let mut root = claim(
                Id::NagleDelayedAckRequest,
                Endpoint { port, ..at },
                cost,
                100,
            );
            root.affected.exchanges = affected;
            let mut consequence = claim(Id::SlowRequestUpload, at, 20, 100);
            consequence.affected.exchanges = 100;
            let mut claims = vec![root, consequence];
            fold(&mut claims, &BTreeSet::new());
            claims.len()
        };
        let follows = Id::SlowRequestUpload.cause().follows.iter();
        let relation = follows
            .into_iter()
            .find(|o| o.cause == Id::NagleDelayedAckRequest);
        assert_ne!(relation.expect("a relation").time, SharedTime::Besides);
        assert_eq!(left(10, 10, 443), 1);
        assert_eq!(left(9, 10, 443), 2, "it costs too little");
        assert_eq!(left(10, 9, 443), 2, "it affects too few");
        assert_eq!(left(10, 10, 80), 2, "another service");
    }

    #[test]
    fn each_consequence_comes_before_what_it_follows_from() {
        let order = consequences();
        let place = |id| order.iter().position(|&other| other == id);
        for &id in &order {
            for origin in id.cause().follows {
                let origin = origin.cause;
                assert!(
                    place(origin).is_none_or(|at| Some(at) > place(id)),
                    "{origin} before {id}"
                );
            }
        }
        assert!(place(Id::SynLoss) < place(Id::PacketLoss), "{order:?}");
    }
}
