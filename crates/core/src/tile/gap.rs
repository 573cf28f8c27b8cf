//! Names the gap between two data segments of one sender by what ended it.

use core::time::Duration;

use super::flow::Flow;
use super::release::REACTION;
use super::repair::{filled, recovered, repeated};
use super::stop::{self, Stop};
use super::{LEAST_TIMEOUT, Trace};
use crate::connection::half::Arrival;
use crate::exchange::{Hold, HoldRelease, Recovery, Side};
use crate::mark::{Data, Mark};
use crate::wait::{Owner, WaitKind};

/// Stamps on one host stray by this much.
const JITTER: Duration = Duration::from_micros(100);
/// A path is quicker than the least round trip seen so far by at most this:
/// wider, and a server's own timer would meet a delayed ACK more than by chance.
const QUICKER: Duration = Duration::from_millis(1);
/// Gaps up to this long are the normal flow of a message.
const FLOW: Duration = Duration::from_micros(500);

/// A segment that was lost on its way here shows by a gap in its sender's
/// identifications; what repairs it takes longer than this.
const LEAST_RECOVERY: Duration = Duration::from_millis(2);

/// What a gap was.
#[derive(Debug, Default)]
pub(super) struct Gap {
    /// Its name; `None` when the second segment ended nothing.
    pub(super) wait: Option<(WaitKind, Owner)>,
    pub(super) hold: Option<Hold>,
    pub(super) recovery: Option<Recovery>,
    pub(super) stop: Option<Stop>,
    /// How long what had arrived waited for a segment that it overtook.
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
                // It repeats what came before together with what did not.
                return recovered(trace, mark, gap, gap, false);
            }
            if mark.skipped > 0 && gap > LEAST_RECOVERY && is_too_soon(trace, sender, gap) {
                // Several that a router on the way refused by ICMP and that were
                // cut to size at once; one may have been a bare ACK.
                return match mark.skipped > 1 && !trace.is_near(sender) {
                    true => Gap::named(transfer(sender), Owner::Path),
                    false => Gap::named(WaitKind::Unknown, Owner::Unknown),
                };
            }
            let is_whole = second.arrival == Arrival::InOrder;
            if is_whole && mark.skipped > 0 && gap > LEAST_RECOVERY && !is_repair(trace, mark, gap)
            {
                return Gap::named(WaitKind::Unknown, Owner::Unknown);
            }
            if mark.skipped > 0 && gap > LEAST_RECOVERY {
                // Beside its sender nothing is lost but by the capture.
                return match trace.is_near(sender) {
                    true => Gap::named(WaitKind::Unknown, Owner::Unknown),
                    false => recovered(trace, mark, gap, gap, false),
                };
            }
            flowed(trace, flow, (before, mark), index)
        }
    }
}

/// Whether what is missing came again sooner than the receiver's word of it
/// can have reached `sender`: that was not what told it.
fn is_too_soon(trace: &Trace<'_>, sender: Side, gap: Duration) -> bool {
    let travel = trace.round_trip(sender).floor().unwrap_or_default();
    gap < travel * 7 / 8
}

/// Returns true if segments lost just before `mark`, behind which no byte is missing, can
/// have been retransmitted by it after `gap`. The end of a flight is repeated as a probe
/// after two round trips; all of it, or what was lost twice, waits for the timer
/// (RFC 8985 §7.2). Anything sooner was something else that its sender numbered.
fn is_repair(trace: &Trace<'_>, mark: &Mark, gap: Duration) -> bool {
    let is_by_timer = gap >= LEAST_TIMEOUT;
    // Paths get a little quicker than the least round trip seen.
    is_by_timer || (mark.skipped == 1 && gap >= trace.whole_trip() * 2 * 7 / 8)
}

/// What waited for a receiver that had no room.
fn closed(trace: &Trace<'_>, before: &Mark, mark: &Mark, index: usize) -> Gap {
    let (wait, stop) = stop::closed(trace, before, mark, index);
    Gap {
        wait: Some(wait),
        stop,
        ..Gap::default()
    }
}

