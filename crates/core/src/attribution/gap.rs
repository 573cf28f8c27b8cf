//! Names the gap between two data segments of one sender by what ended it.

use core::time::Duration;

use super::flow::Flow;
use super::nagle;
use super::repair::{filled, recovered, repeated, resumed};
use super::stop::{self, Stop};
use super::{LEAST_TIMEOUT, Trace};
use crate::attribution::mark::{Data, Mark};
use crate::attribution::packet::Arrival;
use crate::attribution::packet::longest_repair;
use crate::exchange::wait::{Owner, WaitKind};
use crate::exchange::{Hold, HoldRelease, Recovery, Side};

/// The longest gap in the normal flow of a message.
const FLOW: Duration = Duration::from_micros(500);

/// Minimum time that a repair takes: a segment that was lost on its way here shows by a gap in
/// its sender's identifications.
const LEAST_RECOVERY: Duration = Duration::from_millis(2);

/// Minimum round trip of a path on which a retransmission timeout is told from timers of the same
/// length that nothing is added to.
const LEAST_APART: Duration = Duration::from_millis(10);

/// A gap between two segments, as named.
#[derive(Debug, Default)]
pub(super) struct Gap {
    /// Kind and owner of the wait; `None` when the second segment ended nothing.
    pub(super) wait: Option<(WaitKind, Owner)>,
    pub(super) hold: Option<Hold>,
    pub(super) recovery: Option<Recovery>,
    pub(super) stop: Option<Stop>,
    /// The time for which what had arrived waited for a segment that it overtook.
    pub(super) overtaken: Option<Duration>,
}

impl Gap {
    pub(super) fn named(kind: WaitKind, owner: Owner) -> Self {
        Self {
            wait: Some((kind, owner)),
            ..Self::default()
        }
    }
}

/// Names the gap between `before` and `mark`, the mark at `index`.
pub(super) fn name(
    trace: &Trace<'_>,
    flow: &Flow,
    before: &Mark,
    mark: &Mark,
    index: usize,
) -> Gap {
    let (Some(first), Some(second)) = (before.data, mark.data) else {
        return Gap::default();
    };
    let sender = mark.by;
    match second.arrival {
        Arrival::KeepAlive | Arrival::Copy => Gap::default(),
        // A full receiver discards what comes (`tcp_try_rmem_schedule()` in
        // `net/ipv4/tcp_input.c`): no loss of the path's.
        Arrival::Repeat if flow.is_closed => closed(trace, before, mark, index),
        Arrival::Repeat => repeated(trace, before, mark, second),
        Arrival::Fill => filled(trace, before, mark, second),
        Arrival::InOrder | Arrival::PastHole => {
            if trace.is_torn(sender, first.span.start, second.span.end) {
                return Gap::named(WaitKind::Unknown, Owner::Unknown);
            }
            let gap = mark.at.since(before.at);
            if second.span.start < first.span.end && gap > LEAST_RECOVERY {
                // The segment repeats what came before together with what did not.
                return recovered(trace, mark, gap, gap, false);
            }
            if mark.skipped > 0 && gap > LEAST_RECOVERY && is_too_soon(trace, sender, gap) {
                // Several that a router on the way refused by ICMP and that were
                // cut to size at once; one may have been a bare ACK.
                return if mark.skipped > 1 && !trace.is_near(sender) {
                    Gap::named(transfer(sender), Owner::Path)
                } else {
                    Gap::named(WaitKind::Unknown, Owner::Unknown)
                };
            }
            let is_whole = second.arrival == Arrival::InOrder;
            if is_whole && mark.skipped > 0 && gap > LEAST_RECOVERY && !is_repair(trace, mark, gap)
            {
                return Gap::named(WaitKind::Unknown, Owner::Unknown);
            }
            if mark.skipped > 0 && gap > LEAST_RECOVERY {
                // Beside its sender nothing is lost but by the capture.
                return if trace.is_near(sender) {
                    Gap::named(WaitKind::Unknown, Owner::Unknown)
                } else {
                    recovered(trace, mark, gap, gap, false)
                };
            }
            if may_be_repaired(trace, sender, (first, second), gap) {
                return Gap::named(WaitKind::Unknown, Owner::Unknown);
            }
            resumed(trace, (mark, second), index, gap)
                .unwrap_or_else(|| flowed(trace, flow, (before, mark), index))
        }
    }
}

