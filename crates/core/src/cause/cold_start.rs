//! The rule of the cause `cold-start`.

use super::evidence::{self, human};
use super::rhythm::{Nature, Stall};
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::wait::{Owner, WaitKind};
use crate::report::{EvidenceKind, counted};
use crate::service::tally::Tally;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The first requests wait {took} for something that the server does once, and all \
              requests that arrive in that time wait with them. Later ones wait only {ordinary} \
              (median). The wait is {share} of all request time seen.",
    ruled_out: &[],
    overturned_by: "the same wait later on, when the server is warm: then it is a stall",
    fix: &[
        (
            "server",
            "warm up before taking traffic: load, compile and connect at start, and only then pass \
             the readiness check",
        ),
        (
            "server",
            "keep an instance alive (minimum instances, no scale to zero)",
        ),
    ],
};

/// The wording if the capture contains the handshakes, and no SYN was retransmitted.
const CONNECTED: Wording = Wording {
    ruled_out: &[(
        Id::ConnectionNotReused,
        "no connection had to retransmit its SYN, and the time before the request is not counted",
    )],
    ..WORDING
};

/// Watches a server's first requests. They wait together, and no later request waits like them.
///
/// The sign is that the server starts, and not the connection: the first requests of all early
/// connections are answered at the same time, and the first requests of later connections are
/// quick.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        match case.rhythm.claim(case) {
            Some((Nature::Starts(stall), tally)) => {
                Conclusion::Claim(Box::new(claim(case, stall, tally)))
            }
            _ => Conclusion::Nothing,
        }
    }
}

fn claim(case: &Case<'_>, stall: &Stall, tally: &Tally) -> Claim {
    let mut claim = evidence::claim(Id::ColdStart, Owner::Server, case, tally);
    claim.exemplars = case.ledger.latency.slowest.exemplars();
    let (took, ordinary) = (human(stall.duration()), human(case.rhythm.ordinary));
    let text = format!(
        "the server answered the first {}, on {}, together after {took}, and later ones after \
         {ordinary} (median), without network transit",
        counted(stall.requests as u64, "request", "requests"),
        counted(stall.connections as u64, "connection", "connections"),
    );
    claim.evidence.push(
        Statement::shows(EvidenceKind::Wire, text)
            .count(stall.requests as u64)
            .packets(&evidence::answers(&claim.exemplars)),
    );
    // The start happened only once, and a stall during the first requests looks the same.
    claim.basis = Basis::new(tally.affected, true);
    let setups = &case.ledger.setups;
    let is_connected = setups.waits.of(WaitKind::Recovery) == 0 && setups.count > 0;
    let wording = if is_connected { &CONNECTED } else { &WORDING };
    wording.tell(&mut claim, &[("took", &took), ("ordinary", &ordinary)]);
    claim
}
