//! Bytes that belong to no exchange: unsolicited data of a server, and unanswered bulk data in
//! either direction.
//!
//! Such bytes form transfers: stretches of one side's bytes without a pause, each tiled like a
//! message of an exchange. The bytes of a request that may still be answered are held until that is
//! known.

use core::mem::take;

use super::around::Around;
use super::draft::Beginning;
use super::turns::is_apart;
use super::{Draft, Mode, Pairing, Scratch};
use crate::attribution::packet::Need;
use crate::attribution::packet::{Arrival, Span};
use crate::attribution::packet_record::{Data, PacketKey};
use crate::attribution::{Before, Spare, Trace};
use crate::connection::{Closed, View, is_progress};
use crate::exchange::{Exchange, Outcome, PerSide, Side};
use crate::observed::time::Timestamp;

/// Maximum number of segments of one transfer; what follows is another transfer, so that old packets
/// need not be kept. A window of a megabyte fits.
const MOST_SEGMENTS: u32 = 1024;
/// Maximum number of transfers kept for a request that may still be answered; the longest ones are
/// kept.
const MAX_WAITING: usize = 64;

/// The bytes of a connection that belong to no exchange.
#[derive(Debug, Default)]
pub(super) struct Loose {
    /// The open transfer of each side.
    ways: PerSide<Way>,
    /// Transfers to be handed out.
    done: Vec<Exchange>,
    /// Transfers of a request that has not been answered yet.
    waiting: Vec<Exchange>,
    /// True once no more bytes will come.
    is_over: bool,
}

/// Bytes of one side.
#[derive(Debug, Default)]
struct Way {
    /// True if a segment was seen that a later one may continue.
    has_begun: bool,
    /// The transfer, from its second segment on: most messages have only one segment.
    draft: Option<Box<Draft>>,
    segments: u32,
}

impl Loose {
    /// Returns the memory that the transfers hold, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        let closed = self.done.capacity() + self.waiting.capacity();
        size_of::<Self>() + closed * size_of::<Exchange>() + 2 * size_of::<Draft>()
    }

    /// Records that no more bytes will come.
    pub(super) fn end(&mut self) {
        self.is_over = true;
    }

    /// Returns true if there is something to hand out.
    pub(super) fn is_due(&self) -> bool {
        !self.done.is_empty() || (self.is_over && (self.is_open() || !self.waiting.is_empty()))
    }

    fn is_open(&self) -> bool {
        self.ways.each().into_iter().any(|way| way.draft.is_some())
    }

    /// Returns the earliest time from which packets are needed.
    pub(super) fn begin(&self) -> Option<Timestamp> {
        let drafts = self
            .ways
            .each()
            .into_iter()
            .filter_map(|way| way.draft.as_ref());
        drafts.map(|draft| draft.first.at).min()
    }

    /// Settles the transfers that waited for the outcome of a request: if it was answered, their
    /// bytes belong to the exchange; if the capture cut it off, they remain transfers.
    pub(super) fn settle(&mut self, exchange: &Exchange) -> Vec<Exchange> {
        let waiting = take(&mut self.waiting);
        if exchange.outcome == Outcome::Cut {
            return waiting;
        }
        self.answered(Side::Client);
        Vec::new()
    }

    /// Records that the other side answers: what `asked` sent was a request.
    fn answered(&mut self, asked: Side) {
        *self.ways.get_mut(asked) = Way::default();
    }

    /// Keeps a transfer until it is known whether it was answered; of too many, the longest ones.
    fn wait(&mut self, transfer: Exchange) {
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push(transfer);
            return;
        }
        let shortest = self.waiting.iter_mut().min_by_key(|kept| kept.latency());
        if let Some(shortest) = shortest.filter(|kept| kept.latency() < transfer.latency()) {
            *shortest = transfer;
        }
    }
}

impl Way {
    /// Takes in a segment that continues the preceding one.
    fn go_on(&mut self, packet: &PacketKey, span: Span) {
        let draft = self.draft.get_or_insert_with(|| {
            let beginning = Beginning {
                was_behind: false,
                is_shut_out: packet.is_shut_out,
                is_reply: false,
            };
            Box::new(Draft::new(0, span.start, packet.time(), beginning))
        });
        let own = match packet.by {
            Side::Client => &mut draft.request,
            Side::Server => &mut draft.response,
        };
        *own = match self.segments {
            0 => span,
            _ => Span {
                start: own.start.min(span.start),
                end: own.end.max(span.end),
            },
        };
        draft.last = packet.time();
        self.segments += 1;
    }
}

impl Pairing {
    /// Returns true if there is an open transfer of bytes that belong to no exchange.
    pub(super) fn has_loose(&self) -> bool {
        self.loose.as_ref().is_some_and(|loose| loose.is_open())
    }

