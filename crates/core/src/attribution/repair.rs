//! Retransmissions: what each repaired, and how the loss was noticed.

use core::time::Duration;

use super::gap::{Gap, transfer};
use super::release::reaction;
use super::{LEAST_TIMEOUT, REORDERING, Trace};
use crate::attribution::mark::{Data, Mark};
use crate::attribution::packet::Arrival;
use crate::attribution::packet::Need;
use crate::attribution::packet::Order;
use crate::exchange::wait::{Owner, WaitKind};
use crate::exchange::{Recovery, RecoveryMechanism, Side};
use crate::observed::time::Timestamp;

/// Minimum number of segments as long that are missing behind one that was sent again where all
/// of its flight is: one may have been lost by itself later.
const LEAST_MISSING: u64 = 3;
/// Initial TTL of Linux (`ip_default_ttl`); other systems begin with more.
const LINUX_TTL: u8 = 64;
/// The longest that Windows delays an acknowledgement: 200 ms, give or take a tick.
const LONGEST_DELAYED_ACK: Duration = Duration::from_millis(220);

/// Names the gap before a retransmission, seen at its sender.
pub(super) fn repeated(trace: &Trace<'_>, before: &Mark, mark: &Mark, data: Data) -> Gap {
    if data.was_too_big {
        // Cut to size as soon as a router said so: nothing was lost unawares.
        return Gap::named(transfer(mark.by), Owner::Path);
    }
    if data.need != Need::Needed {
        return Gap::named(WaitKind::Unknown, Owner::Unknown);
    }
    let since = copy_before(trace, mark, data).map_or(before.at, |m| m.at);
    let (since_copy, took) = (mark.at.since(since), mark.at.since(before.at));
    let is_revealed = is_hole_reported(trace, mark.by, since, mark);
    let mut gap = recovered(trace, mark, since_copy, took, is_revealed);
    if let Some(recovery) = gap.recovery.as_mut().filter(|_| !is_revealed) {
        recovery.is_doubtful |= may_be_delayed(trace, mark.by, since_copy);
    }
    gap
}

/// Returns true if the receiver may have had what was sent again `since_copy` later, and have
/// delayed its acknowledgement: Windows waits longer than many a timer, and does not report copies
/// (D-SACK).
fn may_be_delayed(trace: &Trace<'_>, sender: Side, since_copy: Duration) -> bool {
    let peer = sender.peer();
    let is_other = trace
        .marks
        .iter()
        .any(|m| m.by == peer && m.ttl > LINUX_TTL);
    is_other && since_copy <= trace.whole_trip() + LONGEST_DELAYED_ACK
}

/// Returns the copy of these bytes that was sent last before `mark`.
fn copy_before<'a>(trace: &'a Trace<'_>, mark: &Mark, data: Data) -> Option<&'a Mark> {
    trace.marks.iter().rev().find(|m| {
        m.at < mark.at
            && m.by == mark.by
            && m.data
                .is_some_and(|d| d.span.start < data.span.end && d.span.end > data.span.start)
    })
}

/// Returns true if the receiver told the sender of missing data after `since`: by SACK, or by
/// acknowledging the same again, which later data makes it do (RFC 5681 §3.2). What is sent again
/// as soon as anything came from there was released by that, and not by a timer.
fn is_hole_reported(trace: &Trace<'_>, sender: Side, since: Timestamp, until: &Mark) -> bool {
    let reaction = reaction(trace, sender) + trace.round_trip(sender).floor().unwrap_or_default();
    trace.marks.iter().any(|answer| {
        let is_between = answer.at > since && answer.at < until.at;
        let is_alike = answer.data.is_none() && !answer.is_news;
        let is_release = until.at.since(answer.at) <= reaction;
        let tells = answer.reports_hole || is_alike || is_release;
        is_between && answer.by == sender.peer() && tells
    })
}

/// Names the gap before missing bytes that arrived: reordered, or sent again.
pub(super) fn filled(trace: &Trace<'_>, before: &Mark, mark: &Mark, data: Data) -> Gap {
    let noticed = noticed(trace, mark, data);
    // Without later data it was the sender's ACKs that told of it.
    let late = mark.at.since(noticed.map_or(before.at, |m| m.at));
    if is_overtaken(trace, mark, data, late) {
        let took = late.min(mark.at.since(before.at));
        return Gap {
            // Within that, RACK waits too: harmless.
            overtaken: (late >= patience(trace, mark.by)).then_some(took),
            ..Gap::named(transfer(mark.by), Owner::Path)
        };
    }
    let is_missed = |m: &Mark| is_hole_reported(trace, mark.by, m.at, mark);
    if trace.is_near(mark.by) && !noticed.is_some_and(is_missed) {
        // Beside its sender: the capture missed when it was sent first, and the receiver
        // did not say that it missed it too.
        return Gap::named(WaitKind::Unknown, Owner::Unknown);
    }
    recovered(trace, mark, late, late, noticed.is_some())
}

