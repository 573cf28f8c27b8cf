//! `socket-queue-dwell`: only the server's own kernel distinguishes it from a program that thinks.

use super::kernel_place::KernelPlace;
use super::rhythm::Stall;
use super::served;
use super::settings::Measured;
use super::silence::{times, typical};
use super::wording::Wording;
use super::{Case, Conclusion, Id, capacity, evidence, one_thread};
use crate::claim::{Basis, Claim, Statement};
use crate::exchange::wait::Owner;
use crate::report::{EvidenceKind, counted};
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: " in the socket's queue: the kernel has the request, but the program has not read it \
              yet. Find out what the program does instead.",
    ruled_out: &[],
    overturned_by: "`Recv-Q` in `ss -tn` on the server at 0 while requests wait",
    fix: &[
        ("server", "{change}"),
        (
            "server",
            "no blocking calls in an event loop: disk, name lookups, locks, long computations",
        ),
        (
            "server",
            "if a pool reads only at intervals, or only when a worker is free, make it read \
             immediately",
        ),
    ],
};

/// The wording if requests wait only at times.
const BLOCKED: Wording = Wording {
    summary: "One request keeps all others waiting at times, for {length}, {times} during the \
              measurement; {met} of {of} requests were affected, {share} of all request time. The \
              kernel has them, but the program's thread works on another request, or sleeps in it.",
    ruled_out: &[(
        Id::StopTheWorld,
        "a thread had a request in hand, and the others were left for it to read",
    )],
    ..WORDING
};

/// The change at a server that can have several workers or threads.
const MORE_WORKERS: &str = "if all workers or threads are busy: more of them";

/// Watches requests that wait in the sockets' queues while the program does something else.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let found = served::claim(Id::SocketQueueDwell, case, |place| {
            place == KernelPlace::Unread
        });
        found
            .map(|(claim, _)| told(claim, case))
            .or_else(|| blocked(case))
            .into()
    }

    fn measured(&self, case: &Case<'_>) -> Measured {
        Measured {
            served: capacity::at_limit(case)
                .map(|capacity| capacity.served())
                .or_else(|| Some(case.rhythm.slots()?.width as f64)),
            ..Measured::default()
        }
    }
}

/// Returns the claim on requests that wait at times because the program works on another one.
fn blocked(case: &Case<'_>) -> Option<Claim> {
    let (stalls, tally, stood) = case.rhythm.blocked(case)?;
    let mut claim = evidence::claim(Id::SocketQueueDwell, Owner::Server, case, &tally);
    claim.exemplars = case.ledger.latency.slowest.exemplars();
    let mut lengths: Vec<_> = stalls.iter().map(Stall::duration).collect();
    lengths.sort_unstable();
    let length = typical(&lengths);
    let text = format!(
        "{} no request was answered for {length}; then all waiting requests were answered within \
         moments of each other",
        times(stalls.len()),
    );
    claim.evidence.push(
        Statement::shows(EvidenceKind::Wire, text)
            .count(stalls.len() as u64)
            .median(&tally.saved)
            .packets(&evidence::answers(&claim.exemplars)),
    );
    let text = format!(
        "in {} of these times its kernel saw one thread at a request that it had read, and {} \
         unread although their thread was not waiting for a processor",
        stood.blocked,
        counted(stood.unread, "request", "requests"),
    );
    claim
        .evidence
        .push(Statement::shows(EvidenceKind::KernelTrace, text).count(stood.unread));
    claim.basis = Basis::new(tally.affected, false);
    let affected = claim.affected;
    BLOCKED.tell(
        &mut claim,
        &[
            ("length", &length),
            ("times", &times(stalls.len())),
            ("met", &affected.exchanges),
            ("of", &affected.of),
            ("change", &one_thread::change_for(case, MORE_WORKERS)),
        ],
    );
    Some(claim)
}

fn told(mut claim: Claim, case: &Case<'_>) -> Claim {
    let change = one_thread::change_for(case, MORE_WORKERS);
    WORDING.tell(&mut claim, &[("change", &change)]);
    claim
}
