//! Pairs requests with responses on one connection.
//!
//! HTTP/1.x is parsed if possible. Anything else, including HTTP whose heads the capture cut off,
//! is paired by turns: a run of client bytes and the run of server bytes that follows it. A hole in
//! the capture cuts the exchanges that it touches and never shifts the pairing.

mod around;
mod closing;
mod draft;
mod fins;
mod flights;
mod http2;
mod late;
mod loose;
mod messages;
mod refusal;
mod tls;
mod turns;

use core::time::Duration;
use std::collections::VecDeque;

use draft::{Beginning, Draft};
use fins::Fins;
use loose::Loose;
use messages::Steps;

use super::View;
use super::stream::Stream;
use crate::attribution::effort::Effort;
use crate::attribution::packet::Need;
use crate::attribution::packet::{Arrival, Span};
use crate::attribution::packet_record::{
    Data, PacketKey, PacketRecord, PacketRecords, SpareRecords,
};
use crate::attribution::{Before, Spare};
use crate::exchange::tls_handshake::Handshake;
use crate::exchange::{Exchange, Outcome, Side};
use crate::observed::packet::PacketTime;
use crate::observed::time::Timestamp;
use crate::protocol::Protocol;
use crate::protocol::http::Role;

/// Maximum number of exchanges open at once on one connection (pipelining).
const MAX_OPEN: usize = 1024;
/// Maximum time from a client's last data to its FIN for the data to count as a farewell, to which
/// the client expects no answer.
const FAREWELL: Duration = Duration::from_millis(10);
/// Number of bytes sufficient to recognize a protocol; fewer may be all that a capture kept.
const LEAST_READ: usize = 8;
/// The memory of an open exchange besides itself: its request's line, an HTTP/2 stream's windows.
const BESIDE_DRAFT: usize = 256;
/// The most memory that an exchange takes when it begins, in a list that grows to twice its size.
pub(crate) const EXCHANGE_BYTES: usize = 2 * size_of::<Draft>() + BESIDE_DRAFT;
/// Maximum number of capture holes remembered.
const MAX_TORN: usize = 64;

/// Memory reused for the next segment and the next exchange.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    steps: Steps,
    spare: Spare,
    packets: SpareRecords,
}

impl Scratch {
    /// Takes back the memory of an exchange that is no longer needed.
    pub(crate) fn take_back(&mut self, exchange: &mut Exchange) {
        self.spare.take_back(exchange);
    }
}

/// The exchanges of one connection.
#[derive(Debug, Default)]
pub(crate) struct Pairing {
    protocol: ProtocolState,
    streams: Streams,
    packets: PacketRecords,
    open: VecDeque<Draft>,
    next: NextExchange,
    torn: Vec<(Side, Span)>,
    /// Number of retransmissions in closed exchanges that have since turned out to be unnecessary.
    taken_back: u16,
    /// The state of the connection after its last exchange.
    before: Before,
    acked: AckedBytes,
    /// The FINs, once at least one was seen.
    fins: Option<Box<Fins>>,
    /// True if a device on the path reset the connection in the server's name.
    is_reset_on_way: bool,
    turn: TurnState,
    /// The connection's flow control, if it uses HTTP/2.
    multiplex: Option<Box<http2::Multiplex>>,
    tls: TlsState,
    /// Bytes that belong to no exchange, if there were any.
    loose: Option<Box<Loose>>,
}

/// The ordinal of a connection's next exchange, and the work that tiling it may cost.
#[derive(Debug, Default)]
struct NextExchange {
    ordinal: u32,
    /// The number of packets that may still be looked at when exchanges close.
    effort: Effort,
}

/// The protocol of a connection, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
struct ProtocolState {
    mode: Mode,
    /// The protocol, if it is paired by turns.
    identified: Option<Protocol>,
    /// True if it is unknown which side owes an answer: the protocol was not recognized although
    /// its bytes were seen, or it streams.
    is_unread: bool,
    /// True if too little of the client's first bytes was captured.
    is_unseen: bool,
    /// Number of times that HTTP/2 frames were lost since an exchange was read.
    frames_lost: u8,
    /// True once the server has sent something.
    has_answered: bool,
    intake: Intake,
}

/// The treatment of new requests on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Intake {
    #[default]
    Open,
    /// Not the present one, because too many are open.
    Passing,
    /// None: the server refused the connection by an error.
    Refused,
}