/// Returns true if what `first` came before was merely late: it had been sent, and not yet again
/// when it came.
pub(super) fn is_overtaking(trace: &Trace<'_>, first: &Mark) -> bool {
    let Some(sent) = first.data else { return false };
    let fills = |m: &&Mark| {
        let data = m.data.filter(|data| data.arrival == Arrival::Fill);
        m.by == first.by && m.at >= first.at && data.is_some_and(|d| d.span.end <= sent.span.start)
    };
    let mut fillers = trace.marks.iter().filter(fills).peekable();
    let was_late = |m: &Mark| {
        let late = m.at.since(first.at);
        m.data.is_some_and(|d| is_overtaken(trace, m, d, late))
    };
    fillers.peek().is_some() && fillers.all(was_late)
}

/// Returns the first segment that came from behind the hole that `mark` fills.
fn noticed<'a>(trace: &'a Trace<'_>, mark: &Mark, data: Data) -> Option<&'a Mark> {
    // A segment may bring what had arrived behind the hole once more.
    let is_behind = |m: &Mark, d: Data| {
        let is_again = m.at < mark.at && d.span.start > data.span.start;
        d.span.start >= data.span.end || (is_again && d.span.end >= data.span.end)
    };
    let mut marks = trace.marks.iter();
    marks.find(|m| m.by == mark.by && m.data.is_some_and(|d| is_behind(m, d)))
}

/// Returns true if what filled a hole so `late` had been sent before what came in front of it.
fn is_overtaken(trace: &Trace<'_>, mark: &Mark, data: Data, late: Duration) -> bool {
    let travel = trace.round_trip(mark.by).floor().unwrap_or_default();
    match data.order {
        Order::Older => true,
        Order::Newer => false,
        Order::Untold => {
            late < patience(trace, mark.by)
                || (late < travel * 7 / 8 && !may_be_by_timer(trace, mark, data))
                || is_repeated_behind(trace, mark, data)
        }
    }
}

/// Returns the time that RACK waits before it takes a segment that others overtook for lost.
fn patience(trace: &Trace<'_>, sender: Side) -> Duration {
    let travel = trace.round_trip(sender).floor().unwrap_or_default();
    REORDERING.max(travel / 4)
}

/// Returns true if a timer or a probe can have sent what filled a hole. Else the receiver's
/// word of the hole must have reached the sender before, which takes the travel there and
/// back: what comes sooner had been sent before.
fn may_be_by_timer(trace: &Trace<'_>, mark: &Mark, data: Data) -> bool {
    let ends_at_hole = |m: &&Mark| {
        m.by == mark.by && m.at < mark.at && m.data.is_some_and(|d| d.span.end == data.span.start)
    };
    let sent = trace.marks.iter().rev().find(ends_at_hole);
    let probe = trace.whole_trip() * 2 * 7 / 8;
    sent.is_none_or(|sent| mark.at.since(sent.at) >= probe.min(LEAST_TIMEOUT))
}

/// Returns true if the bytes that filled a hole came once more about when their sender can have
/// heard that they are there, and no timer's time later: it had repeated what was only late. A
/// path that queues takes up to twice its least round trip.
fn is_repeated_behind(trace: &Trace<'_>, mark: &Mark, data: Data) -> bool {
    let travel = trace.round_trip(mark.by).floor().unwrap_or_default();
    let until = mark.at + travel.max((travel * 2).min(LEAST_TIMEOUT));
    let mut behind = trace
        .marks
        .iter()
        .filter(|m| m.by == mark.by && m.number != mark.number && m.at >= mark.at && m.at <= until);
    behind.any(|m| {
        m.data.is_some_and(|d| {
            d.arrival == Arrival::Repeat
                && d.span.start < data.span.end
                && d.span.end > data.span.start
        })
    })
}

/// Names the gap before `mark`, which brought what was lost, `since_copy` after the copy before was
/// sent, or would have come.
pub(super) fn recovered(
    trace: &Trace<'_>,
    mark: &Mark,
    since_copy: Duration,
    took: Duration,
    is_revealed: bool,
) -> Gap {
    Gap {
        wait: Some((WaitKind::Recovery, Owner::Path)),
        recovery: Some(recovery(trace, mark, since_copy, took, is_revealed)),
        ..Gap::default()
    }
}

