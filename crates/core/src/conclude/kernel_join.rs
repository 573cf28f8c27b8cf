//! Comparison of claims from packets with the server's own kernel, which timed the same
//! exchanges. Remarks say where the two disagree.

use crate::cause::Case;
use crate::cause::evidence::{self, REPEATS, human, median, percent};
use crate::claim::{Ceiling, Claim, Statement};
use crate::exchange::wait::{Owner, WaitKind};
use crate::observed::kernel_span::{RequestSpan, Stage as TurnStage};
use crate::registry::Id;
use crate::report::{
    Candidate, CountOf, Disagreement, EvidenceKind, Figures, JoinedTurns, Remark, Stage, WaitSplit,
    counted,
};
use crate::service::kernel_join::{KINDS, Served, Split};
use crate::service::tally::Tally;

/// Stages explain a wait if they cover at least this part of the packets' wait.
const EXPLAINED: f64 = 0.8;
/// A claim is contradicted if the server's kernel timed less than this part of the packets' wait
/// as its own. Most of the wait then passed elsewhere.
const CONTRADICTED: f64 = 0.5;
/// A stage is mentioned only if it takes at least this share of the wait.
const WORTH_SAYING: f64 = 0.02;

/// Returns the figures of the joined exchanges for the report; `None` if no exchange was joined.
pub(super) fn joined(served: &Served) -> Option<JoinedTurns> {
    (served.exchanges > 0).then(|| JoinedTurns {
        exchanges: CountOf {
            count: served.exchanges,
            of: served.offered,
        },
        waits: served.splits().map(|(kind, of)| split(kind, of)).collect(),
        beyond: disagreement(&served.beyond, served.exchanges),
        within: disagreement(&served.within, served.exchanges),
    })
}

fn split(wait: WaitKind, split: &Split) -> WaitSplit {
    let stages = RequestSpan::STAGES.iter().zip(&split.stages);
    WaitSplit {
        wait,
        packets_ns: Figures::from(&split.packets),
        host_ns: Figures::from(&split.host),
        stages: stages
            .map(|(name, took)| Stage {
                name: (*name).to_owned(),
                time_ns: Figures::from(took),
            })
            .collect(),
    }
}

fn disagreement(tally: &Tally, of: u64) -> Disagreement {
    Disagreement {
        exchanges: CountOf {
            count: tally.affected,
            of,
        },
        time_ns: Figures::from(&tally.saved),
    }
}

/// Adds the kernel's times of the claim's waits to the claim.
///
/// # Errors
/// Returns a remark instead of the claim, if the kernel shows that the waits were not the
/// server's.
pub(crate) fn weigh(mut claim: Claim, served: &Served) -> Result<Claim, Remark> {
    let splits = || splits(&claim, served);
    if is_contradicted(&claim, served) {
        let said: Vec<_> = splits()
            .map(|(kind, split)| text(kind, split, served))
            .collect();
        return Err(withheld(&claim, &said.join("; ")));
    }
    let stages = mechanism(&claim);
    let (mut shown, mut unseen) = (Vec::new(), None);
    for (kind, split) in splits() {
        let is_explained = split.share(stages) >= EXPLAINED && split.host_share() >= EXPLAINED;
        let text = text(kind, split, served);
        let told = Statement::fits(EvidenceKind::KernelTrace, text).count(split.packets.count());
        shown.push(told.shown_if(is_explained && !stages.is_empty()));
        if claim.cause == Id::ServerThink && split.share(stages) < CONTRADICTED {
            unseen = unsent(split);
        }
    }
    claim.evidence.extend(shown);
    if is_servers(&claim)
        && claim
            .time
            .waits
            .iter()
            .any(|&kind| is_renamed(kind, served))
    {
        // The other exchanges were not joined, and may have waited for the same reason.
        claim.basis.cap(Ceiling::Renamed);
        return Ok(claim);
    }
    if let Some(candidate) = unseen {
        claim.basis.cap(Ceiling::NotInProgram);
        claim.candidates.insert(0, candidate);
    }
    Ok(claim)
}