/// The byte streams of both sides.
#[derive(Debug)]
struct Streams {
    requests: Stream,
    responses: Stream,
}

/// The end of the bytes that each side's peer acknowledged.
#[derive(Clone, Copy, Debug, Default)]
struct AckedBytes {
    requests: u64,
    responses: u64,
}

/// State of the current turn.
#[derive(Clone, Copy, Debug, Default)]
struct TurnState {
    /// True during a response whose request was not seen.
    is_orphaned: bool,
    /// True if the server sent data since the client's last bytes without having received the
    /// request.
    has_crossed: bool,
    /// True if the server once continued after a long pause: it also sends what nobody asked for.
    has_pushed: bool,
    /// True if the server's last data answers no request, as far as is known.
    is_unasked: bool,
    /// Number of segments in this turn that continued after a pause, under TLS and for bytes that
    /// are not parsed.
    apart: u8,
}

/// State of a connection's TLS.
#[derive(Debug, Default)]
struct TlsState {
    /// The records so far, if the connection uses TLS.
    conversation: Option<Box<tls::Conversation>>,
    /// A TLS handshake that no exchange has been charged with yet.
    handshake: Option<Box<Handshake>>,
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            requests: Stream::new(Role::Request),
            responses: Stream::new(Role::Response),
        }
    }
}

/// The way in which messages are delimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Undecided,
    /// By the parsers of requests and of responses, which find the ends of messages.
    Http,
    Http2,
    /// By TLS records; true once the client has sent a control frame of HTTP/2 in them.
    Tls(bool),
    Turns,
}

/// Minimum time for which a client must have waited for lost bytes: the minimum of a retransmission
/// timer (`TCP_RTO_MIN`).
const OVERDUE: Duration = Duration::from_millis(200);

/// The end of a connection: the side that ended it, the time, and whether it was a reset.
pub(crate) type Ending = (Option<Side>, Timestamp, bool);

impl Pairing {
    /// Returns the number of open exchanges.
    #[inline(always)]
    pub(crate) fn open_exchanges(&self) -> usize {
        self.open.len()
    }

    /// Returns the memory that the exchanges hold, in bytes. What is small at any time is left out.
    pub(crate) fn held_bytes(&self) -> usize {
        let beside: usize = self.open.iter().map(Draft::held_bytes).sum();
        let drafts = self.open.capacity() * size_of::<Draft>() + beside;
        let streams = self.streams.requests.held_bytes() + self.streams.responses.held_bytes();
        let multiplex = self
            .multiplex
            .as_deref()
            .map_or(0, http2::Multiplex::held_bytes);
        let loose = self.loose.as_deref().map_or(0, Loose::held_bytes);
        self.packets.held_bytes() + drafts + streams + multiplex + loose
    }

    /// Returns true if segments without payload also belong to an open exchange.
    #[inline]
    pub(crate) fn keeps_packets(&self) -> bool {
        self.needs_packets_from().is_some()
    }

    /// Stores a packet for tiling.
    #[inline(always)]
    pub(crate) fn add_packet(&mut self, packet: PacketRecord, scratch: &mut Scratch) {
        self.next.effort.earn();
        self.packets.push(packet, &mut scratch.packets);
    }

    /// Records whether packet `number` had to be sent.
    pub(crate) fn resolve(&mut self, number: u64, need: Need) {
        let is_late = !self.packets.resolve(number, need);
        let is_taken_back = is_late && need == Need::Spurious;
        self.taken_back = self.taken_back.saturating_add(u16::from(is_taken_back));
    }

    /// Takes in a data segment.
    pub(crate) fn data(
        &mut self,
        packet: &PacketKey,
        data: Data,
        payload: &[u8],
        view: &View<'_>,
        scratch: &mut Scratch,
    ) {
        self.take_refusal(packet, data, payload, view);
        self.pair(packet, data, payload, view, scratch);
        self.take_loose(packet, data, view, scratch);
        if self.fins.is_some() && packet.by == Side::Server {
            self.data_behind_fin(packet.at, data.arrival);
        }
    }

