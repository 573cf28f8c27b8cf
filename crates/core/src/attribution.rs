//! Cuts a closed exchange into waits, each named after what released it.
//!
//! The input is the packets of one exchange and the round trips from the observation point to both
//! ends; the output is waits that tile the exchange. Only single waits are judged here; the rules
//! decide whether they add up to a cause.

mod asked;
mod attributed;
mod between;
mod drops;
pub(crate) mod effort;
mod expect;
mod flow;
mod gap;
mod heard;
mod mtu_loss;
mod nagle;
mod overlay;
pub(crate) mod packet;
pub(crate) mod packet_record;
mod packing;
mod plain;
mod release;
mod repair;
pub(crate) mod rtt;
mod shared;
mod stop;
mod stops;
#[cfg(test)]
mod tests;
mod trace;

pub(crate) use overlay::{HeldSpan, Stretch};

use core::mem::take;
use core::time::Duration;

use crate::attribution::effort::Effort;
use crate::attribution::packet::Need;
use crate::attribution::packet::Order;
use crate::attribution::packet::{Arrival, Span};
use crate::attribution::packet_record::{Data, PacketRecord};
use crate::exchange::wait::{Bound, Owner, Wait, WaitKind};
use crate::exchange::{
    Exchange, Expectation, Loss, Packing, PathTimes, Queueing, Recovery, Seldom, Sending, Side,
};
use crate::observed::tcp::TCP_RTO_MIN;
use crate::observed::time::Timestamp;
use attributed::Gap;
use flow::{Flow, Piece};
use release::release;
use stop::Stop;
pub(crate) use stops::Before;
pub(crate) use trace::{After, Permission, Trace};

/// Minimum delay for an acknowledgement to count as delayed: a kernel that acknowledges immediately
/// does so well below the shortest delayed ACK (40 ms on Linux, `TCP_DELACK_MIN` in
/// `include/net/tcp.h`).
pub(crate) const LEAST_DELAYED_ACK: Duration = Duration::from_millis(20);

/// Minimum time after which a retransmission timer expires: [`TCP_RTO_MIN`] less a tick and the
/// timers' error.
pub(crate) const LEAST_TIMEOUT: Duration = TCP_RTO_MIN.saturating_sub(Duration::from_millis(20));

/// Maximum delay of reordered data relative to later data: data that arrives later than this was
/// lost (RFC 8985 §6.2 step 4 waits a quarter of the round trip).
const REORDERING: Duration = Duration::from_millis(1);

/// The outcome of tiling.
#[derive(Debug, Default)]
pub(crate) struct Tiling {
    pub(crate) waits: Vec<Wait>,
    pub(crate) sending: Seldom<Sending>,
    pub(crate) loss: Seldom<Loss>,
    pub(crate) path: PathTimes,
    pub(crate) packing: Seldom<Packing>,
    pub(crate) expectation: Option<Box<Expectation>>,
    /// The time from the last byte to the FIN that ends the response.
    pub(crate) close_wait: Option<Duration>,
}

/// Number of times that tiling looks at each packet, except for repairs.
const TILED: usize = 6;
/// Number of times that it looks at all packets to explain a repair.
const AROUND: usize = 8;
/// Number of packets for which an exchange is tiled in any case: as much work as the rest of the
/// exchange makes.
const FEW: usize = 64;
/// Maximum number of lists of exchanges kept for reuse of their memory.
const MAX_SPARE: usize = 256;
/// Maximum length of a list that is kept; longer lists are rare.
const MAX_SPARE_WAITS: usize = 64;

/// Lists whose memory is reused for the next exchange.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    waits: Vec<Vec<Wait>>,
    stops: Vec<Stop>,
    pieces: Vec<Piece>,
    strides: Vec<u32>,
}

impl Spare {
    /// Takes back the memory of an exchange that is no longer needed.
    pub(crate) fn take_back(&mut self, exchange: &mut Exchange) {
        let mut waits = take(&mut exchange.waits);
        if self.waits.len() < MAX_SPARE && waits.capacity() <= MAX_SPARE_WAITS {
            waits.clear();
            self.waits.push(waits);
        }
    }

    fn waits(&mut self) -> Vec<Wait> {
        self.waits.pop().unwrap_or_default()
    }
}

impl Tiling {
    /// Returns the total time of the waits of one kind.
    pub(crate) fn took(&self, kind: WaitKind) -> Duration {
        let of_kind = self.waits.iter().filter(|wait| wait.kind == kind);
        of_kind.map(Wait::duration).sum()
    }
}

