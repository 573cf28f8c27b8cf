//! The rule of the cause `downstream-wait`.

use core::time::Duration;

use super::behind::{self, CallDelay, DelayReason};
use super::evidence::{self, human, median};
use super::kernel_place::{self, KernelPlace};
use super::served::KernelCalls;
use super::settings::PASSING;
use super::thinking::{ThinkTime, with_the_server};
use super::upstream::{Pair, Upstream, UpstreamRole, claimed};
use super::upstream_calls::are_many;
use super::upstream_connection_churn::are_setups;
use super::wording::Wording;
use super::{Case, Conclusion, Id, capacity, rate_limit};
use crate::claim::{Basis, Callee, Ceiling, Claim, Statement};
use crate::exchange::wait::Owner;
use crate::observed::event::ConfigurationLine;
use crate::observed::time::nanos;
use crate::report::{Candidate, EvidenceKind, counted};
use crate::service::tally::Tally;
use crate::stats::Merge;

/// Below this time, an upstream may only have waited for a processor that others use.
const SHORT: Duration = Duration::from_millis(10);

const WORDING: Wording = Wording {
    summary: "The server answers late because {behind}, which it calls for each request, answers \
        late: {took} (median), {share} of all request time. The server's own part is small.",
    ruled_out: &[(
        Id::ServerThink,
        "the time passes between its request to {behind} and the answer",
    )],
    overturned_by: "the server's log showing that its calls to {behind} are not made for these \
        requests",
    fix: &[
        (
            "{behind}",
            "find out what it does in that time: diagnose the requests to it",
        ),
        (
            "server",
            "call it less often (a cache), or in parallel instead of one call after the other",
        ),
    ],
};

/// The wording if the upstream is called for some requests, or beside others.
const AMONG_OTHERS: Wording = Wording {
    summary: "The server answers late because {behind}, which it calls for these requests, answers \
        late: {took} (median), {share} of all request time.",
    ..WORDING
};

/// The wording if the way to the upstream takes the time.
const ON_THE_WAY: Wording = Wording {
    summary: "The server waits for {behind}, which it calls for these requests: {took} (median), {share} \
        of all request time. {behind} itself takes {own} of a call; the rest is the way there, with \
        what is sent over it.",
    fix: &[
        (
            "path",
            "find out what takes the time between the server and {behind}: distance, bandwidth or losses \
             (a finding at {behind} tells which)",
        ),
        (
            "server",
            "call it less often (a cache), in parallel instead of one call after the other, or run it \
             nearer",
        ),
    ],
    ..WORDING
};

/// The wording if the upstream may be far away as well.
const LATE_OR_FAR: Wording = Wording {
    summary: "The server waits for {behind}, which it calls for each request: {took} (median), {share} \
        of all request time. {behind} answers late, or is that far away: only its answers were seen, \
        and no reply of its kernel that would show the distance.",
    fix: &[
        (
            "{behind}",
            "measure the round trip to it first; what is left is its own time: diagnose the requests \
             to it",
        ),
        (
            "server",
            "call it less often (a cache), or in parallel instead of one call after the other",
        ),
    ],
    ..WORDING
};

/// The wording if the server's own kernel was watched.
const WATCHED: Wording = Wording {
    summary: " between its own request to {behind} and the answer: the server is late because \
              {behind} is late.",
    ruled_out: &[],
    ..WORDING
};

/// The wording if the way there may take the time.
const WATCHED_FAR: Wording = Wording {
    summary: " between its own request to {behind} and the answer: {behind} answers late, or is that far \
              away. The round trips of these sockets are as long, and nothing shows whether they are \
              the way or the answers.",
    ruled_out: &[],
    ..LATE_OR_FAR
};

/// The wording if connections are made for the requests.
const WATCHED_CONNECTING: Wording = Wording {
    summary: " in calls of {behind} over connections that were made for them: {behind} answers late, or \
              setting the connections up takes the time.",
    ruled_out: &[],
    fix: &[
        (
            "server",
            "keep connections to {behind} open and use them again",
        ),
        (
            "{behind}",
            "find out what it does in that time: diagnose the requests to it",
        ),
    ],
    ..WORDING
};

