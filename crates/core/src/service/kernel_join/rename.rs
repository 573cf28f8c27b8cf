//! Waits renamed according to the times that the server's kernel measured for the same request.
//!
//! The kernel is the better witness of its host. Data that it held is a hold, data that its program
//! wrote late is a pause, and time outside its stack is not the server's, whatever the packets look
//! like. But the kernel's times must fit the packets first: both use one clock. If the two
//! disagree, or if it is not clear which of several waits is meant, the packets' kind of wait
//! stays.

use core::time::Duration;

use super::{TIMESTAMP_ERROR, WORTH_SPLITTING, after_first, first_queued, until_first, was_whole};
use crate::exchange::HoldPackets;
use crate::exchange::wait::{Bound, Owner, Wait, WaitKind};
use crate::exchange::{Exchange, Hold, HoldRelease, Side};
use crate::observed::kernel_span::RequestSpan;
use crate::observed::packet::PacketNumber;

/// A wait's name: its kind and its owner.
type Name = (WaitKind, Owner);

const THINK: Name = (WaitKind::ServerThink, Owner::Server);
const PAUSE: Name = (WaitKind::ServerPause, Owner::Server);
const HELD: Name = (WaitKind::ResponseHeld, Owner::Server);

/// Gives the waits of the server's time the kinds and owners that its kernel shows. `error` is the
/// maximum difference between the two without a disagreement.
pub(super) fn rename(exchange: &mut Exchange, turn: &RequestSpan, error: Duration) {
    if !can_tell(exchange, turn) {
        return;
    }
    let mut held = turn.held.total;
    let mut waits = Vec::with_capacity(exchange.waits.len());
    let is_one = |kinds: &[WaitKind]| notable(exchange, kinds).count() == 1;
    let is_one_think = is_one(&[WaitKind::ServerThink]);
    let within = [WaitKind::ServerPause, WaitKind::ResponseHeld];
    let stop = Stop::of(notable(exchange, &within), turn, error);
    let mut holds = Vec::new();
    for wait in &exchange.waits {
        let parts = match wait.kind {
            _ if wait.duration() < WORTH_SPLITTING => None,
            WaitKind::ServerThink if is_one_think => think(wait, turn, error, &mut held),
            WaitKind::ServerPause | WaitKind::ResponseHeld => stop.name(wait),
            _ => None,
        };
        let before = waits.len();
        match parts {
            Some(parts) => cut(wait, &parts, error, &mut waits),
            None => waits.push(*wait),
        }
        holds.extend(waits.iter().skip(before).map(|part| (*wait, *part)));
    }
    if waits == exchange.waits {
        return;
    }
    for (wait, part) in holds {
        tell_holds(exchange, &wait, &part);
    }
    exchange.waits = waits;
}

/// Returns true if the turn shows where its time went, and packets show nothing that lengthens the
/// server's apparent waits from outside: a retransmitted part, a request that took long to arrive,
/// or a device in between that answers for the server.
fn can_tell(exchange: &Exchange, turn: &RequestSpan) -> bool {
    let came_at_once = turn.delivered_last.since(turn.delivered) < WORTH_SPLITTING;
    let is_plain = exchange.loss.recoveries.is_empty() && !exchange.signs.is_relayed;
    let is_ordered = turn.arrived <= turn.sent && turn.sent <= turn.sent_last;
    turn.stages().is_some() && came_at_once && is_plain && is_ordered && turn.refused.is_none()
}

fn notable<'a>(exchange: &'a Exchange, kinds: &[WaitKind]) -> impl Iterator<Item = &'a Wait> {
    let waits = exchange.waits.iter();
    waits.filter(move |wait| kinds.contains(&wait.kind) && wait.duration() >= WORTH_SPLITTING)
}

/// Returns the kind and the owner of time that, by the host's own data, passed outside the host.
/// The queue of the host's own device may have held the packets, unless that queue was observed.
fn beyond(turn: &RequestSpan) -> Name {
    let owner = match turn.departure {
        Some(_) => Owner::Path,
        None => Owner::Unknown,
    };
    (WaitKind::Unknown, owner)
}