/// Returns the repair that a flight's first segment is, `gap` after what came before: none of the
/// flight had come. Its sender numbers nothing, or by a counter that tells nothing, but went on
/// behind it by what one acknowledgement lets go, and further than it had come: what lies between
/// was sent before.
pub(super) fn resumed(
    trace: &Trace<'_>,
    (mark, data): (&Mark, Data),
    index: usize,
    gap: Duration,
) -> Option<Gap> {
    if gap < LEAST_TIMEOUT {
        return None;
    }
    let trip = trace.whole_trip();
    let timeout = LEAST_TIMEOUT + trip;
    if gap < timeout || trace.is_near(mark.by) {
        return None;
    }
    let mut rest = trace.marks.get(index + 1..)?.iter();
    let next = rest.find(|m| m.by == mark.by && m.data.is_some())?;
    let beyond = next.data.filter(|d| d.arrival == Arrival::PastHole)?;
    let size = data.span.end - data.span.start;
    let missing = beyond.span.start.saturating_sub(data.span.end);
    let (least, most) = ((trip * 7 / 8).max(REORDERING), trip * 3 / 2 + REORDERING);
    let is_released = (least..=most).contains(&next.at.since(mark.at));
    if !is_released || missing < size * LEAST_MISSING {
        return None;
    }
    let mut gap_of = recovered(trace, mark, gap, gap, false);
    if let Some(recovery) = &mut gap_of.recovery {
        // Each timeout is twice the one before (RFC 6298 §5.5).
        recovery.again |= gap >= timeout * 3;
    }
    Some(gap_of)
}

/// Returns a repair, and the way in which the loss was noticed.
pub(super) fn recovery(
    trace: &Trace<'_>,
    mark: &Mark,
    since_copy: Duration,
    took: Duration,
    is_revealed: bool,
) -> Recovery {
    let floor = |side| trace.round_trip(side).floor().unwrap_or_default();
    let trip = floor(Side::Client) + floor(Side::Server);
    // The timer is the smoothed round trip and 200 ms at least (RFC 6298 §2.3
    // with Linux's floor), a probe's two round trips.
    let least = (LEAST_TIMEOUT + trip).min(LEAST_TIMEOUT.max(trip * 3));
    let is_by_word = is_revealed && follows_word(trace, mark);
    let mechanism = if since_copy >= least && !is_by_word {
        RecoveryMechanism::Timeout
    } else if is_revealed {
        RecoveryMechanism::Fast
    } else {
        RecoveryMechanism::Probe
    };
    Recovery {
        sender: mark.by,
        mechanism,
        again: is_sent_thrice(trace, mark),
        is_doubtful: mark.skipped > 0
            && mark
                .data
                .is_some_and(|data| matches!(data.arrival, Arrival::InOrder | Arrival::PastHole)),
        bytes: mark.data.map_or(0, |data| {
            u32::try_from(data.span.end - data.span.start).unwrap_or(u32::MAX)
        }),
        took,
        packet: mark.number,
    }
}

/// Returns true if the receiver's report of missing data reached its sender just before `mark`: a
/// timer expires in silence, and what is sent again long after its copy may have waited for its
/// turn. Behind a timeout, what was lost is sent again as each piece is acknowledged: still the
/// timer's.
fn follows_word(trace: &Trace<'_>, mark: &Mark) -> bool {
    let floor = trace.round_trip(mark.by).floor().unwrap_or_default();
    let latest = reaction(trace, mark.by) + floor + floor / 4;
    let before = trace.marks.iter().rev().filter(|word| word.at < mark.at);
    let mut words = before.take_while(|word| mark.at.since(word.at) <= latest);
    words.any(|word| word.by == mark.by.peer() && (word.reports_hole || !word.is_news))
}

/// Returns true if the bytes of `mark` had been sent again before. Beside their
/// sender each copy is seen; elsewhere the copy that repairs follows another
/// that its sender numbered and that never came, or comes behind the repair of what
/// lies further on.
fn is_sent_thrice(trace: &Trace<'_>, mark: &Mark) -> bool {
    let Some(data) = mark.data else { return false };
    match data.arrival {
        Arrival::Repeat => trace.marks.iter().any(|m| {
            m.by == mark.by
                && m.at < mark.at
                && m.data.is_some_and(|d| {
                    d.arrival == Arrival::Repeat
                        && d.need == Need::Needed
                        && d.span.start < data.span.end
                        && d.span.end > data.span.start
                })
        }),
        Arrival::Fill => mark.skipped > 0 || is_behind_later_repair(trace, mark, data),
        _ => mark.skipped > 1,
    }
}

/// Returns true if a hole further on was filled some time before the one that `mark` fills: a
/// sender repeats what is missing from its beginning on (RFC 6675 §4, `NextSeg()`), so that it
/// had repeated this one before, and that copy never came.
fn is_behind_later_repair(trace: &Trace<'_>, mark: &Mark, data: Data) -> bool {
    let fills = |m: &&Mark| {
        let fill = m.data.filter(|d| d.arrival == Arrival::Fill);
        let is_further = fill.is_some_and(|d| d.span.start >= data.span.end);
        m.by == mark.by && m.at < mark.at && is_further
    };
    // The last such repair is enough to ask about.
    let Some(later) = trace.marks.iter().rev().find(fills) else {
        return false;
    };
    let waited = mark.at.since(later.at);
    let was_repeated = |sent: Data| {
        let noticed = noticed(trace, later, sent);
        let late = noticed.map_or(Duration::ZERO, |m| later.at.since(m.at));
        !is_overtaken(trace, later, sent, late)
    };
    waited >= patience(trace, mark.by) && later.data.is_some_and(was_repeated)
}
