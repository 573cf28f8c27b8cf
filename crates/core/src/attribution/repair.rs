//! Retransmissions: what each repaired, and how the sender noticed the loss.

use core::time::Duration;

use super::attributed::Gap;
use super::release::reaction;
use super::{LEAST_TIMEOUT, REORDERING, Trace};
use crate::attribution::packet::Arrival;
use crate::attribution::packet::Need;
use crate::attribution::packet::Order;
use crate::attribution::packet_record::{Data, PacketRecord};
use crate::exchange::wait::{Owner, WaitKind};
use crate::exchange::{Recovery, RecoveryMechanism, Side};
use crate::observed::segment::LINUX_TTL;
use crate::observed::time::Timestamp;

/// Minimum number of equally long segments that are missing after a retransmitted one if its whole
/// flight is missing: a single one may have been lost independently later.
const LEAST_MISSING: u64 = 3;
/// Maximum delay of an acknowledgement on Windows: 200 ms, plus or minus a tick.
const LONGEST_DELAYED_ACK: Duration = Duration::from_millis(220);
/// Maximum time from the receiver's report of a loss to its repair without a timer, if the round
/// trip to the sender is not known: the timer of a sender that does not know it either (RFC 6298
/// §2.1).
const LONGEST_TRIP: Duration = Duration::from_secs(1);

/// Attributes the gap before a retransmission, seen at its sender.
pub(super) fn repeated(
    trace: &Trace<'_>,
    before: &PacketRecord,
    packet: &PacketRecord,
    data: Data,
) -> Gap {
    if data.was_too_big {
        // The sender split the packet as soon as a router rejected it: this is not a silent loss.
        return Gap::named(packet.by.transfer(), Owner::Path);
    }
    if data.need != Need::Needed {
        return Gap::named(WaitKind::Unknown, Owner::Unknown);
    }
    let copy = copy_before(trace, packet, data);
    let since = copy.map_or(before.at, |m| m.at);
    let (since_copy, took) = (packet.at.since(since), packet.at.since(before.at));
    let is_revealed = is_hole_reported(trace, packet.by, since, packet);
    // Neither a probe nor a timer repeats a lone segment so soon (RFC 8985 §7.2).
    let is_hasty =
        since_copy < LEAST_TIMEOUT && copy.is_some_and(|copy| is_alone(trace, copy, packet));
    if !is_revealed && is_hasty && may_be_delayed(trace, packet.by, since_copy) {
        return Gap::named(WaitKind::Unknown, Owner::Unknown);
    }
    let mut gap = recovered(trace, packet, since_copy, took, is_revealed);
    if let Some(recovery) = gap.recovery.as_mut().filter(|_| !is_revealed) {
        recovery.is_doubtful |= may_be_delayed(trace, packet.by, since_copy);
    }
    gap
}

/// Returns true if the receiver may already have had the bytes when they were retransmitted,
/// `since_copy` after the first copy, and only have delayed their acknowledgement: Windows delays
/// acknowledgements for longer than many retransmission timers wait, and does not report duplicates
/// (D-SACK).
fn may_be_delayed(trace: &Trace<'_>, sender: Side, since_copy: Duration) -> bool {
    let peer = sender.peer();
    let is_other = trace
        .packets
        .iter()
        .any(|m| m.by == peer && m.ttl > LINUX_TTL);
    is_other && since_copy <= trace.whole_trip() + LONGEST_DELAYED_ACK
}

/// Returns true if `copy` was the only segment in flight until `packet`. A receiver may delay the
/// acknowledgement of a single segment, and acknowledges every second one immediately (RFC 5681
/// §4.2).
fn is_alone(trace: &Trace<'_>, copy: &PacketRecord, packet: &PacketRecord) -> bool {
    let is_single = copy.data.is_some_and(|data| {
        let mss = u64::from(trace.pipe(copy.by).mss);
        data.in_flight == 0 && data.span.end - data.span.start <= mss
    });
    let mut since = trace
        .packets
        .iter()
        .filter(|m| m.number > copy.number && m.number < packet.number);
    is_single && !since.any(|m| m.by == copy.by && m.data.is_some())
}

/// Returns the last copy of these bytes that was sent before `packet`.
fn copy_before<'a>(
    trace: &'a Trace<'_>,
    packet: &PacketRecord,
    data: Data,
) -> Option<&'a PacketRecord> {
    trace.packets.iter().rev().find(|m| {
        m.at < packet.at
            && m.by == packet.by
            && m.data
                .is_some_and(|d| d.span.start < data.span.end && d.span.end > data.span.start)
    })
}