    /// Takes in data that belongs to no exchange, or to a request without an answer.
    pub(super) fn take_loose(
        &mut self,
        packet: &PacketKey,
        data: Data,
        view: &View<'_>,
        scratch: &mut Scratch,
    ) {
        if !is_progress(data.arrival) {
            return;
        }
        if !self.may_be_loose(packet.by, data.span) {
            if packet.by == Side::Server
                && let Some(loose) = &mut self.loose
            {
                loose.answered(Side::Client);
                self.close_way(Side::Server, view, &mut scratch.spare);
            }
            return;
        }
        // A sender stopped by a closed window did not pause.
        let is_apart = is_apart(packet, data, view) && !packet.is_shut_out;
        let loose = self.loose.get_or_insert_default();
        let way = loose.ways.get_mut(packet.by);
        let goes_on = way.has_begun && !is_apart;
        way.has_begun = true;
        if !goes_on || way.segments >= MOST_SEGMENTS {
            self.close_way(packet.by, view, &mut scratch.spare);
        }
        if goes_on && let Some(loose) = &mut self.loose {
            loose.ways.get_mut(packet.by).go_on(packet, data.span);
        }
    }

    /// Returns true if these bytes belong to no exchange, as far as is known.
    fn may_be_loose(&self, by: Side, span: Span) -> bool {
        let holds =
            |draft: &Draft| draft.response.start <= span.start && draft.response.end >= span.end;
        match (self.protocol.mode, by) {
            (Mode::Undecided, _) => true,
            (Mode::Turns, Side::Client) => self.open.back().is_none_or(|last| !last.has_response()),
            (Mode::Turns, Side::Server) => !self.open.iter().any(holds),
            (Mode::Http, Side::Server) => self.turn.is_orphaned,
            // The bytes are the rest of a request that was answered early.
            (Mode::Http, Side::Client) => !self.open.iter().any(Draft::is_awaited),
            (Mode::Http2 | Mode::Tls(_), _) => false,
        }
    }

    /// Closes the transfer of one side, if it has one.
    fn close_way(&mut self, by: Side, view: &View<'_>, spare: &mut Spare) {
        let Some(loose) = &mut self.loose else { return };
        let way = loose.ways.get_mut(by);
        way.segments = 0;
        let Some(draft) = way.draft.take() else {
            return;
        };
        let around = Around {
            view,
            packets: self.packets.as_slice(),
            torn: &self.torn,
            behind: None,
            before: Before::default(),
            request_acked: self.acked.requests,
            is_unread: true,
            left_by_server: None,
            next_request: 0,
            effort: &self.next.effort,
        };
        let transfer = draft.close_loose(&around, by, spare);
        let may_be_answered = self.open.back().is_some_and(Draft::is_awaited);
        match by {
            Side::Client if may_be_answered => loose.wait(transfer),
            _ => loose.done.push(transfer),
        }
    }

    /// Hands out the completed transfers.
    #[inline]
    pub(super) fn collect_loose(&mut self, view: &View<'_>, closed: &mut Closed) {
        if !self.loose.as_ref().is_some_and(|loose| loose.is_due()) {
            return;
        }
        if self.loose.as_ref().is_some_and(|loose| loose.is_over) {
            for by in [Side::Client, Side::Server] {
                self.close_way(by, view, &mut closed.scratch.spare);
            }
        }
        if let Some(loose) = &mut self.loose {
            closed.transfers.append(&mut loose.done);
            if loose.is_over {
                closed.transfers.append(&mut loose.waiting);
            }
        }
    }
}

impl Draft {
    /// Returns the transfers that remain of an exchange that was cut: each of its messages
    /// separately. The request is left out if it `is_followed` as a transfer elsewhere.
    pub(super) fn remains(
        &self,
        around: &Around<'_>,
        is_followed: bool,
        spare: &mut Spare,
    ) -> Vec<Exchange> {
        let sides = [(Side::Client, self.request), (Side::Server, self.response)];
        let has_bytes = |&(side, span): &(Side, Span)| {
            span.end > span.start && !(is_followed && side == Side::Client)
        };
        let list = sides.into_iter().filter(has_bytes);
        list.map(|(side, _)| self.close_loose(around, side, spare))
            .filter(|transfer| transfer.end > transfer.begin)
            .collect()
    }
}

/// Returns the times of one side's first kept segment and of its last segment that was not sent
/// needlessly.
pub(super) fn bounds(trace: &Trace<'_>, sender: Side) -> (Timestamp, Timestamp) {
    let span = match sender {
        Side::Client => trace.request,
        Side::Server => trace.response,
    };
    let own = trace.packets.iter().filter_map(|packet| {
        let data = packet.data.filter(|_| packet.by == sender)?;
        let is_ours = data.span.start < span.end && data.span.end > span.start;
        let is_needed = match data.arrival {
            Arrival::Repeat => data.need == Need::Needed,
            arrival => is_progress(arrival),
        };
        (is_ours && is_needed).then_some(packet.at)
    });
    own.fold(None, |ends: Option<(Timestamp, Timestamp)>, at| {
        let (first, last) = ends.unwrap_or((at, at));
        Some((first.min(at), last.max(at)))
    })
    .unwrap_or((trace.begin, trace.begin))
}
