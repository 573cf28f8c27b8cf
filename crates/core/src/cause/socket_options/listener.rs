//! Listeners: the length of the accept queue, TCP_DEFER_ACCEPT and TCP_FASTOPEN.

use super::{CallMatch, Revision};
use crate::cause::Case;
use crate::claim::{Advice, Tunable};
use crate::facts::Listening;
use crate::observed::event::ListenerSample;

/// The reason for the length of an accept queue, and the change that makes the queue longer.
struct Limit {
    reason: String,
    advice: Advice,
}

/// Returns the statement on the length of the accept queue: the program limits it, or
/// `net.core.somaxconn` does. `None` if neither is known and the queue was not seen full.
pub(super) fn backlog(case: &Case<'_>) -> Option<CallMatch> {
    let listening = case.facts.calls.listener(case.endpoint);
    let fullest = samples(case).max_by_key(|sample| sample.queued);
    let accepted = listening.and_then(|listening| listening.accepted);
    let room = fullest
        .map(|sample| sample.limit)
        .or_else(|| accepted.map(|accepted| accepted.backlog))?;
    let limit = limit(case, listening, room);
    let full = fullest.filter(|sample| sample.queued >= sample.limit);
    if limit.is_none() && full.is_none() {
        return None;
    }
    let seen = match full {
        Some(sample) => format!(
            "{} connections waited in the accept queue, which",
            sample.queued
        ),
        None => "the accept queue".to_owned(),
    };
    let because = |limit: &Limit| format!(": {}", limit.reason);
    let because = limit.as_ref().map(because).unwrap_or_default();
    let text = format!("{seen} has room for {room}{because}");
    let revision = limit.map_or(Revision::Keep, |limit| {
        Revision::Replace(Tunable::AcceptQueue, limit.advice)
    });
    Some(CallMatch::fitting(text, 1, revision).shown_if(full.is_some()))
}

/// Returns the samples of the service's listeners.
fn samples<'a>(case: &Case<'a>) -> impl Iterator<Item = &'a ListenerSample> {
    let (port, samples) = (case.endpoint.port, case.facts.kernel.listeners.iter());
    samples.filter(move |sample| sample.local.port == port)
}

fn limit(case: &Case<'_>, listening: Option<&Listening>, room: u32) -> Option<Limit> {
    let somaxconn = samples(case).find_map(|sample| sample.somaxconn);
    let asked = listening.and_then(|listening| listening.listened);
    let program = program(case, listening);
    if let Some((asked, _)) = asked.filter(|(asked, got)| asked > got) {
        let reason =
            format!("{program} asked listen() for {asked}, net.core.somaxconn allows no more");
        return Some(by_kernel(
            reason,
            format!("raise net.core.somaxconn above {room}"),
        ));
    }
    match somaxconn {
        Some(most) if room >= most => {
            let reason = format!("that is net.core.somaxconn ({most})");
            let change = format!(
                "raise net.core.somaxconn above {room}, and the backlog of {program} with it"
            );
            Some(by_kernel(reason, change))
        }
        Some(most) => {
            let reason = format!(
                "{program} asked listen() for no more, and net.core.somaxconn allows {most}"
            );
            Some(by_program(reason, program, room))
        }
        None => asked.map(|_| {
            let reason = format!("{program} asked listen() for no more");
            by_program(reason, program, room)
        }),
    }
}

/// Returns the name of the program that listens, with its process if that is known.
fn program(case: &Case<'_>, listening: Option<&Listening>) -> String {
    let known = case
        .target
        .and_then(|target| case.facts.server_program(target));
    match listening {
        Some(listening) => listening.program.to_string(),
        None => known.unwrap_or("the program").to_owned(),
    }
}

fn by_kernel(reason: String, change: String) -> Limit {
    Limit {
        reason,
        advice: Advice::new("server", change),
    }
}

fn by_program(reason: String, program: String, room: u32) -> Limit {
    Limit {
        reason,
        advice: Advice::new(
            program,
            format!("raise the backlog of listen() above {room}"),
        ),
    }
}

/// Returns the statement on TCP_DEFER_ACCEPT.
pub(super) fn deferred(listening: &Listening) -> Option<CallMatch> {
    let accepted = listening.accepted?;
    let program = &listening.program;
    if !accepted.is_deferred {
        let text = format!("the listener of {program} had no TCP_DEFER_ACCEPT when it accepted");
        return Some(CallMatch::against(&text));
    }
    let text = format!("the listener of {program} had TCP_DEFER_ACCEPT when it accepted");
    let advice = Advice::new(program.to_string(), "listen without TCP_DEFER_ACCEPT");
    let revision = Revision::Replace(Tunable::DeferAccept, advice);
    Some(CallMatch::fitting(text, 1, revision).shown_if(true))
}

/// Returns the statement on TCP_FASTOPEN.
pub(super) fn fastopen(listening: &Listening) -> Option<CallMatch> {
    let queue = listening.accepted.map(|accepted| accepted.fastopen)?;
    let text = format!(
        "the listener of {} has TCP_FASTOPEN with a queue of {queue}: it gives clients cookies for \
         data in SYNs",
        listening.program,
    );
    (queue > 0).then(|| CallMatch::fitting(text, 1, Revision::Keep))
}