/// Returns true if the receiver reported missing data to the sender after `since`: by SACK, or by a
/// duplicate acknowledgement, which later data triggers (RFC 5681 §3.2). A retransmission sent as
/// soon as such a report arrives was triggered by the report, not by a timer.
fn is_hole_reported(
    trace: &Trace<'_>,
    sender: Side,
    since: Timestamp,
    until: &PacketRecord,
) -> bool {
    let reaction = reaction(trace, sender) + trace.round_trip(sender).floor().unwrap_or_default();
    trace.packets.iter().any(|answer| {
        let is_between = answer.at > since && answer.at < until.at;
        let is_alike = answer.data.is_none() && !answer.is_news;
        let is_release = until.at.since(answer.at) <= reaction;
        let tells = answer.reports.hole || is_alike || is_release;
        is_between && answer.by == sender.peer() && tells
    })
}

/// Attributes the gap before missing bytes that arrived: reordered, or retransmitted.
pub(super) fn filled(
    trace: &Trace<'_>,
    before: &PacketRecord,
    packet: &PacketRecord,
    data: Data,
) -> Gap {
    let noticed = noticed(trace, packet, data);
    // Without later data, the sender noticed the loss because ACKs were missing.
    let late = packet.at.since(noticed.map_or(before.at, |m| m.at));
    if is_overtaken(trace, noticed.unwrap_or(before), packet, data) {
        let took = late.min(packet.at.since(before.at));
        return Gap {
            // A shorter delay is harmless, because RACK waits for that long too.
            overtaken: (late >= patience(trace, packet.by)).then_some(took),
            ..Gap::named(packet.by.transfer(), Owner::Path)
        };
    }
    let is_missed = |m: &PacketRecord| is_hole_reported(trace, packet.by, m.at, packet);
    if trace.is_near(packet.by) && !noticed.is_some_and(is_missed) {
        // At the sender: the capture missed the first transmission, and the receiver did not
        // report it missing too.
        return Gap::named(WaitKind::Unknown, Owner::Unknown);
    }
    // Holes that are open at the same time do not cost the same time more than once.
    let took = late.min(packet.at.since(before.at));
    recovered(trace, packet, late, took, noticed.is_some())
}

/// Returns true if the bytes that `first` overtook were merely late: they had been sent, and not
/// yet retransmitted, when `first` arrived.
pub(super) fn is_overtaking(trace: &Trace<'_>, first: &PacketRecord) -> bool {
    let Some(sent) = first.data else { return false };
    let fills = |m: &&PacketRecord| {
        let data = m.data.filter(|data| data.arrival == Arrival::Fill);
        m.by == first.by && m.at >= first.at && data.is_some_and(|d| d.span.end <= sent.span.start)
    };
    let mut fillers = trace.packets.iter().filter(fills).peekable();
    let was_late = |m: &PacketRecord| {
        m.data
            .is_some_and(|data| is_overtaken(trace, first, m, data))
    };
    fillers.peek().is_some() && fillers.all(was_late)
}

/// Returns the first segment that arrived from after the hole that `packet` fills.
fn noticed<'a>(
    trace: &'a Trace<'_>,
    packet: &PacketRecord,
    data: Data,
) -> Option<&'a PacketRecord> {
    // A segment may also retransmit bytes after the hole that had already arrived.
    let is_behind = |m: &PacketRecord, d: Data| {
        let is_again = m.at < packet.at && d.span.start > data.span.start;
        d.span.start >= data.span.end || (is_again && d.span.end >= data.span.end)
    };
    let mut packets = trace.packets.iter();
    packets.find(|m| m.by == packet.by && m.data.is_some_and(|d| is_behind(m, d)))
}

/// Returns true if a hole was filled by a segment that had been sent before `first`, the segment
/// that arrived ahead of it, or so soon after it that nothing can have caused a retransmission. Of
/// the time between their arrivals, what the filling segment spent in queues is no time between
/// their departures.
fn is_overtaken(
    trace: &Trace<'_>,
    first: &PacketRecord,
    packet: &PacketRecord,
    data: Data,
) -> bool {
    let propagation = trace.round_trip(packet.by).floor().unwrap_or_default();
    let queued = (packet.queued.known()).saturating_sub(first.queued.possible());
    let late = packet.at.since(first.at).saturating_sub(queued);
    match data.order {
        Order::Older => true,
        Order::Newer => false,
        Order::Untold => {
            late < patience(trace, packet.by)
                || (late < propagation * 7 / 8 && !may_be_by_timer(trace, packet, data))
                || is_repeated_behind(trace, packet, data)
        }
    }
}

