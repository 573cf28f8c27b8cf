//! Messages of both directions, which are combined into exchanges.

use super::{Draft, Intake, Mode, Pairing, Scratch};
use crate::attribution::packet::{Arrival, Span};
use crate::attribution::packet_record::{Data, PacketKey};
use crate::connection::View;
use crate::connection::stream::Stream;
use crate::exchange::{Foreign, Side};
use crate::observed::packet::{PacketNumber, PacketTime};
use crate::observed::time::Timestamp;
use crate::protocol::http::{self, Head, Role};
use crate::protocol::{Parser, Protocol, Step, http2, tls};

/// Steps with the offsets at which they occurred.
pub(super) type Steps = Vec<(u64, Step)>;

/// Maximum number of times that frames may be lost because the capture cut payloads, without an
/// exchange read in between: the first request and its response have many fields and are often cut,
/// in both directions.
const MAX_FRAMES_LOST: u8 = 4;

impl Pairing {
    /// Takes in data of a protocol whose parsers find the ends of messages: HTTP/1.x and similar
    /// ones.
    pub(super) fn message_data(
        &mut self,
        packet: &PacketKey,
        data: Data,
        payload: &[u8],
        view: &View<'_>,
        scratch: &mut Scratch,
    ) {
        let has_lost_thread =
            self.streams.requests.messages.is_lost() || self.streams.responses.messages.is_lost();
        if has_lost_thread
            && packet.by == Side::Client
            && self.streams.requests.messages.may_resume(payload)
        {
            self.resynchronise(data.span.start, packet.ack);
        }
        let is_read = self.direction(packet.by).pass(data.span)
            || self.whole_message(packet, data.span, payload)
            || self.read_on(packet, data, payload, view, scratch);
        if is_read
            && packet.by == Side::Server
            && let Some(draft) = self.open.iter_mut().find(|draft| draft.is_awaited())
        {
            draft.last.number = PacketNumber::new(packet.number);
        }
    }

    /// Takes in a segment that is exactly one message, without the list of steps that other segments
    /// need. Returns false if it may be anything else.
    fn whole_message(&mut self, packet: &PacketKey, span: Span, payload: &[u8]) -> bool {
        let by = packet.by;
        // The response to `HEAD` has no body, whatever its head says.
        if by == Side::Server && self.awaited().is_some_and(|draft| draft.is_head_request()) {
            return false;
        }
        let Some((head, length)) = self.direction(by).whole(span, payload) else {
            return false;
        };
        let body = span.start + length;
        match by {
            Side::Client => {
                self.request_begins(span.start, packet.at);
                if let Some(draft) = self.asking() {
                    draft.take_request_head(body, head);
                    draft.request.end = span.end;
                }
            }
            Side::Server => self.whole_response(packet, span, &head),
        }
        true
    }

    /// Takes in a segment that is exactly one response, whose protocol its head does not change.
    fn whole_response(&mut self, packet: &PacketKey, span: Span, head: &Head) {
        let awaited = self.open.iter_mut().find(|draft| draft.is_awaited());
        self.turn.is_orphaned = awaited.is_none();
        if let Some(draft) = awaited {
            draft.begin_response(span.start, packet.at);
            draft.take_response_head(head);
            draft.end_response(span.end, packet.time(), false);
        }
    }

    /// Takes in data in frames or records that state their length.
    pub(super) fn framed_data(
        &mut self,
        packet: &PacketKey,
        data: Data,
        payload: &[u8],
        view: &View<'_>,
        scratch: &mut Scratch,
    ) {
        let is_next = matches!(data.arrival, Arrival::InOrder | Arrival::PastHole);
        let begins_one = match self.protocol.mode {
            Mode::Tls(_) => tls::begins_record,
            _ => http2::begins_frame,
        };
        let stream = self.direction(packet.by);
        if stream.messages.is_lost() && is_next && begins_one(payload) {
            stream.restart(data.span.start);
        }
        self.read_on(packet, data, payload, view, scratch);
    }