/// Tiles one exchange. The waits' durations add up to `end - begin` exactly.
// The tiling is written where the caller has it, because moving it is expensive.
pub(crate) fn tile(trace: &Trace<'_>, effort: &Effort, spare: &mut Spare, tiling: &mut Tiling) {
    tiling.waits = spare.waits();
    if !may_tile(trace, effort) {
        untiled(trace, tiling);
    } else if !plain::tile(trace, tiling) {
        tile_around(trace, effort, spare, tiling);
    }
}

/// Tiles one exchange by all of its packets.
fn tile_around(trace: &Trace<'_>, effort: &Effort, spare: &mut Spare, tiling: &mut Tiling) {
    let mut tiler = Tiler {
        trace,
        effort,
        awaits_response: true,
        cursor: trace.begin,
        tiling,
        flow: Flow::default(),
        stops: take(&mut spare.stops),
        pieces: take(&mut spare.pieces),
    };
    let (request_end, first) = (tiler.walk(Side::Client), first_response(trace));
    if let Some(first) = first {
        tiler.between(request_end, first);
    }
    tiler.walk(Side::Server);
    tiler.tiling.close_wait = trace
        .after
        .ends_with_fin
        .then(|| trace.end.since(tiler.cursor));
    let (kind, owner) = if trace.after.ends_with_fin {
        (WaitKind::ServerPause, Owner::Server)
    } else {
        (WaitKind::Unknown, Owner::Unknown)
    };
    tiler.push(trace.end, kind, owner, None, Bound::Observed);
    tiler.tiling.packing = packing::packing(trace, &mut spare.strides);
    if let Some(delay) = harmless_delay(trace) {
        tiler.tiling.sending.harmless_delay = Some(delay);
    }
    tiler.tiling.path = path_times(trace, request_end, first, &tiler.tiling.loss.recoveries);
    if let Some(mtu) = mtu_loss::mtu_loss(trace, &tiler.tiling.loss.recoveries) {
        tiler.tiling.loss.mtu = Some(mtu);
    }
    tiler.note_drops();
    (spare.stops, spare.pieces) = (tiler.stops, tiler.pieces);
}

/// Returns true if the packets of an exchange may be looked at for it.
pub(crate) fn may_tile(trace: &Trace<'_>, effort: &Effort) -> bool {
    let count = trace.packets.len();
    count <= FEW || effort.spend(TILED * count)
}

/// Adds a single wait of which nothing is known: packets that belong to too many exchanges are not
/// looked at for each of them.
#[cold]
pub(crate) fn untiled(trace: &Trace<'_>, tiling: &mut Tiling) {
    if trace.end > trace.begin {
        tiling.waits.push(Wait {
            start: trace.begin,
            end: trace.end,
            kind: WaitKind::Unknown,
            owner: Owner::Unknown,
            released_by: None,
            bound: Bound::Observed,
        });
    }
}

/// Tiles a message that `sender` sent outside of any exchange. The time after its last segment has
/// no owner, unless the receiver's window was closed: then the message ends when that window opens. The
/// caller has asked if the packets [may be looked at](may_tile).
pub(crate) fn tile_message(
    trace: Trace<'_>,
    sender: Side,
    begins_shut_out: bool,
    effort: &Effort,
    spare: &mut Spare,
) -> (Tiling, Timestamp) {
    let left = stop::left_shut(&trace, sender, begins_shut_out);
    let end = left.map_or(trace.end, |(until, _)| until);
    let trace = &Trace { end, ..trace };
    let mut tiling = Tiling {
        waits: spare.waits(),
        ..Tiling::default()
    };
    let mut tiler = Tiler {
        trace,
        effort,
        awaits_response: false,
        cursor: trace.begin,
        tiling: &mut tiling,
        flow: Flow::default(),
        stops: take(&mut spare.stops),
        pieces: take(&mut spare.pieces),
    };
    tiler.stops.extend(left.map(|(_, stop)| stop));
    tiler.walk(sender);
    let (kind, owner) = match left {
        Some(_) => (WaitKind::WindowFull, sender.peer().owner()),
        None => (WaitKind::Unknown, Owner::Unknown),
    };
    tiler.push(trace.end, kind, owner, None, Bound::Observed);
    tiler.note_drops();
    (spare.stops, spare.pieces) = (tiler.stops, tiler.pieces);
    (tiling, end)
}

struct Tiler<'a> {
    trace: &'a Trace<'a>,
    /// The number of packets that may still be looked at.
    effort: &'a Effort,
    /// True if the client's message is a request, for whose response it waits.
    awaits_response: bool,
    cursor: Timestamp,
    tiling: &'a mut Tiling,
    /// The rate of the message whose packets are being walked.
    flow: Flow,
    stops: Vec<Stop>,
    pieces: Vec<Piece>,
}