/// Returns the time that RACK waits before it treats an overtaken segment as lost.
fn patience(trace: &Trace<'_>, sender: Side) -> Duration {
    let propagation = trace.round_trip(sender).floor().unwrap_or_default();
    REORDERING.max(propagation / 4)
}

/// Returns true if a timer or a probe can have sent the segment that filled a hole. Otherwise the
/// receiver's report of the hole must have reached the sender first, which takes the propagation
/// there and back: a segment that comes sooner had been sent before.
fn may_be_by_timer(trace: &Trace<'_>, packet: &PacketRecord, data: Data) -> bool {
    let ends_at_hole = |m: &&PacketRecord| {
        m.by == packet.by
            && m.at < packet.at
            && m.data.is_some_and(|d| d.span.end == data.span.start)
    };
    let sent = trace.packets.iter().rev().find(ends_at_hole);
    let probe = trace.whole_trip() * 2 * 7 / 8;
    sent.is_none_or(|sent| packet.at.since(sent.at) >= probe.min(LEAST_TIMEOUT))
}

/// Returns true if the bytes that filled a hole came once more within about the round trip after
/// which the sender can have received the report of the hole, and sooner than a timer allows: the
/// sender had retransmitted bytes that were merely late. A path with queues takes up to twice its
/// minimum round trip.
fn is_repeated_behind(trace: &Trace<'_>, packet: &PacketRecord, data: Data) -> bool {
    let propagation = trace.round_trip(packet.by).floor().unwrap_or_default();
    let until = packet.at + propagation.max((propagation * 2).min(LEAST_TIMEOUT));
    let mut behind = trace.packets.iter().filter(|m| {
        m.by == packet.by && m.number != packet.number && m.at >= packet.at && m.at <= until
    });
    behind.any(|m| {
        m.data.is_some_and(|d| {
            d.arrival == Arrival::Repeat
                && d.span.start < data.span.end
                && d.span.end > data.span.start
        })
    })
}

/// Attributes the gap before `packet`, which carried the lost bytes `since_copy` after the previous
/// copy was sent, or would have arrived.
pub(super) fn recovered(
    trace: &Trace<'_>,
    packet: &PacketRecord,
    since_copy: Duration,
    took: Duration,
    is_revealed: bool,
) -> Gap {
    Gap {
        wait: Some((WaitKind::Recovery, Owner::Path)),
        recovery: Some(recovery(trace, packet, since_copy, took, is_revealed)),
        ..Gap::default()
    }
}

/// Returns the repair made by the first segment of a flight, `gap` after the preceding data, if
/// nothing of the lost flight arrived. The sender does not number its segments, or its counter
/// shows nothing. But it continued with as much as one acknowledgement releases, and beyond the
/// bytes that had arrived: the bytes in between had been sent before.
pub(super) fn resumed(
    trace: &Trace<'_>,
    (packet, data): (&PacketRecord, Data),
    index: usize,
    gap: Duration,
) -> Option<Gap> {
    if gap < LEAST_TIMEOUT {
        return None;
    }
    let trip = trace.whole_trip();
    let timeout = LEAST_TIMEOUT + trip;
    if gap < timeout || trace.is_near(packet.by) {
        return None;
    }
    let mut rest = trace.packets.get(index + 1..)?.iter();
    let next = rest.find(|m| m.by == packet.by && m.data.is_some())?;
    let beyond = next.data.filter(|d| d.arrival == Arrival::PastHole)?;
    let size = data.span.end - data.span.start;
    let missing = beyond.span.start.saturating_sub(data.span.end);
    let (least, most) = ((trip * 7 / 8).max(REORDERING), trip * 3 / 2 + REORDERING);
    let is_released = (least..=most).contains(&next.at.since(packet.at));
    if !is_released || missing < size * LEAST_MISSING {
        return None;
    }
    let mut gap_of = recovered(trace, packet, gap, gap, false);
    if let Some(recovery) = &mut gap_of.recovery {
        // Each timeout is twice as long as the one before (RFC 6298 §5.5).
        recovery.again |= gap >= timeout * 3;
    }
    Some(gap_of)
}