/// Returns true if what came last of a message may have been lost before it came here, and its
/// sender does not number what it sends. Full segments before it and none behind it are one
/// write's: a program that stops does so behind a whole write, which hardly ever fills its last
/// segment. A probe comes before the timeout, two round trips after the end (RFC 8985 §7.2);
/// what is shorter, as on short paths it is, may be a timer of the program's kernel.
fn may_be_repaired(
    trace: &Trace<'_>,
    sender: Side,
    (first, second): (Data, Data),
    gap: Duration,
) -> bool {
    let trip = trace.whole_trip();
    let is_told = trace.pipe(sender).is_numbered || trace.is_near(sender);
    let is_tail = !first.is_small
        && second.is_small
        && first.span.end == second.span.start
        && second.span.end >= trace.span(sender).end;
    is_tail && !is_told && trip >= LEAST_APART && gap >= LEAST_TIMEOUT + trip * 3 * 7 / 8
}

/// Returns true if what is missing came again sooner than the receiver's ACK of the hole can have
/// reached `sender`: then it was not that ACK that released it.
fn is_too_soon(trace: &Trace<'_>, sender: Side, gap: Duration) -> bool {
    let travel = trace.round_trip(sender).floor().unwrap_or_default();
    gap < travel * 7 / 8
}

/// Returns true if segments lost just before `mark`, behind which no byte is missing, can
/// have been retransmitted by it after `gap`. The end of a flight is repeated as a probe
/// after two round trips; all of it, or what was lost twice, waits for the timer
/// (RFC 8985 §7.2). Anything sooner was something else that its sender numbered.
fn is_repair(trace: &Trace<'_>, mark: &Mark, gap: Duration) -> bool {
    let is_by_timer = gap >= LEAST_TIMEOUT && gap <= longest_repair(mark.skipped);
    // Paths get a little quicker than the least round trip seen.
    is_by_timer || (mark.skipped == 1 && gap >= trace.whole_trip() * 2 * 7 / 8)
}

/// Returns the gap of data that waited for a receiver that had no room.
fn closed(trace: &Trace<'_>, before: &Mark, mark: &Mark, index: usize) -> Gap {
    let (wait, stop) = stop::closed(trace, before, mark, index);
    Gap {
        wait: Some(wait),
        stop,
        ..Gap::default()
    }
}

/// Names a gap before new data: held, blocked, paused, or simply on its way.
fn flowed(trace: &Trace<'_>, flow: &Flow, (before, mark): (&Mark, &Mark), index: usize) -> Gap {
    let sender = mark.by;
    let (Some(first), Some(second)) = (before.data, mark.data) else {
        return Gap::default();
    };
    let gap = mark.at.since(before.at);
    let holder = nagle::holder(trace, (before, first), (mark, second), index);
    if gap <= FLOW && holder.is_none() && !flow.is_drained() {
        return Gap::named(transfer(sender), Owner::Path);
    }
    let release = between(trace, before, index)
        .iter()
        .find(|m| m.by == sender.peer() && m.ack >= first.span.end);
    if release.is_none() && gap >= longest_unacknowledged(trace, sender) {
        if flow.is_closed {
            return closed(trace, before, mark, index);
        }
        return if is_sent_again(trace, mark, first) {
            recovered(trace, mark, gap, gap, false)
        } else {
            Gap::named(WaitKind::Unknown, Owner::Unknown)
        };
    }
    if release.is_none() && may_be_probe(trace, sender, gap) && is_sent_again(trace, mark, first) {
        return Gap::named(WaitKind::Unknown, Owner::Unknown);
    }
    // Data that finds no room in the window waits for that, whatever else would hold it.
    let holder = holder.filter(|_| !stop::has_no_room(trace, mark, index, first, second));
    let hold = holder.and_then(|holder| nagle::hold(trace, holder, (before, mark), index));
    let flowing = FLOW.max(trace.round_trip(sender).error() * 2);
    let by_ack = hold.is_some_and(|h| h.release == HoldRelease::Acknowledgement);
    let held = by_ack && !flow.is_eager;
    let (wait, stop) = if held && gap > FLOW {
        (held_by(sender), None)
    } else if gap <= flowing && !flow.is_drained() {
        ((transfer(sender), Owner::Path), None)
    } else {
        stop::name(trace, flow, (before, mark), index, hold.is_some())
    };
    Gap {
        wait: Some(wait),
        hold,
        stop,
        ..Gap::default()
    }
}

