//! The rule of the cause `grpc-error`.

use core::cmp::Reverse;

use super::evidence;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::{Basis, Statement};
use crate::exchange::Outcome;
use crate::exchange::wait::Owner;
use crate::protocol::http2::status_name;
use crate::report::{Affected, EvidenceKind, counted};
use crate::stats::Merge;

/// The server failed.
const FAILS: Wording = Wording {
    summary: "{service} ends {part} of the gRPC calls with an error: {statuses}. Their HTTP status \
        is 200, and their latency says nothing about calls that succeed.",
    ruled_out: &[],
    overturned_by: "the same call ending with grpc-status 0",
    fix: &[(
        "server",
        "read its error log; UNAVAILABLE and DEADLINE_EXCEEDED: what it calls is down or slow; \
         RESOURCE_EXHAUSTED: its limits and message sizes",
    )],
};
/// Only statuses that say that the call was wrong.
const REJECTS: Wording = Wording {
    summary: "{service} rejects {part} of the gRPC calls: {statuses}. Either these calls are wrong, \
        or the server lacks what they ask for. Their HTTP status is 200, and their latency says \
        nothing about calls that succeed.",
    fix: &[
        (
            "client",
            "check the method, the message and the credentials of the calls",
        ),
        (
            "server",
            "if the calls are right, find in its log why it rejects them",
        ),
    ],
    ..FAILS
};

/// Maximum number of statuses in the evidence.
const MOST_TOLD: usize = 4;
/// Statuses that tell of a failure of the server: UNKNOWN, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED,
/// ABORTED, INTERNAL, UNAVAILABLE, DATA_LOSS.
const FAILURES: [u8; 7] = [2, 4, 8, 10, 13, 14, 15];

/// Counts calls that ended with a status other than OK.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let mut failed = Vec::new();
        for (outcome, n) in case.ledger.counts.outcomes.iter() {
            if let Outcome::Grpc(status) = outcome {
                failed.push((status, n));
            }
        }
        let (failures, all) = (
            failed.iter().map(|&(_, n)| n).sum::<u64>(),
            case.ledger.uncut(),
        );
        if failures == 0 || (failures as f64) < all as f64 * evidence::FAILING_SHARE {
            return Conclusion::Nothing;
        }
        failed.sort_by_key(|&(status, n)| (Reverse(n), status));
        let is_fault = failed.iter().any(|(status, _)| FAILURES.contains(status));
        failed.truncate(MOST_TOLD);
        let statuses: Vec<String> = failed
            .iter()
            .map(|&(status, n)| format!("grpc-status {status} ({}) ×{n}", status_name(status)))
            .collect();
        let statuses = statuses.join(", ");
        let culprit = if is_fault {
            Owner::Server
        } else {
            Owner::Unknown
        };
        let mut claim = evidence::bare_claim(Id::GrpcError, culprit, case);
        claim.affected = Affected {
            exchanges: failures,
            of: all,
        };
        let text = format!(
            "{failures} of {} ended with an error in their trailers ({statuses})",
            counted(all, "call", "calls"),
        );
        claim
            .evidence
            .push(Statement::shows(EvidenceKind::Wire, text).count(failures));
        claim.basis = Basis::new(failures, false);
        let wording = if is_fault { &FAILS } else { &REJECTS };
        wording.tell(&mut claim, &[("statuses", &statuses)]);
        Conclusion::Claim(Box::new(claim))
    }
}