/// Returns a repair, and how the sender noticed the loss.
pub(super) fn recovery(
    trace: &Trace<'_>,
    packet: &PacketRecord,
    since_copy: Duration,
    took: Duration,
    is_revealed: bool,
) -> Recovery {
    let has_acks = trace.packets.iter().any(|m| m.by == packet.by.peer());
    let least = least_timeout(trace, packet.by, is_revealed && has_acks);
    let is_by_word = is_revealed && follows_word(trace, packet);
    let is_by_timer =
        since_copy >= least && !is_by_word && (!is_revealed || may_be_oldest(packet, has_acks));
    let mechanism = if is_by_timer || is_after_timeout(trace, packet, least, has_acks) {
        RecoveryMechanism::Timeout
    } else if is_revealed {
        RecoveryMechanism::Fast
    } else {
        RecoveryMechanism::Probe
    };
    Recovery {
        sender: packet.by,
        mechanism,
        again: is_sent_thrice(trace, packet),
        is_revealed,
        is_doubtful: packet.skipped > 0
            && packet
                .data
                .is_some_and(|data| matches!(data.arrival, Arrival::InOrder | Arrival::PastHole)),
        bytes: packet.data.map_or(0, |data| {
            u32::try_from(data.span.end - data.span.start).unwrap_or(u32::MAX)
        }),
        took,
        packet: packet.number,
    }
}

/// Returns the minimum time after which `sender`'s timer repairs a loss: the smoothed round trip
/// plus at least 200 ms (RFC 6298 §2.3 with Linux's floor), or two round trips for a probe. If the
/// round trip to the sender is not known, the report of a loss may have repaired it as late.
fn least_timeout(trace: &Trace<'_>, sender: Side, is_reported: bool) -> Duration {
    if is_reported && trace.round_trip(sender).floor().is_none() {
        return LONGEST_TRIP;
    }
    let trip = trace.whole_trip();
    (LEAST_TIMEOUT + trip).min(LEAST_TIMEOUT.max(trip * 3))
}

/// Returns true if the receiver's report of missing data reached its sender just before `packet`. A
/// timer expires in silence, and a segment retransmitted long after its copy may have waited for
/// its turn. After a timeout, lost data is retransmitted as earlier data is acknowledged: this
/// still counts as the timer's.
fn follows_word(trace: &Trace<'_>, packet: &PacketRecord) -> bool {
    let reaction = reaction(trace, packet.by);
    let floor = trace.round_trip(packet.by).floor();
    let latest = floor.map_or(LONGEST_TRIP, |floor| reaction + floor + floor / 4);
    let before = trace
        .packets
        .iter()
        .rev()
        .filter(|word| word.at < packet.at);
    let mut words = before.take_while(|word| packet.at.since(word.at) <= latest);
    words.any(|word| word.by == packet.by.peer() && (word.reports.hole || !word.is_news))
}

/// Returns true if `packet` begins with the oldest unacknowledged byte, as what a retransmission
/// timer sends does (RFC 6298 §5.4). Without the receiver's ACKs, any byte may be the oldest.
fn may_be_oldest(packet: &PacketRecord, has_acks: bool) -> bool {
    let data = packet.data;
    data.is_some_and(|data| !has_acks || data.span.start <= data.acked)
}

/// Returns true if the bytes of `packet` had been sent before a retransmission timer expired, and
/// come after what the timer retransmitted: after a timeout, all that was in flight counts as lost,
/// and is retransmitted as ACKs arrive (RFC 5681 §3.1, RFC 6675 §5.1).
fn is_after_timeout(
    trace: &Trace<'_>,
    packet: &PacketRecord,
    least: Duration,
    has_acks: bool,
) -> bool {
    let Some(data) = packet.data else {
        return false;
    };
    let own = |m: &&PacketRecord| m.by == packet.by && m.at < packet.at && m.data.is_some();
    let (mut furthest, mut last) = (0, None::<Timestamp>);
    let mut timed = None;
    for m in trace.packets.iter().filter(own) {
        let Some(sent) = m.data else { continue };
        let is_again = matches!(sent.arrival, Arrival::Repeat | Arrival::Fill);
        let is_late = last.is_some_and(|last| m.at.since(last) >= least);
        if is_again && is_late && may_be_oldest(m, has_acks) {
            timed = Some((m, furthest));
        }
        furthest = sent.span.end.max(furthest);
        last = Some(m.at);
    }
    timed.is_some_and(|(m, until)| data.span.end <= until && !follows_word(trace, m))
}