/// Splits the time before the response: time between the host and the capture point, before and
/// after the host's own time; and within the host's time, the time for which its kernel held data
/// that the program had written.
fn think(
    wait: &Wait,
    turn: &RequestSpan,
    error: Duration,
    held: &mut Duration,
) -> Option<Vec<(Duration, Name)>> {
    let (shown, host) = (wait.duration(), until_first(turn));
    if host > shown + error {
        return None;
    }
    let unsent = turn.written.map(|at| turn.sent.since(at));
    let unsent = unsent.filter(|unsent| {
        let is_held = turn.held.times > 0 && *unsent >= WORTH_SPLITTING;
        is_held && unsent.abs_diff(turn.held.longest) <= TIMESTAMP_ERROR
    });
    let unsent = unsent.unwrap_or_default();
    *held = held.saturating_sub(unsent);
    let excess = shown.saturating_sub(host);
    let (before, host) = if excess > error {
        (lies_before(wait, turn, excess, error)?, host)
    } else if unsent.is_zero() {
        return None;
    } else {
        (Duration::ZERO, shown)
    };
    let unsent = unsent.min(host);
    let elsewhere = beyond(turn);
    let after = shown - before - host;
    Some(vec![
        (before, elsewhere),
        (host - unsent, THINK),
        (unsent, HELD),
        (after, elsewhere),
    ])
}

/// Returns the part of `excess` that passed before the request reached the host, by its clock,
/// which is also that of the packets. `None` if the host's time is not within the wait.
fn lies_before(
    wait: &Wait,
    turn: &RequestSpan,
    excess: Duration,
    error: Duration,
) -> Option<Duration> {
    let (begin, end) = (was_whole(turn), turn.sent + first_queued(turn));
    if begin < wait.start - error || end > wait.end + error {
        return None;
    }
    let before = begin.since(wait.start).min(excess);
    // A part smaller than `error` counts as zero.
    Some(match () {
        () if before <= error => Duration::ZERO,
        () if excess - before <= error => excess,
        () => before,
    })
}

/// The names that the kernel gives to the stops within a response.
#[derive(Clone, Copy, Debug)]
enum Stop {
    /// No name, or it is not clear to which stop a name belongs.
    Open,
    /// The name of every stop, for its whole duration.
    All(Name),
    /// The names of the only stop: the first name for this long, then the second.
    One(Duration, [Name; 2]),
}

impl Stop {
    fn of<'a>(stops: impl Iterator<Item = &'a Wait>, turn: &RequestSpan, error: Duration) -> Self {
        let (mut count, mut shown) = (0, Duration::ZERO);
        for stop in stops {
            count += 1;
            shown = shown.saturating_add(stop.duration());
        }
        let host = after_first(turn);
        if count == 0 || host > shown + error * 2 {
            return if count > 0 && turn.held.total.is_zero() {
                // From first byte to last, the host took longer than the stops that packets show.
                Self::Open
            } else {
                Self::held(count, shown, turn, error)
            };
        }
        if shown.saturating_sub(host) > error {
            return Self::elsewhere(count, shown, turn, error);
        }
        Self::held(count, shown, turn, error)
    }

    /// Returns the names if part of a stop, or all of it, passed after the data had left the host.
    fn elsewhere(count: u32, shown: Duration, turn: &RequestSpan, error: Duration) -> Self {
        let host = after_first(turn);
        if host <= error {
            return Self::All(beyond(turn));
        }
        let here = match turn.held.total {
            held if held.is_zero() => PAUSE,
            held if held + error >= host => HELD,
            // Three parts, in an unknown order.
            _ => return Self::Open,
        };
        match count {
            1 => Self::One(host.min(shown), [here, beyond(turn)]),
            _ => Self::Open,
        }
    }

    /// Returns the names if the host took nearly all of a stop: its program, or Nagle's algorithm.
    fn held(count: u32, shown: Duration, turn: &RequestSpan, error: Duration) -> Self {
        let held = turn.held.total.min(after_first(turn) + error);
        let late = turn
            .written_last
            .map_or(Duration::ZERO, |at| at.since(turn.sent));
        if held.is_zero() {
            // A response that the program had not written yet cannot have been held.
            return if late + error >= shown {
                Self::All(PAUSE)
            } else {
                Self::Open
            };
        }
        if held + error >= shown {
            return Self::All(HELD);
        }
        let can_be_told = count == 1 && turn.held.times == 1 && held > error;
        if can_be_told && late + held + error >= shown {
            Self::One(shown - held, [PAUSE, HELD])
        } else {
            Self::Open
        }
    }

    fn name(self, wait: &Wait) -> Option<Vec<(Duration, Name)>> {
        let all = wait.duration();
        match self {
            Self::Open => None,
            Self::All(name) => Some(vec![(all, name)]),
            Self::One(first, [here, then]) => {
                let first = first.min(all);
                Some(vec![(first, here), (all - first, then)])
            }
        }
    }
}