    /// Finds the exchange to which the segment belongs.
    fn pair(
        &mut self,
        packet: &PacketKey,
        data: Data,
        payload: &[u8],
        view: &View<'_>,
        scratch: &mut Scratch,
    ) {
        if matches!(
            data.arrival,
            Arrival::KeepAlive | Arrival::Repeat | Arrival::Copy
        ) {
            if packet.by == Side::Client && data.arrival == Arrival::Repeat {
                self.repeated(data.span);
            }
            return;
        }
        if self.protocol.mode == Mode::Undecided && !self.decide(packet.by, data.span, payload) {
            // A greeting asks for the client's first request.
            let has_start = view.pipes().server.has_start;
            self.turn.is_unasked = packet.by == Side::Server && !has_start;
            return;
        }
        match self.protocol.mode {
            Mode::Http => self.message_data(packet, data, payload, view, scratch),
            Mode::Http2 => self.framed_data(packet, data, payload, view, scratch),
            Mode::Tls(_) => {
                self.veiled_turn(packet, data, view);
                self.framed_data(packet, data, payload, view, scratch);
            }
            Mode::Undecided | Mode::Turns => self.spoken_turn(packet, data, payload, view),
        }
    }

    /// Determines the connection's protocol from its first bytes; returns true if they come from
    /// the client, which sends the requests.
    #[cold]
    fn decide(&mut self, by: Side, span: Span, payload: &[u8]) -> bool {
        if by == Side::Server {
            if let Some(protocol) = Protocol::of_server(payload) {
                (self.protocol.mode, self.protocol.identified) = (Mode::Turns, Some(protocol));
            }
            return false;
        }
        // Only whole payloads show that a connection that was joined midway uses HTTP/2.
        let is_whole = payload.len() as u64 == span.end - span.start;
        let joined = (is_whole && http2::is_joined(payload)).then_some(Protocol::Http2);
        match Protocol::of_client(payload).or(joined) {
            Some(Protocol::Http) => self.protocol.mode = Mode::Http,
            Some(Protocol::Http2) => self.begin_http2(joined.is_some()),
            Some(Protocol::Tls) => self.begin_tls(payload),
            Some(protocol @ (Protocol::Redis | Protocol::Postgres)) => {
                self.protocol.mode = Mode::Http;
                self.streams.requests.speak(protocol, Role::Request);
                self.streams.responses.speak(protocol, Role::Response);
            }
            spoken => {
                (self.protocol.mode, self.protocol.identified) = (Mode::Turns, spoken);
                let is_seen = is_whole || payload.len() >= LEAST_READ;
                self.protocol.is_unread = spoken.is_none() && is_seen;
                self.protocol.is_unseen = spoken.is_none() && !is_seen;
            }
        }
        true
    }

    /// Records that the client retransmitted these bytes.
    fn repeated(&mut self, span: Span) {
        let awaited = self.open.iter_mut().find(|draft| draft.is_awaited());
        if let Some(draft) = awaited.filter(|draft| span.end > draft.request.start) {
            draft.signs.request_repeats = draft.signs.request_repeats.saturating_add(1);
        }
    }

    /// Records that the capture missed the bytes of `span`.
    pub(crate) fn torn(&mut self, by: Side, span: Span, at: Timestamp) {
        if self.torn.len() == MAX_TORN {
            self.torn.remove(0);
        }
        self.torn.push((by, span));
        match self.protocol.mode {
            Mode::Http => {}
            Mode::Undecided => return,
            Mode::Turns => return self.turn_torn(by, span),
            Mode::Http2 => return self.http2_torn(by, span),
            Mode::Tls(_) => return self.tls_torn(by, span),
        }
        for (offset, step) in self.skip(by, span) {
            self.step(by, offset, step, PacketTime { at, number: None }, true);
        }
    }

    /// Records that the peer of `sender` acknowledged its bytes up to `offset`.
    pub(crate) fn acknowledged(&mut self, sender: Side, offset: u64) {
        if self.fins.is_some() && sender == Side::Server {
            self.heard_behind_fin();
        }
        let acked = match sender {
            Side::Server => &mut self.acked.responses,
            Side::Client => &mut self.acked.requests,
        };
        *acked = offset.max(*acked);
    }

    /// Closes the open exchanges when the capture ends. The beginning of a response in progress is
    /// known.
    ///
    /// A response paired by turns is complete when its turn ends. If the client has not even
    /// acknowledged it, it is unknown whether the server has more to send. A connection's only
    /// exchange counts as complete.
    pub(crate) fn capture_ended(&mut self) {
        if self.fins.is_some() {
            return;
        }
        match self.protocol.mode {
            Mode::Http => self.break_off(),
            Mode::Turns | Mode::Tls(_) => {
                let acked = self.acked.responses;
                let last = self.open.back_mut().filter(|draft| draft.is_awaited());
                let is_in_doubt = |draft: &Draft| draft.ordinal > 0 && draft.response.end > acked;
                if let Some(draft) = last.filter(|draft| is_in_doubt(draft)) {
                    draft.cut();
                }
            }
            Mode::Undecided | Mode::Http2 => {}
        }
    }