/// Returns the longest time without an acknowledgement: after longer either was lost, or the
/// capture missed it.
fn longest_unacknowledged(trace: &Trace<'_>, sender: Side) -> Duration {
    LEAST_TIMEOUT + trace.round_trip(sender.peer()).floor().unwrap_or_default()
}

/// Returns true if the gap is long enough for a tail loss probe, which sends what is new if there
/// is anything: two round trips and more (RFC 8985 §7.2). Nothing tells that from a program that
/// went on just then.
fn may_be_probe(trace: &Trace<'_>, sender: Side, gap: Duration) -> bool {
    let floor = |side| trace.round_trip(side).floor().unwrap_or_default();
    gap >= LEAST_RECOVERY + (floor(sender) + floor(sender.peer())) * 2
}

/// Returns true if the bytes of `first` are sent again after `mark`: then it was a tail loss probe
/// that let `mark` go (new data passes Nagle's algorithm with it; `tcp_send_loss_probe()` in
/// `net/ipv4/tcp_output.c`).
fn is_sent_again(trace: &Trace<'_>, mark: &Mark, first: Data) -> bool {
    trace.marks.iter().any(|m| {
        m.by == mark.by
            && m.at > mark.at
            && m.data.is_some_and(|data| {
                data.arrival == Arrival::Repeat
                    && data.span.start < first.span.end
                    && data.span.end > first.span.start
            })
    })
}

/// Returns the time by which the second queued longer on its way here than the first.
pub(super) fn queued_for(before: &Mark, mark: &Mark) -> Duration {
    mark.queued
        .possible()
        .saturating_sub(before.queued.possible())
}

/// Returns the marks between `before` and the one at `index`.
pub(super) fn between<'a>(trace: &'a Trace<'_>, before: &Mark, index: usize) -> &'a [Mark] {
    let marks = trace.marks.get(..index).unwrap_or_default();
    // Marks of the same time may stand in another order than in the capture.
    let start = marks.partition_point(|m| m.at < before.at);
    let rest = marks.get(start..).unwrap_or_default();
    let is_it = |m: &Mark| m.number == before.number;
    let after = rest.iter().position(is_it).map_or(0, |place| place + 1);
    rest.get(after..).unwrap_or_default()
}

pub(super) fn transfer(sender: Side) -> WaitKind {
    match sender {
        Side::Client => WaitKind::RequestTransfer,
        Side::Server => WaitKind::ResponseTransfer,
    }
}

fn held_by(sender: Side) -> (WaitKind, Owner) {
    match sender {
        Side::Client => (WaitKind::RequestHeld, Owner::Client),
        Side::Server => (WaitKind::ResponseHeld, Owner::Server),
    }
}

pub(super) fn paused(trace: &Trace<'_>, sender: Side) -> (WaitKind, Owner) {
    match sender {
        // Nobody knows that it owed anything.
        _ if trace.is_unread => (WaitKind::Unknown, Owner::Unknown),
        Side::Client => (WaitKind::RequestPause, Owner::Client),
        // The path was late before, and may have been so again.
        Side::Server if trace.is_request_overdue() => (WaitKind::Unknown, Owner::Unknown),
        Side::Server => (WaitKind::ServerPause, Owner::Server),
    }
}

pub(super) fn owner_of(side: Side) -> Owner {
    match side {
        Side::Client => Owner::Client,
        Side::Server => Owner::Server,
    }
}