/// The wording for a proxy that is known from its configuration.
const CONFIGURED: Wording = Wording {
    summary: "The server forwards these requests to {behind} and takes {took} (median) until its \
              answer begins, {share} of all request time: it is late because {behind} is late, or \
              the path to it.",
    ruled_out: &[],
    overturned_by: "the server's log showing that {behind} answers sooner \
        (`$upstream_response_time` beside `$request_time`)",
    ..WORDING
};

/// Watches servers whose think time is the time of their own request to an upstream. The capture
/// contains both requests.
///
/// The sign is the server's own request. It begins right after the client's request arrived, and
/// the upstream's think time is most of the client's wait. If the capture does not contain the
/// server's own request, the cause is `server-think`.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let found = match claimed(case, &[UpstreamRole::Thinks]) {
            Some((upstream, _, tally)) => Some(claim(case, upstream, tally)),
            None => behind::claimed(case, &[DelayReason::IsSlow, DelayReason::IsFar])
                .map(|delay| slow(case, delay))
                .or_else(|| watched(case))
                .or_else(|| configured(case)),
        };
        found
            .and_then(|claim| allowing_for_processors(case, claim))
            .into()
    }
}

/// Returns the claim as far as it holds on a host whose processors others use: an upstream on the
/// same host may only have waited for one. A short wait is not told then, and a long one is possible.
fn allowing_for_processors(case: &Case<'_>, mut claim: Claim) -> Option<Claim> {
    if !case.facts.loads.lacks_processors() {
        return Some(claim);
    }
    let each = claim.time.cost.likely / claim.affected.exchanges.max(1);
    claim.basis.cap(Ceiling::LacksProcessors);
    show_place_only(&mut claim);
    (each >= nanos(SHORT)).then_some(claim)
}

/// Makes the claim's evidence show where the time passed, and not that the upstream needs it.
fn show_place_only(claim: &mut Claim) {
    let evidence = core::mem::take(&mut claim.evidence).into_iter();
    claim.evidence = evidence
        .map(|statement| statement.shown_if(false))
        .collect();
}

/// Returns the line of the server's configuration that forwards these requests to an upstream;
/// `None` if the kernel shows that their time passes elsewhere.
pub(super) fn passes_on<'a>(case: &Case<'a>) -> Option<&'a ConfigurationLine> {
    let target = case.target?;
    let mut lines = PASSING
        .iter()
        .filter_map(|directive| case.facts.setting(target, directive));
    let line = lines.find(|line| !line.value.is_empty() && line.set_at.is_some())?;
    let is_elsewhere = kernel_place::passed(case)
        .is_some_and(|passed| passed.has_rule() || passed.place == KernelPlace::RunQueue);
    (!is_elsewhere).then_some(line)
}

/// Returns the claim on a proxy that is known from its configuration. Forwarding takes a proxy
/// only microseconds of work, so the upstream takes the rest.
fn configured(case: &Case<'_>) -> Option<Claim> {
    let line = passes_on(case)?;
    if rate_limit::is_shown(case) {
        return None;
    }
    let ThinkTime::Thinks(tally) = case.gathered.thinking.claim(case)? else {
        return None;
    };
    let mut claim = evidence::claim(Id::DownstreamWait, Owner::Server, case, &tally);
    claim.exemplars = case.gathered.thinking.tally().exemplars();
    claim.evidence = vec![with_the_server(case, &tally)];
    if let Some(capacity) = capacity::of(case) {
        let text = format!(
            "about {:.0} requests are served at a time, and each takes {} alone; the others wait: \
             the limit is behind {}",
            capacity.served().max(1.0),
            human(capacity.alone),
            line.program
        );
        let kind = EvidenceKind::OwnSocket;
        claim.evidence.push(Statement::fits(kind, text));
    }
    claim.evidence.extend(kernel_place::shown(case));
    // The time includes the setup of upstream connections, which cannot be separated.
    claim.basis = Basis::new(tally.affected, false);
    CONFIGURED.tell(
        &mut claim,
        &[("behind", &line.value), ("took", &median(&tally.saved))],
    );
    Some(claim)
}

