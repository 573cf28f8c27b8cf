//! The rule of the cause `upstream-unreachable`.

use super::behind::{CallDelay, DelayReason, claimed};
use super::evidence::{human, median};
use super::served::KernelCalls;
use super::wording::Wording;
use super::{Case, Conclusion, Id};
use crate::claim::Claim;
use crate::report::counted;
use crate::stats::Merge;

const PEER: Wording = Wording {
    summary: "Before it answers, the server tries to connect to {behind}, which does not answer its \
              SYNs: {took} (median) in each affected request, {share} of all request time. It answers \
              when it has given that up, or when a repeated SYN was answered.",
    ruled_out: &[(
        Id::ServerThink,
        "the waits last as long as the attempts to connect to {behind}",
    )],
    overturned_by: "the server's log showing that it does not try {behind} for these requests",
    fix: &[
        (
            "{behind}",
            "find out why it does not answer: is it up, is its accept queue full, does a firewall \
             drop packets to it",
        ),
        (
            "server",
            "take the address out of the list that it tries, or give up sooner: a shorter connect \
             timeout",
        ),
    ],
};

const RESOLVER: Wording = Wording {
    summary: "Before it answers, the server looks up a name, and its queries to the resolver {behind} \
              get no answer, or only when they are sent again: {took} (median) in each affected \
              request, {share} of all request time.",
    ruled_out: &[(
        Id::ServerThink,
        "the waits last as long as the lookups at {behind}",
    )],
    overturned_by: "the server's log showing that it looks up no name for these requests",
    fix: &[
        (
            "server",
            "ask a resolver that answers (/etc/resolv.conf; a cache on the host), or switch the lookup \
             off: many servers look up their clients' addresses only for their logs",
        ),
        ("{behind}", "find out why it does not answer"),
    ],
};

/// Watches servers whose think time is spent on attempts to reach something that does not answer.
///
/// The sign is in the capture of the server's host: while the client waits, the host sends SYNs or
/// queries of its own that get no answer, or only when they are repeated, and they fill the wait. If
/// the capture does not contain them, the cause is `server-think`.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Rule;

impl super::Rule for Rule {
    fn conclude(&self, case: &Case<'_>) -> Conclusion {
        let delay = claimed(case, &[DelayReason::IsSilent]);
        let told = delay.map(|delay| claim(case, delay));
        told.or_else(|| watched(case)).into()
    }
}

/// Returns the claim on silence that only the server's kernel saw.
fn watched(case: &Case<'_>) -> Option<Claim> {
    let calls = KernelCalls::of(case).filter(KernelCalls::are_unanswered)?;
    let mut claim = calls.claim(Id::UpstreamUnreachable, case)?;
    let (what, wording) = if calls.are_lookups() {
        ("queries to the resolver", &RESOLVER)
    } else {
        ("attempts to reach", &PEER)
    };
    let wording = Wording {
        summary: " in {what} {behind} that got no answer, or only when they were repeated.",
        ruled_out: &[],
        ..*wording
    };
    wording.tell(&mut claim, &[("what", &what), ("behind", &calls.name())]);
    Some(claim)
}

fn claim(case: &Case<'_>, delay: &CallDelay) -> Claim {
    let (wording, what) = if delay.is_lookup {
        (&RESOLVER, "queries")
    } else {
        (&PEER, "SYNs")
    };
    let text = format!(
        "in {} of the server, its host sent {what} to {} that got no answer, or only after they were \
         repeated; that took {} (median), and then the server went on",
        counted(delay.tally.affected, "wait", "waits"),
        delay.behind,
        human(delay.each),
    );
    let mut claim = delay.claim(Id::UpstreamUnreachable, case, text);
    let took = median(&delay.tally.saved);
    wording.tell(&mut claim, &[("behind", &delay.behind), ("took", &took)]);
    claim
}