/// Returns true if the bytes of `packet` had been retransmitted before. At their sender each copy is
/// visible. Elsewhere the repairing copy either follows another copy that its sender numbered and
/// that never arrived, or comes after the repair of later bytes.
fn is_sent_thrice(trace: &Trace<'_>, packet: &PacketRecord) -> bool {
    let Some(data) = packet.data else {
        return false;
    };
    match data.arrival {
        Arrival::Repeat => trace.packets.iter().any(|m| {
            m.by == packet.by
                && m.at < packet.at
                && m.data.is_some_and(|d| {
                    d.arrival == Arrival::Repeat
                        && d.need == Need::Needed
                        && d.span.start < data.span.end
                        && d.span.end > data.span.start
                })
        }),
        Arrival::Fill => {
            lost_before(trace, packet) > 0 || is_behind_later_repair(trace, packet, data)
        }
        _ => lost_before(trace, packet) > 1,
    }
}

/// Returns the number of segments that were lost just before `packet`, with bytes that `packet` or an
/// earlier segment carries too. The other missing segments are those of a hole, or bare ACKs.
pub(super) fn lost_before(trace: &Trace<'_>, packet: &PacketRecord) -> u16 {
    if packet.skipped == 0 {
        return 0;
    }
    let others = hole_before(trace, packet).saturating_add(acks_before(trace, packet));
    packet.skipped.saturating_sub(others)
}

/// Returns the number of full segments that fit into the hole before `packet`; 0 if it has none.
pub(super) fn hole_before(trace: &Trace<'_>, packet: &PacketRecord) -> u16 {
    let Some(data) = packet.data.filter(|data| data.arrival == Arrival::PastHole) else {
        return 0;
    };
    let earlier = trace
        .packets
        .iter()
        .filter(|m| m.by == packet.by && m.at < packet.at);
    let seen = earlier.filter_map(|m| m.data).map(|sent| sent.span.end);
    let before = seen.max().unwrap_or(trace.span(packet.by).start);
    let hole = data.span.start.saturating_sub(before);
    segments(hole, trace.pipe(packet.by).mss)
}

/// Returns the maximum number of bare ACKs that the sender of `packet` sent since its previous
/// segment: one for each segment that `packet` is the first to acknowledge. If the capture lacks
/// some of these segments, there is no limit.
fn acks_before(trace: &Trace<'_>, packet: &PacketRecord) -> u16 {
    let earlier = || trace.packets.iter().rev().filter(|m| m.at < packet.at);
    let acked = earlier().find(|m| m.by == packet.by).map(|m| m.ack);
    let from = acked.unwrap_or(0);
    let received = earlier().filter(|m| m.by != packet.by);
    let (mut bytes, mut count) = (0, 0_u16);
    for data in received.filter_map(|m| m.data) {
        let new = data.span.end.min(packet.ack);
        let new = new.saturating_sub(data.span.start.max(from));
        bytes += new;
        let mss = trace.pipe(packet.by.peer()).mss;
        count = count.saturating_add(segments(new, mss));
    }
    let is_known = acked.is_none_or(|acked| acked + bytes >= packet.ack);
    if is_known { count } else { u16::MAX }
}

/// Returns the minimum number of segments that carry so many bytes.
fn segments(bytes: u64, mss: u32) -> u16 {
    u16::try_from(bytes.div_ceil(mss.max(1).into())).unwrap_or(u16::MAX)
}

/// Returns true if a hole further on was filled some time before the one that `packet` fills. A
/// sender retransmits missing data from the beginning (RFC 6675 §4, `NextSeg()`), so it had
/// retransmitted this one before, and that copy never arrived.
fn is_behind_later_repair(trace: &Trace<'_>, packet: &PacketRecord, data: Data) -> bool {
    let fills = |m: &&PacketRecord| {
        let fill = m.data.filter(|d| d.arrival == Arrival::Fill);
        let is_further = fill.is_some_and(|d| d.span.start >= data.span.end);
        m.by == packet.by && m.at < packet.at && is_further
    };
    // The last such repair is sufficient for this.
    let Some(later) = trace.packets.iter().rev().find(fills) else {
        return false;
    };
    let waited = packet.at.since(later.at);
    let was_repeated = |sent: Data| {
        let first = noticed(trace, later, sent).unwrap_or(later);
        !is_overtaken(trace, first, later, sent)
    };
    waited >= patience(trace, packet.by) && later.data.is_some_and(was_repeated)
}