/// Returns the waits of the claim that the server's kernel timed in many exchanges.
fn splits<'a>(
    claim: &Claim,
    served: &'a Served,
) -> impl Iterator<Item = (WaitKind, &'a Split)> + use<'a> {
    let waits = claim.time.waits.clone();
    let meant = move |(kind, split): &(WaitKind, &Split)| {
        waits.contains(kind) && split.packets.count() >= REPEATS
    };
    // If the kernel renames all waits of these kinds, the waits are selected by the kind that the
    // packets show.
    let named = served.named().filter(meant.clone());
    let is_gone = named.clone().next().is_none();
    let shown = served.splits().filter(meant);
    named.chain(shown.filter(move |_| is_gone))
}

/// Returns true if the claim's waits are all the server's own. `qdisc-dwell` is also about the
/// round trip: its queue is the server's, but comes after the network stack.
fn is_servers(claim: &Claim) -> bool {
    claim.culprit == Owner::Server && claim.time.waits.iter().all(|kind| KINDS.contains(kind))
}

/// Returns true if the server's kernel shows that none of the claim's waits was the server's. A
/// claim of which it confirms one kind of wait stands.
pub(crate) fn is_contradicted(claim: &Claim, served: &Served) -> bool {
    let mut splits = splits(claim, served).peekable();
    is_servers(claim)
        && splits.peek().is_some()
        && splits.all(|(_, split)| split.host_share() < CONTRADICTED)
}

/// Returns true if the server's kernel gives most of the joined waits of this kind another kind.
fn is_renamed(kind: WaitKind, served: &Served) -> bool {
    let [shown, named] = served.counts(kind);
    shown >= REPEATS && named * 2 < shown
}

fn withheld(claim: &Claim, said: &str) -> Remark {
    let text = format!(
        "{}: {} is not reported although the packets alone would show it: {said}. The rest of the \
         time passed between the server's network stack and the capture point.",
        claim.service(),
        claim.cause
    );
    remark("host-contradicts", text)
}

/// Returns the stages in which a cause on the server spends its time. Empty if time in a stage does
/// not show that this cause is the reason.
fn mechanism(claim: &Claim) -> &'static [TurnStage] {
    if claim.culprit == Owner::Server {
        claim.cause.cause().stages
    } else {
        &[]
    }
}

/// Returns the candidate for responses that the program had written and the server's kernel held
/// back, for a reason other than Nagle's algorithm.
fn unsent(split: &Split) -> Option<Candidate> {
    (split.share(&[TurnStage::Sending]) >= EXPLAINED).then(|| Candidate {
        cause: Id::CorkHold,
        because: "its program had written the answers, and its kernel held them back".to_owned(),
        decided_by: "look for TCP_CORK on the accepted sockets and MSG_MORE in the server's sends"
            .to_owned(),
    })
}

/// Returns a sentence that compares the mean of one kind of wait in the packets with the kernel's,
/// over the same exchanges.
fn text(kind: WaitKind, split: &Split, served: &Served) -> String {
    let what = match kind {
        WaitKind::ServerThink => "silent",
        WaitKind::ServerPause => "pausing",
        _ => "holding its answers back",
    };
    let packets = split.packets.mean().unwrap_or_default();
    let named = RequestSpan::STAGES.iter().zip(&split.stages);
    let mut parts: Vec<_> = named
        .map(|(name, stage)| (stage.mean().unwrap_or_default(), meaning(name)))
        .filter(|(mean, _)| mean.as_secs_f64() >= packets.as_secs_f64() * WORTH_SAYING)
        .collect();
    parts.sort_by_key(|(mean, _)| core::cmp::Reverse(*mean));
    let parts: Vec<_> = parts
        .into_iter()
        .map(|(mean, meaning)| format!("{} {meaning}", human(mean)))
        .collect();
    let whole = if parts.is_empty() {
        format!("{} in all", human(split.host.mean().unwrap_or_default()))
    } else {
        parts.join(", ")
    };
    let count = split.packets.count();
    let [shown, named] = served.counts(kind);
    // The packets do not show waits to which only the kernel gives this kind.
    let who = if count == named && named > shown {
        format!(
            ", {} of them by its kernel alone{}) that the server was",
            count - shown,
            sample(served)
        )
    } else {
        format!("{}) that the packets show the server", sample(served))
    };
    format!(
        "of {} (mean of {}{who} {what}, its kernel shows {whole}",
        human(packets),
        counted(count, "request", "requests"),
    )
}