    /// Ends the response in progress with the last segment.
    fn break_off(&mut self) {
        let position = self.streams.responses.position();
        let last = self
            .packets
            .as_slice()
            .last()
            .map(|packet| PacketTime::of(packet.at, packet.number));
        let draft = self.open.iter_mut().find(|draft| draft.is_awaited());
        if let Some((draft, last)) = draft.zip(last)
            && draft.signs.has_response
        {
            draft.complete(position, last);
            draft.cut();
            draft.torn.is_broken_off = true;
        }
    }

    /// Finishes the connection's exchanges, because no more will come; `None`: the capture ended,
    /// unless something ended the connection before. `is_lost`: bytes that the server had sent never
    /// came.
    pub(crate) fn finish(&mut self, ending: Option<Ending>, is_lost: bool) {
        let fins = self.fins.as_mut();
        let ending = fins.and_then(|fin| fin.ending.take()).or(ending);
        if matches!(self.protocol.mode, Mode::Turns | Mode::Tls(_)) {
            let closed = self.fins.as_ref().and_then(|fins| fins.first());
            self.settle_late_at_end(closed.or(ending.map(|(_, at, _)| at)));
            if !self.is_given_up(ending, is_lost) {
                self.finish_turn();
            }
        }
        self.fail_handshake();
        self.note_alert();
        if let Some(loose) = &mut self.loose {
            loose.end();
        }
        // A client that sends the first FIN has given up, whatever the server does afterwards. Such
        // a client may also reset the connection.
        let left = self.fins.as_ref().and_then(|fin| fin.given_up());
        let is_late = self.ignore_late_response(left, ending);
        let left = left.map(|at| (Some(Side::Client), at, false));
        let ending = match ending {
            Some((Some(Side::Client), _, true)) if !is_late => ending,
            _ => left.or(ending),
        };
        self.drop_last_word(ending);
        let is_reset = ending.is_some_and(|(_, _, is_reset)| is_reset);
        self.end_at_last_byte();
        for draft in self.open.iter_mut().filter(|draft| draft.is_awaited()) {
            draft.signs.fault.is_reset_on_way = self.is_reset_on_way;
            // It is unknown whether the client expected an answer.
            draft.give_up(ending.filter(|_| is_reset || !self.protocol.is_unread));
        }
        let acked = core::mem::replace(&mut self.acked.responses, u64::MAX);
        if let Some((_, at, _)) = left {
            let open = self.open.iter_mut();
            for draft in open.filter(|draft| draft.response.end > acked) {
                draft.fin.left_unheard = Some(at);
            }
        }
        self.streams_ended(self.open.len());
    }

    /// Returns true if the client ended the connection without the whole response, of which bytes were
    /// lost: they came neither here nor to the client, long after they were due.
    fn is_given_up(&self, ending: Option<Ending>, is_lost: bool) -> bool {
        let reset = match ending {
            Some((Some(Side::Client), at, true)) => Some(at),
            _ => None,
        };
        let left = self.fins.as_ref().and_then(|fins| fins.given_up());
        let draft = self.open.back().filter(|draft| draft.is_awaited());
        let Some((left, draft)) = left.or(reset).zip(draft) else {
            return false;
        };
        let is_unheard = draft.has_response() && draft.response.end > self.acked.responses;
        (is_lost || is_unheard) && left.since(draft.last.at) >= OVERDUE
    }

    /// Ignores the response that began after the client had given up at `left`, because nobody
    /// reads it, and returns true if there is one. A client that only stopped sending would not
    /// reset the connection when the response comes.
    fn ignore_late_response(&mut self, left: Option<Timestamp>, ending: Option<Ending>) -> bool {
        let is_reset = matches!(ending, Some((Some(Side::Client), _, true)));
        let is_late = |draft: &&mut Draft| {
            left.is_some() && draft.response_head.began >= left && (is_reset || draft.is_awaited())
        };
        let Some(draft) = self.open.iter_mut().find(is_late) else {
            return false;
        };
        draft.signs.has_response = false;
        draft.outcome = None;
        true
    }