    /// Takes the parsing steps of a segment. Returns true if messages can still be delimited: the
    /// part of its payload that was not captured may have contained their heads.
    fn read_on(
        &mut self,
        packet: &PacketKey,
        data: Data,
        payload: &[u8],
        view: &View<'_>,
        scratch: &mut Scratch,
    ) -> bool {
        let by = packet.by;
        if data.arrival == Arrival::PastHole && view.has_start(by) {
            self.direction(by).has_start();
        }
        let steps = &mut scratch.steps;
        steps.clear();
        self.read(by, steps, |stream, on| {
            stream.add_payload(data.span, payload, on)
        });
        let is_lost = has_lost(steps);
        let is_cut = (payload.len() as u64) < data.span.end - data.span.start;
        if is_lost && is_cut && !self.goes_on_with_frames() {
            self.fall_back_to_turns(!payload.is_empty());
            self.spoken_turn(packet, data, payload, view);
            return false;
        }
        let is_answer = by == Side::Server && self.protocol.mode == Mode::Http;
        // Data after the bytes that the client has acknowledged may follow a response head that the
        // capture missed.
        let is_begin = data.arrival == Arrival::InOrder && data.span.start <= data.acked;
        if is_lost && is_answer && is_begin {
            self.look_for_foreign(payload);
        }
        for (offset, step) in steps.drain(..) {
            match self.protocol.mode {
                Mode::Http2 => self.http2_step(offset, step, packet, view),
                Mode::Tls(_) => self.tls_step(offset, step, packet, view),
                _ => self.step(by, offset, step, packet.time(), false),
            }
        }
        true
    }

    /// Returns true if the capture cut off frame boundaries, but the next frame that begins with a
    /// segment is likely to be found: it was found before, or was not tried yet.
    fn goes_on_with_frames(&mut self) -> bool {
        self.protocol.frames_lost = self.protocol.frames_lost.saturating_add(1);
        self.protocol.mode == Mode::Http2 && self.protocol.frames_lost <= MAX_FRAMES_LOST
    }

    /// Falls back to pairing by turns from here on; if any HTTP was parsed before, the first bytes
    /// of heads are still read.
    fn fall_back_to_turns(&mut self, was_read: bool) {
        let is_http = matches!(self.streams.requests.messages, Parser::Http(_));
        if is_http && self.protocol.mode == Mode::Http {
            self.protocol.identified = was_read.then_some(Protocol::Http);
            self.protocol.is_unseen = !was_read;
        }
        self.protocol.mode = Mode::Turns;
        (self.multiplex, self.tls.conversation) = (None, None);
    }

    /// Skips the bytes of `span`, which the capture missed.
    pub(super) fn skip(&mut self, by: Side, span: Span) -> Steps {
        let mut steps = Steps::new();
        self.read(by, &mut steps, |stream, on| stream.skip(span, on));
        steps
    }

    /// Looks for another protocol in a response that does not begin like one. A request line
    /// without HTTP's version proves nothing: HTTP/0.9 answers it without a head, and other
    /// protocols have commands of the same names.
    fn look_for_foreign(&mut self, payload: &[u8]) {
        let is_http = matches!(self.streams.responses.messages, Parser::Http(_));
        let is_response = !is_http || http::begins_message(Role::Response, payload);
        if is_response || self.turn.is_orphaned {
            return;
        }
        let is_tls = matches!(payload, [20..=23, 3, 0..=4, ..]);
        let foreign = if is_tls {
            Foreign::Tls
        } else {
            Foreign::Unknown
        };
        let is_due =
            |draft: &&mut Draft| draft.is_awaited() && draft.response_head.status.is_none();
        let due = self.open.iter_mut().find(is_due);
        if let Some(draft) = due.filter(|draft| draft.is_http_request()) {
            draft.signs.foreign = Some(foreign);
        }
    }

    /// Starts over where a request begins and nothing before it can be delimited.
    fn resynchronise(&mut self, request: u64, response: u64) {
        self.cut_awaited();
        self.turn.is_orphaned = false;
        self.streams.requests.restart(request);
        self.streams.responses.restart(response);
    }

    fn direction(&mut self, by: Side) -> &mut Stream {
        match by {
            Side::Client => &mut self.streams.requests,
            Side::Server => &mut self.streams.responses,
        }
    }

