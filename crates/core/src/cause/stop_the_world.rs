//! The rule of the cause `stop-the-world`.

use super::candidates::QUOTA_PERIOD;
use super::evidence::{self, human};
use super::rhythm::{Nature, OCCASIONS, Stall, Stood};
use super::silence::{LoadSilences, times, typical};
use super::wording::Wording;
use super::{Case, Conclusion, Id, one_thread};
use crate::claim::{Basis, Ceiling, Claim, Statement};
use crate::exchange::wait::Owner;
use crate::report::{Candidate, EvidenceKind, counted};
use crate::service::tally::Tally;
use crate::stats::Merge;

const WORDING: Wording = Wording {
    summary: "The whole server stalls at times, for {length}, {times} during the measurement; \
              {met} of {of} requests were affected, {share} of all request time. All connections \
              wait together and resume together.",
    ruled_out: &[],
    overturned_by: "the server's log showing that it was running at these times: then the stall is \
                    before the server (a load balancer, the machine, the path)",
    fix: &[
        (
            "server",
            "find what stops the whole process: its own log (of the garbage collector, such as \
             -Xlog:gc*,safepoint, or of slow commands), `perf sched`, `dmesg`",
        ),
        ("server", "{change}"),
        (
            "server's machine",
            "look for pauses of the virtual machine (steal time, migration, snapshots)",
        ),
    ],
};

/// The wording for silences, whose summary is already complete.
const OF_SILENCES: Wording = Wording {
    summary: "",
    ..WORDING
};

/// The look-alike that is ruled out by stalls longer than a quota's period.
const LONG: Wording = Wording {
    ruled_out: &[(
        Id::CpuQuota,
        "a CPU quota lets its processes run again after at most {period}; here nothing was \
         answered for {shortest} or longer",
    )],
    ..Wording::NONE
};

/// The change at a server whose program is not known.
const NOTHING_LONG: &str = "if a garbage collector stops it, use a concurrent one and a heap of \
                            the right size; if one thread serves everything, run no blocking or \
                            long work in it";

/// Watches for periods in which no request is answered on any connection, and after which all
/// waiting requests are answered together.
///
/// The signs are that the stall affects all connections, and that it is rare: at least three
/// connections wait together, no request is answered in the meantime, and most requests are quick.
/// A single slow request has another cause.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        match case.rhythm.claim(case) {
            _ if lacks_processors(case) => Conclusion::Nothing,
            Some((Nature::Stops(stalls), tally)) => {
                Conclusion::Claim(Box::new(claim(case, stalls, tally)))
            }
            Some(_) => Conclusion::Nothing,
            None if case.rhythm.has_run(case) => Conclusion::Nothing,
            None => LoadSilences::of(case)
                .and_then(|silences| Some(told(silences.claim(case)?, case)))
                .into(),
        }
    }
}

/// Returns true if the server on this host stands still because others use the processors, and its
/// kernel does not show that its threads could run.
fn lacks_processors(case: &Case<'_>) -> bool {
    let is_shown = match case.rhythm.claim(case) {
        Some((Nature::Stops(stalls), _)) => {
            case.rhythm.stood(stalls, case).is_some_and(Stood::is_shown)
        }
        _ => false,
    };
    case.target.is_some() && case.facts.loads.lacks_processors() && !is_shown
}

/// Returns the evidence from the server's own kernel. It does not show why nobody read: what else
/// the program had to do is not seen, such as a request on another socket.
fn shown(stood: Stood) -> Statement {
    let text = format!(
        "its kernel saw {} stay unread in {} of these times: no thread read or wrote on the \
         connections that were examined, none was at work on a request from them, and those that \
         read later did not wait for a processor; other sockets of the program were not examined",
        counted(stood.unread, "request", "requests"),
        stood.still,
    );
    Statement::shows(EvidenceKind::KernelTrace, text).count(stood.unread)
}

/// Returns the candidate for requests that wait together for something behind the server.
fn shared() -> Candidate {
    Candidate {
        cause: Id::DownstreamWait,
        because: "all requests may wait for one thing behind the server: a lock in a database, a \
                  pool, a resolver"
            .to_owned(),
        decided_by:
            "lagtrace watch on the server: a stop leaves requests unread, and threads that \
                     wait for something have read theirs"
                .to_owned(),
    }
}

fn claim(case: &Case<'_>, stalls: &[Stall], tally: &Tally) -> Claim {
    let mut claim = evidence::claim(Id::StopTheWorld, Owner::Server, case, tally);
    claim.exemplars = case.ledger.latency.slowest.exemplars();
    let mut lengths: Vec<_> = stalls.iter().map(Stall::duration).collect();
    lengths.sort_unstable();
    let length = typical(&lengths);
    let connections: usize = stalls.iter().map(|stall| stall.connections).sum();
    let text = format!(
        "{} no request was answered for {length}; then all waiting requests, on {}{}, were \
         answered within moments of each other",
        times(stalls.len()),
        counted(
            (connections / stalls.len().max(1)) as u64,
            "connection",
            "connections"
        ),
        if stalls.len() > 1 { " (mean)" } else { "" },
    );
    claim.evidence.push(
        Statement::shows(EvidenceKind::Wire, text)
            .count(stalls.len() as u64)
            .median(&tally.saved)
            .packets(&evidence::answers(&claim.exemplars)),
    );
    let stood = case
        .rhythm
        .stood(stalls, case)
        .filter(|stood| stood.is_shown());
    // Requests that share one thing behind the server, such as a lock in a database, wait together
    // too, and have been read.
    let may_be_shared = stood.is_none();
    claim.evidence.extend(stood.map(shown));
    claim.candidates.extend(may_be_shared.then(shared));
    let silences = LoadSilences::of(case);
    let before = silences.as_ref().map_or(0, |silences| silences.count);
    // Our own sockets show the same as packets, at other times.
    claim.evidence.extend(
        silences
            .as_ref()
            .map(|silences| silences.evidence(case).shown_if(false)),
    );
    // Any host may stall once or twice.
    let is_rare = stalls.len() + before < OCCASIONS;
    claim.basis = Basis::new(tally.affected, may_be_shared);
    if is_rare {
        claim.basis.cap(Ceiling::Rare);
    }
    if let Some(shortest) = lengths.first().filter(|&&shortest| shortest > QUOTA_PERIOD) {
        LONG.tell(
            &mut claim,
            &[
                ("period", &human(QUOTA_PERIOD)),
                ("shortest", &human(*shortest)),
            ],
        );
    }
    let affected = claim.affected;
    WORDING.tell(
        &mut claim,
        &[
            ("length", &length),
            ("times", &times(stalls.len())),
            ("met", &affected.exchanges),
            ("of", &affected.of),
            ("change", &change(case)),
        ],
    );
    claim
}

/// Adds the texts that a claim on silences does not have yet.
fn told(mut claim: Claim, case: &Case<'_>) -> Claim {
    OF_SILENCES.tell(&mut claim, &[("change", &change(case))]);
    claim
}

/// Returns the change to make in the server's program.
fn change(case: &Case<'_>) -> &'static str {
    one_thread::change_for(case, NOTHING_LONG)
}