/// Cuts `wait` into consecutive parts that cover it; the last part takes the rest.
fn cut(wait: &Wait, parts: &[(Duration, Name)], error: Duration, waits: &mut Vec<Wait>) {
    let mut cursor = wait.start;
    let parts = parts.iter().filter(|(took, _)| !took.is_zero());
    let last = parts.clone().count().saturating_sub(1);
    for (index, &(took, (kind, owner))) in parts.enumerate() {
        let is_last = index == last;
        let end = if is_last {
            wait.end
        } else {
            (cursor + took).min(wait.end)
        };
        let bound = match (last, wait.bound) {
            (0, bound) => bound,
            (_, Bound::Inferred(other)) => Bound::Inferred(error.max(other)),
            (_, Bound::Observed) => Bound::Inferred(error),
        };
        waits.push(Wait {
            start: cursor,
            end,
            kind,
            owner,
            released_by: wait.released_by.filter(|_| is_last),
            bound,
        });
        cursor = end;
    }
}

/// Updates the small parts of the response, which rules use, to the new name of `part` of `wait`.
fn tell_holds(exchange: &mut Exchange, wait: &Wait, part: &Wait) {
    if part.kind == wait.kind && part.duration() == wait.duration() {
        return;
    }
    let packet = wait.released_by.and_then(PacketNumber::new);
    let mut holds = exchange.sending.holds.iter_mut();
    let known = holds.find(|hold| hold.sender == Side::Server && hold.packets.second == packet);
    match (part.kind, known) {
        (WaitKind::ResponseHeld, Some(hold)) => {
            if hold.release != HoldRelease::Acknowledgement {
                hold.release = HoldRelease::Timed;
            }
            hold.held = hold.held.min(part.duration());
            hold.ack_delay = hold.ack_delay.min(hold.held);
        }
        (WaitKind::ResponseHeld, None) => {
            let hold = timed(exchange, part, packet);
            exchange.sending.holds.push(hold);
        }
        (WaitKind::ServerPause, Some(hold)) if wait.kind == WaitKind::ResponseHeld => {
            hold.release = HoldRelease::Written;
        }
        // The part had already left its host.
        (WaitKind::Unknown, Some(hold)) if hold.release != HoldRelease::Timed => {
            hold.release = if part.duration() < wait.duration() {
                hold.release
            } else {
                HoldRelease::Eager
            };
        }
        _ => {}
    }
}

/// Returns a hold that is not visible in the packets. The delay of its acknowledgement is the
/// hold's duration minus a round trip.
fn timed(exchange: &Exchange, part: &Wait, packet: Option<PacketNumber>) -> Hold {
    let propagation = exchange.path.to_server.unwrap_or_default() + exchange.path.to_client;
    Hold {
        sender: Side::Server,
        release: HoldRelease::Timed,
        held: part.duration(),
        ack_delay: part.duration().saturating_sub(propagation),
        reaction_ns: 0,
        is_crowded: false,
        packets: HoldPackets {
            first: packet,
            ack: None,
            second: packet,
        },
    }
}
