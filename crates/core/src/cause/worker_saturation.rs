//! The rule of the cause `worker-saturation`.

use core::time::Duration;

use super::calls::CallLimit;
use super::evidence::{self, human, median};
use super::rhythm::{Gate, Nature, SlotQueue};
use super::settings::Measured;
use super::starved::passed_over;
use super::wording::Wording;
use super::{
    Case, Conclusion, Id, capacity, downstream_wait, kernel_place, one_thread, rate_limit,
};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::wait::Owner;
use crate::report::{Candidate, EvidenceKind, counted};
use crate::service::tally::Tally;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The server serves one request at a time and needs {turn} for each; the others wait \
              for {saved} (median), {share} of all request time. Each \
              further concurrent request makes the wait longer.",
    ruled_out: &[(
        Id::RateLimit,
        "no request was answered sooner than in {quickest}",
    )],
    overturned_by: "requests that are answered in parallel, or a limit in the server's \
        configuration that lets one through at a time (then raise it)",
    fix: &[
        ("server", "{change}"),
        ("server", "less work per request"),
        FEWER,
    ],
};

/// The wording if either work or a limit causes the even intervals.
const IN_TURNS: Wording = Wording {
    summary: "The server answers one request at a time, {turn} after the previous one; the others \
              wait for {saved} (median), {share} of all request time. Either each request takes \
              that much work, or a rate limit applies: no request reached an idle server; such a \
              request would show which of the two it is.",
    ruled_out: &[],
    ..WORDING
};

/// The wording for a server that handles several requests in parallel.
const SEVERAL: Wording = Wording {
    summary: "The server serves {served} at a time and needs {alone} for each; the others \
              wait for {saved} (median), {share} of all request time. Each \
              further concurrent request makes the wait longer.",
    ruled_out: &[(
        Id::ServerThink,
        "the work itself takes {alone} if no other request competes",
    )],
    overturned_by: "answers that come faster when more requests are made in parallel",
    fix: &[
        ("server", "{change}"),
        ("server", "less work per request"),
        FEWER,
    ],
};

/// The change at the client.
const FEWER: (&str, &str) = (
    "client",
    "send fewer requests in parallel, because additional ones only lengthen the wait",
);

/// The change at a server that can have more than one worker.
const MORE_WORKERS: &str = "more workers, threads or processes; a higher limit if a proxy queues \
                            the requests; a shorter time under a common lock";

/// The change at a server that handles a few requests in parallel.
const SHARED: &str = "find the limited resource: workers, connections of a pool, a lock, a proxy's \
                      limit; then add more of it, or hold it for a shorter time";

/// The change at such a server if its kernel was not watched. Otherwise the kernel shows whether
/// processors are the limit.
const UNWATCHED: &str = "find the limited resource: processors, workers, connections of a pool, a \
                         lock, a proxy's limit; then add more of it, or hold it for a shorter time";

/// Watches requests on several connections that are answered one at a time, at even intervals.
///
/// A request that meets the server idle also takes one interval. So the interval is work, and not a
/// limit. With several workers or uneven work, there are no even intervals. The time of a single
/// request and the rate under load then show how many requests are handled in parallel
/// ([`capacity`]).
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        match case.rhythm.claim(case) {
            Some((Nature::Queues(gate), tally)) if gate.has_met_idle => {
                Conclusion::Claim(Box::new(claim(case, gate, tally)))
            }
            Some((Nature::Queues(_), _)) if is_of_others(case) => Conclusion::Nothing,
            Some((Nature::Queues(gate), tally)) => several(case)
                .or_else(|| Some(in_turns(case, gate, tally)))
                .into(),
            Some((Nature::Shares(_), _)) if is_of_others(case) => Conclusion::Nothing,
            Some((Nature::Shares(slots), tally)) => {
                Conclusion::Claim(Box::new(of_slots(case, slots, tally)))
            }
            Some(_) => Conclusion::Nothing,
            None => passed_over(case)
                .and_then(|starved| starved.claim(case))
                .or_else(|| several(case))
                .into(),
        }
    }

    fn measured(&self, case: &Case<'_>) -> Measured {
        let served = match case.rhythm.claim(case) {
            Some((Nature::Queues(gate), _)) if gate.has_met_idle => Some(1.0),
            Some((Nature::Shares(slots), _)) => Some(slots.width as f64),
            _ => capacity::of(case).map(|capacity| capacity.served()),
        };
        Measured {
            served,
            ..Measured::default()
        }
    }
}

/// Returns true if the server's own limit of parallel requests makes requests wait. If the server
/// forwards requests, the limit is its upstream's.
pub(super) fn has_limit(case: &Case<'_>) -> bool {
    let is_own = || downstream_wait::passes_on(case).is_none();
    capacity::of(case).is_some_and(|capacity| capacity.tally(case).is_some() && is_own())
}

/// Returns true if a rate limit or the upstream of a proxy makes requests wait.
fn is_of_others(case: &Case<'_>) -> bool {
    rate_limit::is_shown(case) || downstream_wait::passes_on(case).is_some()
}