impl Tiler<'_> {
    /// Appends a wait up to `end`, clamped to the time that is left. Empty waits are dropped, and
    /// equal neighbours are merged.
    fn push(
        &mut self,
        end: Timestamp,
        kind: WaitKind,
        owner: Owner,
        released_by: Option<u64>,
        bound: Bound,
    ) {
        let end = end.min(self.trace.end);
        if end <= self.cursor {
            return;
        }
        let wait = Wait {
            start: self.cursor,
            end,
            kind,
            owner,
            released_by,
            bound,
        };
        self.cursor = end;
        match self.tiling.waits.last_mut() {
            Some(last) if last.kind == kind && last.owner == owner && last.bound == bound => {
                last.end = end;
                last.released_by = released_by;
            }
            _ => self.tiling.waits.push(wait),
        }
    }

    /// Walks through one side's data packets and attributes the gaps between them. Returns the time
    /// of the last packet, at which the message was complete at the observation point.
    fn walk(&mut self, sender: Side) -> Timestamp {
        let span = self.trace.span(sender);
        self.flow = Flow::of(self.trace, sender, &mut self.pieces);
        let mut last: Option<&PacketRecord> = None;
        for (index, packet) in self.trace.packets.iter().enumerate() {
            let Some(data) = packet.data.filter(|_| packet.by == sender) else {
                continue;
            };
            let is_ours = data.span.start < span.end && data.span.end > span.start;
            let is_within = (self.trace.begin..=self.trace.end).contains(&packet.at);
            if !is_ours || self.is_needless(packet, data) || !is_within {
                let may_wait = is_ours && is_within && !self.is_whole(last, span);
                if may_wait && self.missed_answer(last, (packet, data), index) {
                    last = Some(packet);
                }
                continue;
            }
            // A segment that repeats a whole request belongs to the wait for the response.
            let is_whole = self.is_whole(last, span) && data.arrival != Arrival::Fill;
            if sender == Side::Client && is_whole && self.awaits_response {
                break;
            }
            if let Some(before) = last {
                self.name_gap(before, packet, index);
            }
            last = Some(packet);
        }
        let delivery = stops::delivery(self.trace, sender, &self.flow, &self.stops);
        if let Some(delivery) = delivery {
            self.tiling.sending.deliveries.push(delivery);
        }
        self.stops.clear();
        last.map_or(self.trace.begin, |packet| packet.at)
    }

    /// Returns true if the segment changed nothing at its receiver, and counts copies and needless
    /// retransmissions.
    fn is_needless(&mut self, packet: &PacketRecord, data: Data) -> bool {
        match data.arrival {
            Arrival::Copy => self.tiling.loss.disorder.copied(packet.number),
            // A point that sees the originals arrive also sees a needless retransmission arrive.
            Arrival::Repeat if data.need == Need::Spurious || !self.trace.is_near(packet.by) => {
                self.tiling.loss.disorder.resent(packet.number);
            }
            Arrival::KeepAlive => {}
            Arrival::InOrder | Arrival::PastHole | Arrival::Fill | Arrival::Repeat => return false,
        }
        true
    }

    /// Attributes the time up to a segment that a timer sent once more after its bytes had been
    /// acknowledged: the path lost the ACK, and the sender waited for it if new data followed the
    /// next ACK. Returns true if it did.
    fn missed_answer(
        &mut self,
        last: Option<&PacketRecord>,
        (packet, data): (&PacketRecord, Data),
        index: usize,
    ) -> bool {
        let is_late = last.is_some_and(|last| packet.at.since(last.at) >= LEAST_TIMEOUT);
        let is_acked = data.arrival == Arrival::Repeat && data.span.end <= data.acked;
        if !(is_late && is_acked && self.may_look_around()) {
            return false;
        }
        let is_awaited = self.continues_with_ack(packet, index);
        let (kind, owner) = if is_awaited {
            (WaitKind::Recovery, Owner::Path)
        } else {
            (WaitKind::Unknown, Owner::Unknown)
        };
        self.push(packet.at, kind, owner, Some(packet.number), Bound::Observed);
        is_awaited
    }

    /// Returns true if an ACK that came after `packet`, the one at `index`, released its sender's
    /// next new data.
    fn continues_with_ack(&self, packet: &PacketRecord, index: usize) -> bool {
        let is_new = |m: &PacketRecord| {
            let is_new = |data: Data| matches!(data.arrival, Arrival::InOrder | Arrival::PastHole);
            m.by == packet.by && m.data.is_some_and(is_new)
        };
        let mut rest = self.trace.packets.iter().enumerate().skip(index + 1);
        let next = rest.find(|(_, m)| is_new(m));
        let released = next.and_then(|(at, next)| release(self.trace, next, at));
        released.is_some_and(|ack| ack.at > packet.at)
    }

    /// Returns true if all packets may be looked at once more.
    fn may_look_around(&self) -> bool {
        self.effort.spend(AROUND * self.trace.packets.len())
    }

    fn is_whole(&self, last: Option<&PacketRecord>, span: Span) -> bool {
        last.and_then(|packet| packet.data)
            .is_some_and(|data| data.span.end >= span.end)
    }

    fn name_gap(&mut self, before: &PacketRecord, packet: &PacketRecord, index: usize) {
        let gap = if gap::is_local(packet) || self.may_look_around() {
            gap::name(self.trace, &self.flow, before, packet, index)
        } else {
            Gap::named(WaitKind::Unknown, Owner::Unknown)
        };
        if self.awaited_leave(before, packet, &gap)
            || self.awaited_client(before, packet, index, &gap)
        {
            return;
        }
        self.stops.extend(gap.stop);
        self.take_gap(gap, packet);
    }

    /// Records the bytes that the path passed and dropped, if it dropped several.
    fn note_drops(&mut self) {
        if let Some(drops) = drops::drops(self.trace, &self.tiling.loss.recoveries) {
            self.tiling.loss.drops = Some(drops);
        }
    }

    fn take_gap(&mut self, gap: Gap, packet: &PacketRecord) {
        if let Some(hold) = gap.hold {
            self.tiling.sending.holds.push(hold);
        }
        if let Some(recovery) = gap.recovery {
            self.tiling.loss.recoveries.push(recovery);
        }
        if let Some(late) = gap.overtaken {
            self.tiling.loss.disorder.overtook(packet.number, late);
        }
        if let Some((kind, owner)) = gap.wait {
            self.push(packet.at, kind, owner, Some(packet.number), Bound::Observed);
        }
    }
}