/// New data: held, blocked, paused, or simply on its way.
fn flowed(trace: &Trace<'_>, flow: &Flow, (before, mark): (&Mark, &Mark), index: usize) -> Gap {
    let sender = mark.by;
    let (Some(first), Some(second)) = (before.data, mark.data) else {
        return Gap::default();
    };
    let gap = mark.at.since(before.at);
    // A congestion window of one segment holds the second just as well.
    let has_room = trace.initial_window(sender, first) > 1;
    let may_be_held = has_room && may_be_held(trace, sender, first, second);
    if gap <= FLOW && !may_be_held && !flow.is_drained() {
        return Gap::named(transfer(sender), Owner::Path);
    }
    let release = between(trace, before, index)
        .iter()
        .find(|m| m.by == sender.peer() && m.ack >= first.span.end);
    if release.is_none() && gap >= longest_unacknowledged(trace, sender) {
        if flow.is_closed {
            return closed(trace, before, mark, index);
        }
        return match is_sent_again(trace, mark, first) {
            true => recovered(trace, mark, gap, gap, false),
            false => Gap::named(WaitKind::Unknown, Owner::Unknown),
        };
    }
    if release.is_none() && may_be_probe(trace, sender, gap) && is_sent_again(trace, mark, first) {
        return Gap::named(WaitKind::Unknown, Owner::Unknown);
    }
    let hold = match may_be_held {
        true => hold(trace, before, mark, release),
        false => None,
    };
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

/// After so long without an acknowledgement either was lost, or the capture
/// missed it.
fn longest_unacknowledged(trace: &Trace<'_>, sender: Side) -> Duration {
    LEAST_TIMEOUT + trace.round_trip(sender.peer()).floor().unwrap_or_default()
}

/// Whether it is long enough for a tail loss probe, which sends what is new if
/// there is anything: two round trips and more (RFC 8985 §7.2). Nothing tells
/// that from a program that went on just then.
fn may_be_probe(trace: &Trace<'_>, sender: Side, gap: Duration) -> bool {
    let floor = |side| trace.round_trip(side).floor().unwrap_or_default();
    gap >= LEAST_RECOVERY + (floor(sender) + floor(sender.peer())) * 2
}

/// Whether the bytes of `first` are sent again after `mark`: then it was a tail
/// loss probe that let `mark` go (new data passes Nagle's algorithm with it;
/// `tcp_send_loss_probe()` in `net/ipv4/tcp_output.c`).
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

/// How much longer the second queued on its way here than the first.
pub(super) fn queued_for(before: &Mark, mark: &Mark) -> Duration {
    mark.queued
        .possible()
        .saturating_sub(before.queued.possible())
}

/// The marks between `before` and the one at `index`.
fn between<'a>(trace: &'a Trace<'_>, before: &Mark, index: usize) -> &'a [Mark] {
    let marks = trace.marks.get(..index).unwrap_or_default();
    let start = marks.partition_point(|m| m.at <= before.at && m.number <= before.number);
    marks.get(start..).unwrap_or_default()
}

/// Whether it is a small segment behind a small segment of the same message:
/// otherwise Nagle's algorithm has no say. A FIN passes it, and so does data
/// behind a full segment.
fn may_be_held(trace: &Trace<'_>, sender: Side, first: Data, second: Data) -> bool {
    // A full segment passes it, however many come with it.
    let is_partial = second.span.end - second.span.start < u64::from(trace.pipe(sender).mss);
    first.is_small
        && second.is_small
        && is_partial
        && !second.has_fin
        && !second.had_no_room
        && second.arrival == Arrival::InOrder
        && first.span.end == second.span.start
}

/// What let such a segment go.
fn hold(trace: &Trace<'_>, before: &Mark, mark: &Mark, release: Option<&Mark>) -> Option<Hold> {
    let trip = trace.round_trip(mark.by);
    let travel = trip.floor()?;
    let held = mark.at.since(before.at);
    let Some(ack) = release else {
        let packets = [before.number, 0, mark.number];
        let (ack_delay, reaction_ns) = (held, -nanos(travel));
        let release = HoldRelease::Eager;
        return Some(Hold {
            sender: mark.by,
            release,
            held,
            ack_delay,
            reaction_ns,
            packets,
        });
    };
    let back = trace.round_trip(mark.by.peer()).floor().unwrap_or_default();
    let gap = mark.at.signed_since(ack.at);
    // A reply as quick as this one bounds the way better than the programs' do.
    let travel = match trip.is_bounded() {
        true => travel,
        false => travel.min(mark.at.since(ack.at)),
    };
    let reaction_ns = gap.saturating_sub(nanos(travel));
    // The path may be quicker than it was when its round trip was taken.
    let slack = nanos(trip.error() + JITTER).max(nanos(QUICKER.min(travel / 8)));
    let release = if reaction_ns < -slack {
        HoldRelease::Eager
    } else if reaction_ns <= nanos(REACTION.max(trip.error() * 2)) {
        HoldRelease::Acknowledgement
    } else {
        HoldRelease::Program
    };
    Some(Hold {
        sender: mark.by,
        release,
        held,
        ack_delay: ack.at.since(before.at).saturating_sub(back),
        reaction_ns,
        packets: [before.number, ack.number, mark.number],
    })
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
        Side::Server => (WaitKind::ServerPause, Owner::Server),
    }
}

pub(super) fn owner_of(side: Side) -> Owner {
    match side {
        Side::Client => Owner::Client,
        Side::Server => Owner::Server,
    }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
