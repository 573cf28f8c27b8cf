//! Options of sockets that explain claims: the traced system calls that set them, and the state
//! of listeners.
//!
//! A call is compared with the claim: TCP_NODELAY that was set before the first data contradicts
//! Nagle's algorithm, one that was never set is part of the mechanism.

mod listener;

use super::evidence::{human, median};
use super::{Case, Conclusion, Id};
use crate::claim::{Advice, Claim, Statement, Tunable};
use crate::exchange::Side;
use crate::exchange::wait::Owner;
use crate::facts::Use;
use crate::observed::syscall::SocketOption;
use crate::observed::tcp::TCP_RTO_MIN;
use crate::report::{EvidenceKind, counted};

/// Minimum share of the connections for a statement about all of them.
const MOST: f64 = 0.9;
/// Maximum number of exchanges on a connection that can be held if the program sets TCP_NODELAY
/// late: nginx sets it after the first response.
const AT_FIRST: u64 = 2;

/// Traced calls that support or contradict a cause, and their effect on the advice.
struct CallMatch {
    statement: Statement,
    revision: Revision,
}

/// The effect of calls on the claim's general advice.
enum Revision {
    Keep,
    /// Removes the advice on the option: the calls show that it would change nothing.
    Drop(SocketOption),
    /// Replaces the advice on the same.
    Replace(Tunable, Advice),
}

/// Adds what the traced calls say on a claim.
pub(super) fn explained(conclusion: Conclusion, case: &Case<'_>) -> Conclusion {
    let Conclusion::Claim(mut claim) = conclusion else {
        return conclusion;
    };
    if let Some(found) = calls(&claim, case) {
        claim.evidence.push(found.statement);
        found.revision.apply(&mut claim);
    }
    Conclusion::Claim(claim)
}

/// Returns true if calls show that the end has TCP_NODELAY before its first data.
pub(super) fn has_nodelay(case: &Case<'_>, side: Side) -> bool {
    let of = case
        .facts
        .calls
        .uses(case.endpoint, side, SocketOption::NoDelay);
    of.is_some_and(|of| is_most(of.in_time(), &of))
}

fn calls(claim: &Claim, case: &Case<'_>) -> Option<CallMatch> {
    let side = match claim.culprit {
        Owner::Server => Side::Server,
        Owner::Client => Side::Client,
        _ => return None,
    };
    let uses = |option| {
        let of = case.facts.calls.uses(case.endpoint, side, option)?;
        Some((option, of))
    };
    let listening = || case.facts.calls.listener(case.endpoint);
    match claim.cause {
        Id::NagleDelayedAck | Id::NagleDelayedAckRequest | Id::NagleRoundTrip => {
            let affected = claim.affected.exchanges;
            Some(no_delay(&uses(SocketOption::NoDelay)?.1, side, affected))
        }
        Id::CorkHold => Some(cork(&uses(SocketOption::Cork)?.1)),
        Id::SendBuffer => Some(buffer(&uses(SocketOption::SendBuffer)?, true)),
        Id::ReceiveWindow => {
            let clamp = uses(SocketOption::WindowClamp)?;
            let is_clamped = is_most(clamp.1.set(), &clamp.1);
            let buffered = uses(SocketOption::ReceiveBuffer)?;
            Some(buffer(if is_clamped { &clamp } else { &buffered }, true))
        }
        Id::ZeroWindow => Some(buffer(&uses(SocketOption::ReceiveBuffer)?, false)),
        Id::Pacing => pacing(&uses(SocketOption::PacingRate)?.1),
        Id::ConnectionClosed => linger(&uses(SocketOption::Linger)?.1),
        Id::AcceptQueueOverflow => listener::backlog(case),
        Id::DeferAccept => listener::deferred(listening()?),
        Id::FastOpenBlackHole => listener::fastopen(listening()?),
        _ => None,
    }
}

fn is_most(part: u64, of: &Use) -> bool {
    part as f64 >= of.connections as f64 * MOST
}

fn connections(of: &Use) -> String {
    counted(of.connections, "connection", "connections")
}

/// Returns the connections with the option, out of all.
fn with_it(of: &Use) -> String {
    let all = connections(of);
    match of.set() {
        set if set == of.connections => format!("all of {all}"),
        set => format!("{set} of {all}"),
    }
}

/// Returns the verb for the call that opened the connections.
fn opened(side: Side) -> &'static str {
    match side {
        Side::Server => "accepted",
        Side::Client => "opened",
    }
}

/// Returns the statement on Nagle's algorithm, to which `affected` exchanges are attributed.
fn no_delay(of: &Use, side: Side, affected: u64) -> CallMatch {
    let (program, opened, all) = (&of.program, opened(side), connections(of));
    let head = format!("{program} {opened} {all}");
    if is_most(of.in_time(), of) {
        let how = match of.early {
            0 => "inherited from the listener".to_owned(),
            _ => format!(
                "set {} (median) after the connection began",
                median(&of.after)
            ),
        };
        let text = format!("{head} with TCP_NODELAY, {how}, before its first data");
        return CallMatch::against(&text);
    }
    if is_most(of.set(), of) && affected > of.connections * AT_FIRST {
        let text = format!(
            "{head} and set TCP_NODELAY {} (median) after the connection began, so that later \
             requests cannot be held",
            median(&of.after),
        );
        return CallMatch::against(&text);
    }
    if of.late * 2 > of.connections {
        late(of, &head)
    } else {
        never(of, &head)
    }
}

fn late(of: &Use, head: &str) -> CallMatch {
    let text = format!(
        "{head} and set TCP_NODELAY on {} of them only after it had sent data, {} (median) after \
         the connection began",
        of.late,
        median(&of.after),
    );
    let change = "set TCP_NODELAY before the first write to each connection";
    let revision = replace(SocketOption::NoDelay, of, change);
    CallMatch::fitting(text, of.connections, revision)
}