fn first_response<'a>(trace: &'a Trace<'_>) -> Option<&'a PacketRecord> {
    trace.packets.iter().find(|packet| {
        packet.by == Side::Server
            && packet.data.is_some_and(|data| {
                data.span.end > trace.response.start && data.span.start < trace.response.end
            })
    })
}

/// Returns what the packets show about the propagation of request and response.
fn path_times(
    trace: &Trace<'_>,
    request_end: Timestamp,
    first: Option<&PacketRecord>,
    recoveries: &[Recovery],
) -> PathTimes {
    let request = trace
        .packets
        .iter()
        .find(|packet| packet.by == Side::Client && packet.data.is_some());
    let is_clean = recoveries.is_empty() && trace.behind.is_none();
    let reply = first.filter(|first| {
        let whole = first
            .data
            .is_some_and(|d| d.span.start <= trace.response.start);
        is_clean && whole && first.at >= request_end
    });
    let until = first.map_or(Timestamp::MIN, |first| first.at);
    let mut before = trace.packets.iter().take_while(|packet| packet.at < until);
    let is_acked_first = before.any(|packet| {
        packet.by == Side::Server && packet.data.is_none() && packet.ack >= trace.request.end
    });
    let queued =
        |packet: Option<&PacketRecord>| packet.map(|m| m.queued.known()).unwrap_or_default();
    PathTimes {
        idle: request.and_then(|packet| packet.idle),
        reply: reply.map(|first| first.at.since(request_end)),
        is_acked_first,
        queued: Queueing {
            request: queued(request),
            response: queued(first),
        },
        heard_late: heard::late(trace).filter(|_| is_clean),
        to_client: trace.trips.client.floor().unwrap_or_default(),
        to_server: trace.trips.server.floor(),
        is_told: trace.trips.server.is_told(),
        is_measured: trace.trips.server.is_measured(),
        ttl: first.map_or(0, |first| first.ttl),
        skipped: request.map_or(0, |packet| packet.skipped),
        is_announced: request
            .and_then(|packet| packet.data)
            .is_some_and(|data| data.arrival == Arrival::Fill && data.order == Order::Newer),
        is_numbered: trace.pipes.client.is_numbered,
    }
}

/// Returns the delay of a delayed ACK of the response's last bytes, which held nothing back; `None`
/// if there was no delayed ACK.
fn harmless_delay(trace: &Trace<'_>) -> Option<Duration> {
    let propagation = trace.trips.client.floor()?;
    let end = trace.response.end;
    let at = trace.packets.iter().rposition(|packet| {
        packet.by == Side::Server && packet.data.is_some_and(|data| data.span.end >= end)
    })?;
    let (last, after) = trace.packets.get(at..)?.split_first()?;
    let ack = after
        .iter()
        .find(|packet| packet.by == Side::Client && packet.at > last.at && packet.ack >= end)?;
    let delay = ack.at.since(last.at).saturating_sub(propagation);
    (ack.data.is_none() && delay >= LEAST_DELAYED_ACK).then_some(delay)
}
