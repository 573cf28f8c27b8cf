//! Options of sockets that explain findings: the traced system calls that set them, and the state
//! of listeners.
//!
//! A call is compared with the finding: TCP_NODELAY that was set before the first data contradicts
//! Nagle's algorithm, one that was never set is part of the mechanism.

use super::evidence::{fix, human, median};
use super::settings::names;
use super::{Case, Conclusion, Id, evidence};
use crate::exchange::Side;
use crate::exchange::wait::Owner;
use crate::facts::{Listening, SocketOption, Use};
use crate::observed::event::ListenerSample;
use crate::observed::tcp::TCP_RTO_MIN;
use crate::report::{Evidence, EvidenceKind, Finding, Fix, Says, Verdict, Witness, counted};

/// Minimum share of the connections for a statement about all of them.
const MOST: f64 = 0.9;
/// Maximum number of exchanges on a connection that can be held if the program sets TCP_NODELAY
/// late: nginx sets it after the first response.
const AT_FIRST: u64 = 2;

/// What the calls say about a finding.
struct Statement {
    text: String,
    says: Says,
    /// True if the calls show a part of the mechanism.
    shows_mechanism: bool,
    /// Number of connections or listeners.
    count: u64,
    advice: Advice,
}

/// The effect of a statement on the finding's general advice.
enum Advice {
    Keep,
    /// Removes the advice that names this option: the calls show that it would change nothing.
    Drop(&'static str),
    /// Replaces the advice that names the option.
    Replace(&'static str, String, String),
}

/// Adds what the traced calls say on a finding.
pub(super) fn explained(conclusion: Conclusion, case: &Case<'_>) -> Conclusion {
    let Conclusion::Finding(mut finding) = conclusion else {
        return conclusion;
    };
    if let Some(statement) = statement(&finding, case) {
        match statement.says {
            Says::Contradicts => statement.contradict(&mut finding),
            _ => statement.support(&mut finding),
        }
    }
    Conclusion::Finding(finding)
}

/// Returns true if calls show that the end has TCP_NODELAY before its first data.
pub(super) fn has_nodelay(case: &Case<'_>, side: Side) -> bool {
    let of = case
        .facts
        .calls
        .uses(case.endpoint, side, SocketOption::NoDelay);
    of.is_some_and(|of| is_most(of.in_time(), &of))
}

fn statement(finding: &Finding, case: &Case<'_>) -> Option<Statement> {
    let side = match finding.culprit {
        Owner::Server => Side::Server,
        Owner::Client => Side::Client,
        _ => return None,
    };
    let uses = |option| {
        let of = case.facts.calls.uses(case.endpoint, side, option)?;
        Some((option, of))
    };
    let listening = || case.facts.calls.listener(case.endpoint);
    match finding.cause {
        Id::NagleDelayedAck | Id::NagleDelayedAckRequest | Id::NagleRoundTrip => {
            let affected = finding.affected.exchanges;
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
        Id::AcceptQueueOverflow => backlog(case, listening()),
        Id::DeferAccept => deferred(listening()?),
        Id::FastOpenBlackHole => fastopen(listening()?),
        _ => None,
    }
}

fn is_most(part: u64, of: &Use) -> bool {
    part as f64 >= of.connections as f64 * MOST
}

fn connections(of: &Use) -> String {
    counted(of.connections, "connection", "connections")
}

/// Returns the verb for the call that opened the connections.
fn opened(side: Side) -> &'static str {
    match side {
        Side::Server => "accepted",
        Side::Client => "opened",
    }
}

/// Returns the statement on Nagle's algorithm, to which `affected` exchanges are attributed.
fn no_delay(of: &Use, side: Side, affected: u64) -> Statement {
    let (program, all) = (&of.program, connections(of));
    let opened = opened(side);
    let statement = |text, says, advice| Statement {
        text,
        says,
        shows_mechanism: says == Says::Supports && of.late == 0,
        count: of.connections,
        advice,
    };
    if is_most(of.in_time(), of) {
        let how = match of.early {
            0 => "inherited from the listener".to_owned(),
            _ => format!(
                "set by setsockopt {} (median) after the connection began",
                median(&of.after)
            ),
        };
        let text =
            format!("{program} {opened} {all} with TCP_NODELAY, {how}, before its first data");
        return statement(text, Says::Contradicts, Advice::Keep);
    }
    if is_most(of.set(), of) && affected > of.connections * AT_FIRST {
        let text = format!(
            "{program} {opened} {all} and set TCP_NODELAY {} (median) after the connection began, \
             so that later requests cannot be held",
            median(&of.after),
        );
        return statement(text, Says::Contradicts, Advice::Keep);
    }
    if of.late * 2 > of.connections {
        let text = format!(
            "{program} {opened} {all} and set TCP_NODELAY on {} of them only after it had sent \
             data, {} (median) after the connection began",
            of.late,
            median(&of.after),
        );
        let change = "set TCP_NODELAY before the first write to each connection".to_owned();
        let advice = Advice::Replace("TCP_NODELAY", program.to_string(), change);
        return statement(text, Says::Supports, advice);
    }
    let cleared = match of.cleared {
        0 => String::new(),
        count => format!(", and switched it off on {count}"),
    };
    let text = match of.set() {
        0 => format!("{program} {opened} {all} and set TCP_NODELAY on none of them{cleared}"),
        set => format!("{program} {opened} {all} and set TCP_NODELAY on {set} of them{cleared}"),
    };
    Statement {
        shows_mechanism: is_most(of.connections - of.set(), of),
        ..statement(text, Says::Supports, Advice::Keep)
    }
}

fn cork(of: &Use) -> Statement {
    let (program, all) = (&of.program, connections(of));
    let longest = of.longest_on.unwrap_or_default();
    let is_kept = of.set() > of.cleared || longest >= TCP_RTO_MIN;
    let statement = |text, shows_mechanism, advice| Statement {
        text,
        says: Says::Supports,
        shows_mechanism,
        count: of.connections,
        advice,
    };
    if of.set() == 0 {
        let text = format!(
            "{program} accepted {all} and set TCP_CORK on none of them: MSG_MORE or SPLICE_F_MORE \
             holds the data"
        );
        return statement(text, false, Advice::Drop("TCP_CORK"));
    }
    if !is_kept {
        let text = format!(
            "{program} removes TCP_CORK after {} at most: MSG_MORE or SPLICE_F_MORE holds the data",
            human(longest),
        );
        return statement(text, false, Advice::Drop("TCP_CORK"));
    }
    let left = of.set().saturating_sub(of.cleared);
    let until = match left {
        0 => format!("removed it {} later at the latest", human(longest)),
        left => format!("never removed it on {left}"),
    };
    let text = format!(
        "{program} set TCP_CORK on {} of {all} and {until}",
        of.set()
    );
    let change = "remove TCP_CORK as soon as the response is complete".to_owned();
    let advice = Advice::Replace("TCP_CORK", program.to_string(), change);
    statement(text, is_most(of.set(), of), advice)
}

/// Returns the statement on a buffer or window that a program limits. `is_all` is true if the limit
/// alone explains the finding.
fn buffer((option, of): &(SocketOption, Use), is_all: bool) -> Statement {
    let (program, all, name) = (&of.program, connections(of), option.name());
    let statement = |text, shows_mechanism, advice| Statement {
        text,
        says: Says::Supports,
        shows_mechanism,
        count: of.connections,
        advice,
    };
    if of.set() == 0 {
        let text = format!("{program} set {name} on none of {all}: the kernel tunes the size");
        return statement(text, false, Advice::Drop(name));
    }
    let text = match of.value {
        Some(size) => format!(
            "{program} set {name} to {size} bytes on {} of {all}: the kernel no longer tunes it",
            of.set(),
        ),
        None => format!(
            "{} of {all} that {program} accepted inherited {name} from the listener: the kernel \
             no longer tunes it",
            of.inherited,
        ),
    };
    let change = format!("do not set {name}: the kernel then tunes the size");
    let advice = Advice::Replace(name, program.to_string(), change);
    statement(text, is_all && is_most(of.set(), of), advice)
}

fn pacing(of: &Use) -> Option<Statement> {
    let rate = of.value.filter(|_| is_most(of.set(), of))?;
    let program = &of.program;
    let change = "raise or remove SO_MAX_PACING_RATE".to_owned();
    Some(Statement {
        text: format!(
            "{program} set SO_MAX_PACING_RATE to {rate} bytes per second on {} of {}",
            of.set(),
            connections(of),
        ),
        says: Says::Supports,
        shows_mechanism: true,
        count: of.connections,
        advice: Advice::Replace("SO_MAX_PACING_RATE", program.to_string(), change),
    })
}

fn linger(of: &Use) -> Option<Statement> {
    let program = &of.program;
    let change = "do not set SO_LINGER with a timeout of 0".to_owned();
    is_most(of.set(), of).then(|| Statement {
        text: format!(
            "{program} set SO_LINGER with a timeout of 0 on {} of {}: its close() resets the \
             connection and discards unsent data",
            of.set(),
            connections(of),
        ),
        says: Says::Supports,
        shows_mechanism: false,
        count: of.connections,
        advice: Advice::Replace("SO_LINGER", program.to_string(), change),
    })
}

/// Returns the statement on the length of the accept queue: who limits it, the program or
/// `net.core.somaxconn`.
fn backlog(case: &Case<'_>, listening: Option<&Listening>) -> Option<Statement> {
    let listeners = || {
        let samples = case.facts.listeners.iter();
        samples.filter(|sample| sample.local.port == case.endpoint.port)
    };
    let fullest = listeners().max_by_key(|sample| sample.queued);
    let accepted = listening.and_then(|listening| listening.accepted);
    let limit = fullest
        .map(|sample| sample.limit)
        .or_else(|| accepted.map(|accepted| accepted.backlog))?;
    let most = listeners().find_map(|sample| sample.somaxconn);
    let asked = listening.and_then(|listening| listening.listened);
    let (who, place, change) = limited_by(case, listening, limit, most, asked)?;
    let is_full = |sample: &&ListenerSample| sample.queued >= sample.limit;
    let full = fullest.filter(is_full);
    let seen = full.map_or_else(String::new, |sample| {
        format!(", and {} waited in it", sample.queued)
    });
    Some(Statement {
        text: format!("the accept queue has room for {limit} connections: {who}{seen}"),
        says: Says::Supports,
        shows_mechanism: full.is_some(),
        count: 1,
        advice: Advice::Replace("somaxconn", place, change),
    })
}

/// Returns the reason for the length of the accept queue, and the change with its place.
fn limited_by(
    case: &Case<'_>,
    listening: Option<&Listening>,
    limit: u32,
    most: Option<u32>,
    asked: Option<(i64, i64)>,
) -> Option<(String, String, String)> {
    let known = case
        .target
        .and_then(|target| case.facts.server_program(target));
    let program = match listening {
        Some(listening) => listening.program.to_string(),
        None => known.unwrap_or("the program").to_owned(),
    };
    let kernel = || {
        let change = format!("raise net.core.somaxconn above {limit}");
        ("server".to_owned(), change)
    };
    let is_cut = asked.is_some_and(|(asked, got)| asked > got);
    if let (true, Some((asked, _))) = (is_cut, asked) {
        let (place, change) = kernel();
        let who =
            format!("{program} asked listen() for {asked}, net.core.somaxconn allows no more");
        return Some((who, place, change));
    }
    match most {
        Some(most) if limit >= most => {
            let (place, change) = kernel();
            let change = format!("{change}, and the backlog of {program} with it");
            Some((
                format!("that is net.core.somaxconn ({most})"),
                place,
                change,
            ))
        }
        Some(most) => {
            let who = format!(
                "{program} asked listen() for no more; net.core.somaxconn would allow {most}"
            );
            let change = format!("raise the backlog of listen() above {limit}");
            Some((who, program, change))
        }
        None => asked.map(|_| {
            let who = format!("{program} asked listen() for no more");
            (
                who,
                program,
                format!("raise the backlog of listen() above {limit}"),
            )
        }),
    }
}

fn deferred(listening: &Listening) -> Option<Statement> {
    let accepted = listening.accepted?;
    let program = &listening.program;
    let change = "listen without TCP_DEFER_ACCEPT".to_owned();
    Some(if accepted.is_deferred {
        Statement {
            text: format!("the listener of {program} had TCP_DEFER_ACCEPT when it accepted"),
            says: Says::Supports,
            shows_mechanism: true,
            count: 1,
            advice: Advice::Replace("TCP_DEFER_ACCEPT", program.to_string(), change),
        }
    } else {
        Statement {
            text: format!("the listener of {program} had no TCP_DEFER_ACCEPT when it accepted"),
            says: Says::Contradicts,
            shows_mechanism: false,
            count: 1,
            advice: Advice::Keep,
        }
    })
}

fn fastopen(listening: &Listening) -> Option<Statement> {
    let queue = listening.accepted.map(|accepted| accepted.fastopen)?;
    let program = &listening.program;
    (queue > 0).then(|| Statement {
        text: format!(
            "the listener of {program} has TCP_FASTOPEN with a queue of {queue}: it gives clients \
             cookies for data in SYNs"
        ),
        says: Says::Supports,
        shows_mechanism: false,
        count: 1,
        advice: Advice::Keep,
    })
}

impl Statement {
    fn support(self, finding: &mut Finding) {
        let kind = EvidenceKind::ForeignSocket;
        let piece = match self.shows_mechanism {
            true => Evidence::mechanism(kind, self.text),
            false => Evidence::circumstance(kind, self.text),
        };
        finding.evidence.push(piece.count(self.count));
        // Two kinds of evidence that show the mechanism prove a cause that was certain before.
        if finding.verdict == Verdict::Strong
            && evidence::judge(&finding.evidence, 0, true) == Verdict::Proven
        {
            finding.verdict = Verdict::Proven;
        }
        self.advice.apply(finding);
    }

    /// Removes the finding's certainty.
    fn contradict(self, finding: &mut Finding) {
        finding.verdict = Verdict::Possible;
        finding.witnesses.push(Witness {
            kind: EvidenceKind::ForeignSocket,
            says: Says::Contradicts,
        });
        finding.overturned_by += &format!("; {}, which contradicts it", self.text);
    }
}

impl Advice {
    fn apply(self, finding: &mut Finding) {
        // The line of a configuration file is better advice than the call that follows from it.
        let is_configured = finding
            .evidence
            .iter()
            .any(|piece| piece.kind == EvidenceKind::Configuration);
        match self {
            Self::Keep => {}
            Self::Drop(option) => {
                let is_other = |fix: &Fix| !names(&fix.change, option);
                if finding.fix.iter().any(is_other) {
                    finding.fix.retain(is_other);
                }
            }
            Self::Replace(..) if is_configured => {}
            Self::Replace(option, place, change) => {
                let change = fix(place, change);
                let mut general = finding.fix.iter_mut();
                match general.find(|fix| names(&fix.change, option)) {
                    Some(general) => *general = change,
                    None => finding.fix.insert(0, change),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