    /// Runs a stream and collects its steps, telling it which responses have no body.
    fn read(
        &mut self,
        by: Side,
        steps: &mut Steps,
        run: impl FnOnce(&mut Stream, &mut dyn FnMut(&mut Parser, u64, Step)),
    ) {
        if by == Side::Client {
            let on = &mut |_: &mut Parser, offset, step| steps.push((offset, step));
            return run(&mut self.streams.requests, on);
        }
        let mut awaited = self
            .open
            .iter()
            .filter(|draft| draft.is_awaited())
            .map(|draft| draft.is_head_request());
        let mut has_no_body = awaited.next().unwrap_or(false);
        let mut changes_protocol = false;
        let on = &mut |messages: &mut Parser, offset: u64, step: Step| {
            match &step {
                Step::Head(head) if head.status == Some(101) => {
                    changes_protocol = head.upgrades_to_http2;
                }
                // Frames follow a 101 response (RFC 7540 §3.2).
                Step::Ended if changes_protocol => {
                    changes_protocol = false;
                    *messages = Protocol::Http2.parser(Role::Response);
                }
                Step::Head(_) if has_no_body => messages.no_body(),
                Step::Ended => has_no_body = awaited.next().unwrap_or(false),
                _ => {}
            }
            steps.push((offset, step));
        };
        run(&mut self.streams.responses, on);
    }

    pub(super) fn step(
        &mut self,
        by: Side,
        offset: u64,
        step: Step,
        packet: PacketTime,
        torn: bool,
    ) {
        match by {
            Side::Client => self.request_step(offset, step, packet.at),
            Side::Server => self.response_step(offset, step, packet, torn),
        }
    }

    fn request_step(&mut self, offset: u64, step: Step, at: Timestamp) {
        match step {
            Step::Began => self.request_begins(offset, at),
            Step::Head(head) => {
                if let Some(draft) = self.asking() {
                    draft.take_request_head(offset, head);
                }
            }
            Step::Ended => {
                if let Some(draft) = self.asking() {
                    draft.request.end = offset;
                }
            }
            Step::Lost => self.cut_awaited(),
            Step::NeedMore | Step::Http2(_) | Step::Tls(_) => {}
        }
    }

    fn request_begins(&mut self, offset: u64, at: Timestamp) {
        if self.protocol.intake == Intake::Refused {
            return;
        }
        if self.is_full() {
            self.protocol.intake = Intake::Passing;
            return;
        }
        self.protocol.intake = Intake::Open;
        let first = self.first_sent(offset);
        self.begin(offset, first.unwrap_or(PacketTime { at, number: None }));
    }

    /// Returns the exchange whose request is being read.
    fn asking(&mut self) -> Option<&mut Draft> {
        let is_passing = self.protocol.intake == Intake::Passing;
        self.open.back_mut().filter(|_| !is_passing)
    }

    fn response_step(&mut self, offset: u64, step: Step, packet: PacketTime, torn: bool) {
        match step {
            Step::Began => self.response_begins(offset, packet.at),
            Step::Head(head) => self.response_head(head),
            Step::Ended => self.response_ends(offset, packet, torn),
            Step::Lost => {
                if let Some(draft) = self.answering() {
                    draft.cut();
                }
            }
            Step::NeedMore | Step::Http2(_) | Step::Tls(_) => {}
        }
    }

    fn response_begins(&mut self, offset: u64, at: Timestamp) {
        self.turn.is_orphaned = self.awaited().is_none();
        if let Some(draft) = self.answering() {
            draft.begin_response(offset, at);
        }
    }

    fn response_head(&mut self, head: Head) {
        let Some(draft) = self.answering() else {
            return;
        };
        if head.status == Some(101) && head.upgrades_to_http2 {
            self.upgrade_to_http2();
            return;
        }
        draft.take_response_head(&head);
    }

    fn response_ends(&mut self, offset: u64, packet: PacketTime, torn: bool) {
        if let Some(draft) = self.answering() {
            draft.end_response(offset, packet, torn);
        }
    }

    /// Returns the first exchange that still waits for its response.
    fn awaited(&self) -> Option<&Draft> {
        self.open.iter().find(|draft| draft.is_awaited())
    }

    /// Returns the exchange whose response is being read; `None` if its request was not seen.
    fn answering(&mut self) -> Option<&mut Draft> {
        if self.turn.is_orphaned {
            return None;
        }
        self.open.iter_mut().find(|draft| draft.is_awaited())
    }
}

/// Returns true if the parser lost its place among these steps.
fn has_lost(steps: &Steps) -> bool {
    steps.iter().any(|(_, step)| matches!(step, Step::Lost))
}