/// Returns the claim on a server whose kernel showed which service its threads waited for.
fn watched(case: &Case<'_>) -> Option<Claim> {
    let calls = KernelCalls::of(case)?;
    let has_rule = are_many(&calls) || are_setups(&calls) || calls.are_unanswered();
    if has_rule {
        return None;
    }
    let mut claim = calls.claim(Id::DownstreamWait, case)?;
    let look_alike = look_alike(&calls);
    let wording = match &look_alike {
        Some(other) if other.cause == Id::SplitConnectionProxy => &WATCHED_FAR,
        Some(_) => &WATCHED_CONNECTING,
        None => &WATCHED,
    };
    if look_alike.is_some() {
        claim.basis = Basis::new(claim.affected.exchanges, true);
        show_place_only(&mut claim);
    }
    claim.candidates.extend(look_alike);
    wording.tell(&mut claim, &[("behind", &calls.name())]);
    Some(claim)
}

/// Returns what else than work of the called service may take the time of the calls.
fn look_alike(calls: &KernelCalls) -> Option<Candidate> {
    if calls.contain_setups() {
        return Some(Candidate {
            cause: Id::UpstreamConnectionChurn,
            because:
                "its threads connected anew for most of these requests: what they waited for may \
                      be the handshake of TLS or of the protocol"
                    .to_owned(),
            decided_by: "a capture on the server's host that contains these connections".to_owned(),
        });
    }
    calls.may_be_far().then(far)
}

/// Returns the claim on the callee whose answers fill the waits, among other calls of the server.
fn slow(case: &Case<'_>, delay: &CallDelay) -> Claim {
    let text = format!(
        "{} of the server were filled by {} to {}, which took {} (median)",
        counted(delay.tally.affected, "wait", "waits"),
        if delay.is_lookup {
            "lookups at the resolver"
        } else {
            "its host's own requests"
        },
        delay.behind,
        human(delay.each),
    );
    let mut claim = delay.claim(Id::DownstreamWait, case, text);
    claim
        .candidates
        .extend((delay.reason == DelayReason::IsSlow && delay.may_be_far).then(far));
    let wording = match delay.reason {
        DelayReason::IsFar => &ON_THE_WAY,
        _ if delay.may_be_far => &LATE_OR_FAR,
        _ => &AMONG_OTHERS,
    };
    wording.tell(
        &mut claim,
        &[
            ("behind", &delay.behind),
            ("took", &median(&delay.tally.saved)),
            ("own", &human(delay.own)),
        ],
    );
    claim
}

fn claim(case: &Case<'_>, upstream: &Upstream, tally: &Tally) -> Claim {
    let mut claim = evidence::claim(Id::DownstreamWait, Owner::Server, case, tally);
    claim.exemplars = case.ledger.latency.slowest.exemplars();
    let behind = upstream.endpoint;
    claim.callee = Some(Callee {
        at: behind,
        is_silent: false,
    });
    let text = format!(
        "{} followed to {behind}, which took {} (median) of the {} that the server's clients \
         waited",
        counted(upstream.pairs.len() as u64, "request was", "requests were"),
        human(upstream.median(Pair::late)),
        human(upstream.median(|pair| pair.front.think())),
    );
    claim.evidence.push(
        Statement::shows(EvidenceKind::Wire, text)
            .count(tally.affected)
            .median(&tally.saved)
            .packets(&evidence::answers(&claim.exemplars)),
    );
    let may_be_far = upstream.may_be_far();
    claim.candidates.extend(may_be_far.then(far));
    claim.basis = Basis::new(tally.affected, may_be_far);
    let wording = if may_be_far { &LATE_OR_FAR } else { &WORDING };
    wording.tell(
        &mut claim,
        &[("behind", &behind), ("took", &median(&tally.saved))],
    );
    claim
}

/// Returns the candidate for an upstream whose distance is not known.
fn far() -> Candidate {
    Candidate {
        cause: Id::SplitConnectionProxy,
        because:
            "the upstream's answers come after one and the same time at the soonest, as over a \
                  long path"
                .to_owned(),
        decided_by:
            "a capture that contains the handshakes of these connections, or `lagtrace probe` \
                     to the upstream from the server"
                .to_owned(),
    }
}