/// Returns a clause on the part of the requests that was joined; empty if all were.
fn sample(served: &Served) -> String {
    if served.exchanges < served.offered {
        format!(
            "; {} of {} could be joined to it",
            served.exchanges, served.offered
        )
    } else {
        String::new()
    }
}

fn meaning(stage: &str) -> &str {
    match stage {
        "backlog" => "waiting for its network stack",
        "stack" => "in its network stack",
        "unread" => "unread in the socket's queue",
        "wake-up" => "with the program's thread runnable while its processor woke from idle",
        "run-queue" => "with the program's thread runnable but without a processor",
        "program" => "between the program's read and its write",
        "waiting" => "with the program's thread asleep",
        "held" => "held by Nagle's algorithm",
        "sending" => "written but not sent",
        "qdisc" => "in the queue of its own device",
        other => other,
    }
}

/// Returns the remarks on disagreements between packets and kernel, and on exchanges that could not
/// be joined to turns.
pub(super) fn remarks(case: &Case<'_>, served: &Served) -> Vec<Remark> {
    let is_told =
        |tally: &Tally| evidence::is_material(case, tally) && evidence::recurs(case, tally);
    let mut list = Vec::new();
    if is_told(&served.beyond) {
        list.push(remark("host-answered-sooner", beyond(case, served)));
    }
    if is_told(&served.within) {
        list.push(remark("host-took-longer", within(case, served)));
    }
    let turns = case.facts.turns.services.get(&case.endpoint);
    let turns = turns.map_or(0, |turns| turns.turns);
    if case.target.is_some() && served.exchanges == 0 && turns >= REPEATS {
        list.push(remark("host-unmatched", unmatched(case, turns)));
    }
    list
}

fn beyond(case: &Case<'_>, served: &Served) -> String {
    let (tally, [said, _]) = (&served.beyond, &served.said);
    format!(
        "{}: packets and the server's kernel disagree in {} of {}. By the same clock, the server's \
         host had sent the whole answer {} (median) sooner than the packets show: {} by its \
         kernel, {} by the packets (medians). The difference passed between the server's network \
         stack and the capture point (a device's queue, a virtual switch, the path). The packets \
         alone would attribute it to the server.",
        case.endpoint,
        tally.affected,
        counted(served.exchanges, "request", "requests"),
        median(&tally.saved),
        median(&said.host),
        median(&said.packets),
    )
}

fn within(case: &Case<'_>, served: &Served) -> String {
    let (tally, [_, said]) = (&served.within, &served.said);
    format!(
        "{}: packets and the server's kernel disagree in {} of {}. By the same clock, the server's \
         host took {} (median) longer than the packets allow ({} by its kernel, at most {} by the \
         packets, medians). So the round trip is overestimated, and {} of the time attributed to \
         the path is the server's.",
        case.endpoint,
        tally.affected,
        counted(served.exchanges, "request", "requests"),
        median(&tally.saved),
        median(&said.host),
        median(&said.packets),
        percent(tally.cost.likely as f64 / case.ledger.total().max(1) as f64),
    )
}

fn unmatched(case: &Case<'_>, turns: u64) -> String {
    format!(
        "{}: its kernel was watched, but none of the {} that it timed could be joined to packets \
         or timestamps of the same connection and time.",
        case.endpoint,
        counted(turns, "request", "requests"),
    )
}

fn remark(id: &str, text: String) -> Remark {
    Remark {
        id: id.to_owned(),
        text,
    }
}