/// Returns the claim on a server that handles several requests in parallel. Even intervals are
/// not needed.
fn several(case: &Case<'_>) -> Option<Claim> {
    let capacity = capacity::of(case).filter(|_| !is_of_others(case))?;
    let tally = capacity.tally(case)?;
    let mut claim = evidence::claim(Id::WorkerSaturation, Owner::Server, case, &tally);
    claim.exemplars = case.ledger.latency.slowest.exemplars();
    let text = format!(
        "{} came at an even {:.0} per second while {:.0} requests were open at the server: each \
         took {} (mean)",
        counted(capacity.answers as u64, "answer", "answers"),
        capacity.rate,
        capacity.side_by_side,
        human(capacity.loaded),
    );
    claim.evidence.push(
        Statement::shows(case.timed_by(), text)
            .count(capacity.answers as u64)
            .packets(&evidence::answers(&claim.exemplars)),
    );
    let text = format!(
        "a single request to the idle server took {}",
        human(capacity.alone)
    );
    claim
        .evidence
        .push(Statement::fits(EvidenceKind::OwnSocket, text));
    claim.basis = Basis::new(tally.affected, false);
    let served = format!("about {:.0}", capacity.served().max(1.0));
    tell_several(&mut claim, &tally, &served, capacity.alone, more(case));
    Some(claim)
}

/// Returns the claim on a server whose answers show how many requests it serves at a time.
fn of_slots(case: &Case<'_>, slots: &SlotQueue, tally: &Tally) -> Claim {
    let mut claim = evidence::claim(Id::WorkerSaturation, Owner::Server, case, tally);
    claim.exemplars = case.ledger.latency.slowest.exemplars();
    let answers = evidence::answers(&claim.exemplars);
    claim
        .evidence
        .extend(slots.evidence(case.timed_by(), &answers));
    claim.basis = Basis::new(tally.affected, false);
    let limit = call_limit(case, slots);
    claim
        .evidence
        .extend(limit.map(|limit| limit.evidence(slots.width)));
    let change = limit.map_or_else(|| more(case).to_owned(), CallLimit::change);
    tell_several(&mut claim, tally, &slots.served(), slots.each, &change);
    claim
}

/// Returns whom the server calls as many times at a time as it serves requests.
fn call_limit(case: &Case<'_>, slots: &SlotQueue) -> Option<CallLimit> {
    let calls = case.calls.of_host(case.endpoint);
    CallLimit::of(&calls, slots.width).filter(|_| case.has_packets)
}

/// Adds the title and the wording for `served` requests at a time, of which each takes `alone`.
fn tell_several(claim: &mut Claim, tally: &Tally, served: &str, alone: Duration, change: &str) {
    claim.text.title = format!("Requests wait: the server serves {served} at a time");
    SEVERAL.tell(
        claim,
        &[
            ("served", &served),
            ("alone", &human(alone)),
            ("saved", &median(&tally.saved)),
            ("change", &change),
        ],
    );
}

/// Returns the change at a server that handles a few requests in parallel.
fn more(case: &Case<'_>) -> &'static str {
    let general = if kernel_place::passed(case).is_some() {
        SHARED
    } else {
        UNWATCHED
    };
    one_thread::change_for(case, general)
}

/// Returns the claim on requests that wait for each other. No request met the server idle, so the
/// reason may be work or a limit.
fn in_turns(case: &Case<'_>, gate: &Gate, tally: &Tally) -> Claim {
    let mut claim = of_gate(case, gate, tally);
    tell(&IN_TURNS, &mut claim, case, gate, tally);
    claim.candidates.push(Candidate {
        cause: Id::RateLimit,
        because: format!("{:.1} requests per second may be a limit", gate.rate()),
        decided_by:
            "one request to the idle server: with a limit it is answered immediately, with \
                     work it takes one turn"
                .to_owned(),
    });
    claim
}

fn claim(case: &Case<'_>, gate: &Gate, tally: &Tally) -> Claim {
    let mut claim = of_gate(case, gate, tally);
    let text = format!(
        "a request that reached an idle server took {} as well",
        human(gate.quickest)
    );
    claim.evidence.push(Statement::shows(case.timed_by(), text));
    claim.basis = Basis::new(tally.affected, false);
    tell(&WORDING, &mut claim, case, gate, tally);
    claim
}

/// Returns a claim with the even intervals as evidence.
fn of_gate(case: &Case<'_>, gate: &Gate, tally: &Tally) -> Claim {
    let mut claim = evidence::claim(Id::WorkerSaturation, Owner::Server, case, tally);
    claim.exemplars = case.ledger.latency.slowest.exemplars();
    let answers = evidence::answers(&claim.exemplars);
    claim
        .evidence
        .push(gate.evidence(case.timed_by(), &answers));
    claim
}

/// Adds a wording for even intervals to the claim.
fn tell(wording: &Wording, claim: &mut Claim, case: &Case<'_>, gate: &Gate, tally: &Tally) {
    wording.tell(
        claim,
        &[
            ("turn", &human(gate.turn)),
            ("saved", &median(&tally.saved)),
            ("quickest", &human(gate.quickest)),
            ("change", &one_thread::change_for(case, MORE_WORKERS)),
        ],
    );
}