fn never(of: &Use, head: &str) -> CallMatch {
    let set = match of.set() {
        0 => "none".to_owned(),
        set => set.to_string(),
    };
    let cleared = match of.cleared {
        0 => String::new(),
        count => format!(", and switched it off on {count}"),
    };
    let text = format!("{head} and set TCP_NODELAY on {set} of them{cleared}");
    CallMatch::fitting(text, of.connections, Revision::Keep)
        .shown_if(is_most(of.connections - of.set(), of))
}

fn cork(of: &Use) -> CallMatch {
    let (program, all) = (&of.program, connections(of));
    let longest = of.longest_on.unwrap_or_default();
    let left = of.set().saturating_sub(of.cleared);
    if of.set() == 0 {
        let text = format!(
            "{program} accepted {all} and set TCP_CORK on none of them: MSG_MORE or SPLICE_F_MORE \
             holds the data"
        );
        return CallMatch::fitting(text, of.connections, Revision::Drop(SocketOption::Cork));
    }
    if left * 2 < of.set() && longest < TCP_RTO_MIN {
        let text = format!(
            "{program} removes TCP_CORK after {} at most: MSG_MORE or SPLICE_F_MORE holds the data",
            human(longest),
        );
        return CallMatch::fitting(text, of.connections, Revision::Drop(SocketOption::Cork));
    }
    let until = match left {
        0 => format!("removed it {} later at the latest", human(longest)),
        left if left == of.set() => "never removed it".to_owned(),
        left => format!("never removed it on {left}"),
    };
    let text = format!("{program} set TCP_CORK on {} and {until}", with_it(of));
    let change = "remove TCP_CORK as soon as the response is complete";
    let revision = replace(SocketOption::Cork, of, change);
    CallMatch::fitting(text, of.connections, revision).shown_if(is_most(of.set(), of))
}

/// Returns the statement on a buffer or window that a program limits. `is_all` is true if the limit
/// alone explains the claim.
fn buffer((option, of): &(SocketOption, Use), is_all: bool) -> CallMatch {
    let (program, all, name) = (&of.program, connections(of), option.name());
    if of.set() == 0 {
        let text = format!("{program} set {name} on none of {all}: the kernel tunes the size");
        return CallMatch::fitting(text, of.connections, Revision::Drop(*option));
    }
    let text = match of.value {
        Some(size) => format!(
            "{program} set {name} to {size} bytes on {}: the kernel no longer tunes it",
            with_it(of),
        ),
        None => format!(
            "{} of {all} that {program} accepted inherited {name} from the listener: the kernel \
             no longer tunes it",
            of.inherited,
        ),
    };
    let change = format!("do not set {name}: the kernel then tunes the size");
    let revision = replace(*option, of, change);
    CallMatch::fitting(text, of.connections, revision).shown_if(is_all && is_most(of.set(), of))
}

fn pacing(of: &Use) -> Option<CallMatch> {
    let rate = of.value.filter(|_| is_most(of.set(), of))?;
    let program = &of.program;
    let text = format!(
        "{program} set SO_MAX_PACING_RATE to {rate} bytes per second on {}",
        with_it(of),
    );
    let change = "raise or remove SO_MAX_PACING_RATE";
    let revision = replace(SocketOption::PacingRate, of, change);
    Some(CallMatch::fitting(text, of.connections, revision).shown_if(true))
}

fn linger(of: &Use) -> Option<CallMatch> {
    let program = &of.program;
    let text = format!(
        "{program} set SO_LINGER with a timeout of 0 on {}: its close() resets the connection and \
         discards unsent data",
        with_it(of),
    );
    let change = "do not set SO_LINGER with a timeout of 0";
    let revision = replace(SocketOption::Linger, of, change);
    is_most(of.set(), of).then(|| CallMatch::fitting(text, of.connections, revision))
}

/// Returns the revision of the advice on an option that the program sets.
fn replace(option: SocketOption, of: &Use, change: impl Into<String>) -> Revision {
    let advice = Advice::new(of.program.to_string(), change);
    Revision::Replace(Tunable::Option(option), advice)
}

impl CallMatch {
    /// Returns calls on this number of connections or listeners that fit the cause.
    fn fitting(text: String, count: u64, revision: Revision) -> Self {
        Self {
            statement: Statement::fits(EvidenceKind::ForeignSocket, text).count(count),
            revision,
        }
    }

    /// Makes the calls a part of the mechanism.
    fn shown_if(self, shows_mechanism: bool) -> Self {
        Self {
            statement: self.statement.shown_if(shows_mechanism),
            ..self
        }
    }

    /// Returns calls that contradict the cause.
    fn against(text: &str) -> Self {
        let text = format!("{text}, which contradicts it");
        Self {
            statement: Statement::contradicts(EvidenceKind::ForeignSocket, text),
            revision: Revision::Keep,
        }
    }
}

impl Revision {
    fn apply(self, claim: &mut Claim) {
        // The line of a configuration file is better advice than the call that follows from it.
        let is_configuration = |one: &Statement| one.kind() == EvidenceKind::Configuration;
        let mut supporting = claim.evidence.iter().filter(|one| !one.is_against());
        let is_configured = supporting.any(is_configuration);
        match self {
            Self::Keep => {}
            Self::Drop(option) => {
                let is_other = |advice: &Advice| !advice.turns(Tunable::Option(option));
                if claim.advice.iter().any(is_other) {
                    claim.advice.retain(is_other);
                }
            }
            Self::Replace(..) if is_configured => {}
            Self::Replace(tunable, advice) => claim.advise(Some(tunable), advice, 0),
        }
    }
}

#[cfg(test)]
mod tests;