    /// Ends the response in progress, which its connection does not let end, with the last byte that
    /// was seen: what passed before that byte is known.
    fn end_at_last_byte(&mut self) {
        let position = self.streams.responses.position();
        let draft = self.open.iter_mut().find(|draft| draft.is_awaited());
        // In other protocols, whose messages have no status, a server may have asked something back.
        let is_http = self.protocol.mode == Mode::Http;
        let has_status = |draft: &&mut Draft| draft.response_head.status.is_some();
        if let Some(draft) = draft.filter(has_status).filter(|_| is_http) {
            draft.response.end = position.max(draft.response.start);
        }
    }

    /// Records that a device on the path resets the connection.
    pub(crate) fn was_reset_on_way(&mut self) {
        self.is_reset_on_way = true;
    }

    /// Drops what a client sends right before it ends the connection, if no parser reads it as a
    /// request: such data expects no answer.
    fn drop_last_word(&mut self, ending: Option<Ending>) {
        let Some((Some(Side::Client), at, _)) = ending else {
            return;
        };
        let packets = self.packets.as_slice().iter().rev();
        let mut said = packets.filter(|packet| packet.by == Side::Client && packet.data.is_some());
        let is_right_before = said
            .next()
            .is_some_and(|packet| at.since(packet.at) < FAREWELL);
        let is_farewell = |draft: &Draft| {
            draft.is_awaited() && !draft.has_response() && draft.signs.tls.alert.is_none()
        };
        let is_read = self.protocol.identified == Some(Protocol::Http);
        if matches!(self.protocol.mode, Mode::Tls(_) | Mode::Turns)
            && !is_read
            && is_right_before
            && self.open.back().is_some_and(is_farewell)
        {
            self.open.pop_back();
        }
    }

    /// Returns true if no exchange is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty() && !self.has_loose()
    }

    /// Frees the memory.
    pub(crate) fn retire(&mut self) {
        self.packets.retire();
        self.streams.requests.retire();
        self.streams.responses.retire();
        self.torn = Vec::new();
        self.open = VecDeque::new();
        self.tls.conversation = None;
        self.loose = None;
        self.fins = None;
    }

    fn cut_awaited(&mut self) {
        let mut count = 0;
        for draft in self.open.iter_mut().filter(|draft| draft.is_awaited()) {
            draft.cut();
            count += 1;
        }
        self.streams_ended(count);
    }

    /// Returns the packet with the client's first segment with the byte at `offset`.
    fn first_sent(&self, offset: u64) -> Option<PacketTime> {
        let packets = self.packets.as_slice();
        let is_of_client = |packet: &&PacketRecord| packet.by == Side::Client;
        let covers = |data: Data| data.span.start <= offset && data.span.end > offset;
        // Most requests arrive with the newest segment, in bytes that no earlier one had.
        let is_new = |data: Data| covers(data) && offset >= data.acked + data.in_flight;
        let newest = packets.last().filter(is_of_client);
        newest
            .filter(|packet| packet.data.is_some_and(is_new))
            .or_else(|| {
                let mut sent = packets.iter().filter(is_of_client);
                sent.find(|packet| packet.data.is_some_and(covers))
            })
            .map(|packet| PacketTime::of(packet.at, packet.number))
    }

    /// Returns true if no more exchanges are begun.
    fn is_full(&self) -> bool {
        self.open.len() >= MAX_OPEN || self.protocol.intake == Intake::Refused
    }

    fn begin(&mut self, offset: u64, first: PacketTime) {
        if self.is_full() {
            return;
        }
        let was_behind = self.open.iter().any(Draft::is_awaited);
        self.recount_ended();
        if self.open.capacity() == 0 {
            // Most connections never have more than one at a time.
            self.open.reserve_exact(1);
        }
        let beginning = Beginning {
            was_behind,
            is_shut_out: false,
            is_reply: false,
        };
        let draft = Draft::new(self.next.ordinal, offset, first, beginning);
        self.open.push_back(draft);
        let has_fin = self.has_fin();
        if let Some(draft) = self.open.back_mut() {
            draft.signs.was_closing = has_fin;
        }
        self.next.ordinal = self.next.ordinal.saturating_add(1);
    }
}

impl Draft {
    /// Returns true if the exchange still waits for the end of its response.
    fn is_awaited(&self) -> bool {
        self.outcome.is_none()
    }

    fn is_cut(&self) -> bool {
        self.outcome == Some(Outcome::Cut)
    }
}
