//! TLS: the handshake, then application data, paired each time the direction of the
//! records changes.
//!
//! Records of the handshake, and records that are not messages of the application (alerts, tickets,
//! HTTP/2 control frames), form no exchange.

use super::flights::Flights;
use super::late::{MOST_CONTROL, Next, Unasked, note_late};
use super::turns::{LULL, PUSHED};
use super::{Draft, Mode, Pairing};
use crate::attribution::packet::Span;
use crate::attribution::packet_record::PacketKey;
use crate::connection::View;
use crate::exchange::Side;
use crate::exchange::tls_handshake::Alert;
use crate::observed::packet::PacketTime;
use crate::observed::time::Timestamp;
use crate::protocol::http::{RequestLine, Role};
use crate::protocol::tls::{self, Content, Event, HEADER, SERVER_HELLO};
use crate::protocol::{Protocol, Step};

/// Lengths of an encrypted Finished of TLS 1.3: 4 bytes of header, a hash of 32 or 48, the
/// content's type, a tag of 16 (RFC 8446 §4.4.4, §5.2).
const FINISHED_RECORDS: [u16; 2] = [53, 69];
/// Length of an encrypted alert of TLS 1.3: two bytes, the content's type, the tag.
const ALERT_RECORD: u16 = 19;
/// Alerts that only close the connection: close_notify, user_canceled (RFC 8446 §6.1).
const CLOSING_ALERTS: [u8; 2] = [0, 90];
/// Bytes that encryption adds to a record: TLS 1.3 (type and tag), and up to TLS 1.2 with AES-GCM
/// (explicit nonce and tag, RFC 5288 §3) or with ChaCha20 (tag, RFC 7905 §2).
const ADDED_1_3: [u16; 1] = [17];
const ADDED_1_2: [u16; 2] = [24, 16];
/// Lengths of session tickets, which come right after the handshake, usually two of equal length
/// (OpenSSL's `num_tickets`).
const TICKET_RECORDS: core::ops::RangeInclusive<u16> = 64..=1500;
const MOST_TICKETS: u8 = 8;
/// Lengths of the HTTP/2 frames that either side sends unprompted: SETTINGS ACK, PING, one or two
/// WINDOW_UPDATEs (RFC 9113 §6).
const HTTP2_CONTROL: [u16; 4] = [9, 13, 17, 26];
/// Maximum length of the frames with which a server introduces itself: SETTINGS of a few values,
/// their ACK, and a WINDOW_UPDATE (RFC 9113 §3.4).
const PREFACE: u16 = 64;

/// State of a connection's TLS.
#[derive(Debug)]
pub(super) struct Conversation {
    phase: Phase,
    is_1_3: bool,
    has_http2: bool,
    /// True if a hello names protocols to agree on.
    has_agreement: bool,
    /// True if the client sends data before the handshake's end.
    is_early: bool,
    /// Number of application records of the server since the handshake, counted up to a few.
    server_records: u8,
    /// True once the server has sent a record that answers: neither a ticket nor a preface.
    has_answered: bool,
    /// The packet that completed the handshake.
    completed_by: u64,
    /// The length of the record that may be a ticket.
    ticket: Option<u16>,
    /// The time at which the client's last record was sent.
    last_request: Timestamp,
    /// True if the client has sent records too long for control data.
    has_messages: bool,
    /// True if the open request consists of records that may be control data.
    is_control: bool,
    /// The client's last record that may be control data, if it came long after the open request.
    late_control: Option<(Span, PacketTime)>,
    unasked: Unasked,
    /// The first alert other than those that only close the connection.
    alert: Option<Alert>,
}

#[derive(Debug)]
enum Phase {
    Handshake(Box<Flights>),
    /// A handshake that was seen only in part, so that its end has to be guessed.
    Torn,
    Application,
}

/// A record and its position.
#[derive(Clone, Copy)]
struct Record {
    content: Content,
    length: u16,
    start: u64,
    end: u64,
}

impl Record {
    fn span(self) -> Span {
        Span {
            start: self.start,
            end: self.end,
        }
    }
}

impl Conversation {
    fn new(begins_with_hello: bool) -> Self {
        Self {
            phase: if begins_with_hello {
                Phase::Handshake(Box::default())
            } else {
                Phase::Torn
            },
            is_1_3: false,
            has_http2: false,
            has_agreement: false,
            is_early: false,
            server_records: 0,
            has_answered: false,
            completed_by: 0,
            ticket: None,
            last_request: Timestamp::default(),
            has_messages: false,
            is_control: false,
            late_control: None,
            unasked: Unasked::default(),
            alert: None,
        }
    }

    /// Returns the handshake in progress.
    pub(super) fn flights(&self) -> Option<&Flights> {
        match &self.phase {
            Phase::Handshake(flights) => Some(flights),
            _ => None,
        }
    }

    fn lose(&mut self) {
        if let Phase::Handshake(_) = self.phase {
            self.phase = Phase::Torn;
        }
    }

    /// Returns the lengths that a record's content may have; the cipher is not known.
    fn plain_lengths(&self, length: u16) -> impl Iterator<Item = u16> {
        let added: &[u16] = if self.is_1_3 { &ADDED_1_3 } else { &ADDED_1_2 };
        added.iter().map(move |added| length.saturating_sub(*added))
    }

    /// Returns true if a record of this length contains nothing but control frames of HTTP/2.
    fn is_control_frame(&self, length: u16) -> bool {
        let mut plain = self.plain_lengths(length);
        self.has_http2 && plain.any(|plain| HTTP2_CONTROL.contains(&plain))
    }

    /// Returns true if a server's record introduces it, and no request asked for it: HTTP/2's
    /// SETTINGS, or what a server of any protocol sends together with its Finished.
    fn is_preface(&self, length: u16, packet: &PacketKey) -> bool {
        let is_unprompted = self.has_http2 || packet.number == self.completed_by;
        let is_short = self.plain_lengths(length).any(|plain| plain <= PREFACE);
        !self.has_answered && is_unprompted && is_short
    }

    /// Returns true if a client's record is an application message, or a part of one.
    fn is_request(&self, record: Record) -> bool {
        let is_short = record.length == ALERT_RECORD;
        let is_control = self.is_control_frame(record.length);
        record.content == Content::ApplicationData && !is_short && !is_control
    }

    /// Returns true if the record is an encrypted alert before any message: a side ends the
    /// handshake, or the server does not want the client that has just finished it.
    fn is_hidden_alert(&self, by: Side, record: Record) -> bool {
        let is_in_time = match self.phase {
            Phase::Handshake(_) => true,
            Phase::Torn => false,
            Phase::Application => by == Side::Server && self.server_records == 0,
        };
        let is_clear = record.content == Content::Alert && record.length == tls::ALERT;
        is_in_time && self.is_alert(record) && !is_clear
    }

    /// Returns true if the record is an alert, with which a side closes a connection.
    fn is_alert(&self, record: Record) -> bool {
        let is_hidden = self.is_1_3 && record.length == ALERT_RECORD;
        record.content == Content::Alert
            || (record.content == Content::ApplicationData && is_hidden)
    }
}

impl Pairing {
    /// Starts parsing TLS, with the client's bytes that are read next.
    pub(super) fn begin_tls(&mut self, payload: &[u8]) {
        self.protocol.mode = Mode::Tls(false);
        self.streams.requests.speak(Protocol::Tls, Role::Request);
        self.streams.responses.speak(Protocol::Tls, Role::Response);
        let begins_with_hello = payload.first() == Some(&22)
            && payload.get(HEADER as usize) == Some(&tls::CLIENT_HELLO);
        self.tls.conversation = Some(Box::new(Conversation::new(begins_with_hello)));
    }

    /// Takes in a hole: bytes that the capture missed.
    pub(super) fn tls_torn(&mut self, by: Side, span: Span) {
        let is_torn = !self.skip(by, span).is_empty();
        if let Some(tls) = &mut self.tls.conversation {
            tls.lose();
        }
        if is_torn {
            self.cut_awaited();
        }
    }

    pub(super) fn tls_step(
        &mut self,
        offset: u64,
        step: Step,
        packet: &PacketKey,
        view: &View<'_>,
    ) {
        let by = packet.by;
        let Some(mut tls) = self.tls.conversation.take() else {
            return;
        };
        match step {
            Step::Lost => {
                tls.lose();
                self.cut_awaited();
            }
            Step::Tls(Event::Began(content, length)) => {
                let start = offset.saturating_sub(HEADER);
                let end = offset + u64::from(length);
                let record = Record {
                    content,
                    length,
                    start,
                    end,
                };
                self.record_began(&mut tls, by, record, packet, view);
            }
            Step::Tls(Event::Message(message)) => {
                if let Phase::Handshake(flights) = &mut tls.phase {
                    if let Some(hello) = &message.hello {
                        if message.kind == SERVER_HELLO {
                            // Drafts have version numbers of their own, all of them higher.
                            tls.is_1_3 = hello.version >= tls::TLS_1_3;
                        }
                        tls.has_http2 |= hello.has_http2;
                        tls.has_agreement |= hello.has_agreement;
                    }
                    flights.message(message);
                }
            }
            Step::Tls(Event::Alert(description)) if !CLOSING_ALERTS.contains(&description) => {
                let description = Some(description);
                tls.alert.get_or_insert(Alert { by, description });
                self.begin_refused(&tls, packet);
            }
            Step::Tls(Event::Ended(content, length)) => {
                let start = offset.saturating_sub(u64::from(length) + HEADER);
                let record = Record {
                    content,
                    length,
                    start,
                    end: offset,
                };
                self.record_ended(&mut tls, by, record, packet, view);
            }
            _ => {}
        }
        self.tls.conversation = Some(tls);
    }

    fn record_began(
        &mut self,
        tls: &mut Conversation,
        by: Side,
        record: Record,
        packet: &PacketKey,
        view: &View<'_>,
    ) {
        let begin = match by {
            Side::Client => self.first_sent(record.start),
            Side::Server => None,
        };
        let begin = begin.unwrap_or(packet.time());
        let is_encrypted = record.content == Content::ApplicationData;
        // A client of HTTP/1.1 has no reason to send so short a record.
        if by == Side::Client && is_encrypted && tls.is_control_frame(record.length) {
            self.protocol.mode = Mode::Tls(true);
        }
        if tls.is_hidden_alert(by, record) {
            let description = None;
            tls.alert.get_or_insert(Alert { by, description });
        }
        match &mut tls.phase {
            Phase::Handshake(flights) => {
                if by == Side::Client && is_encrypted && !flights.is_answered() {
                    // This is early data: the server's response to it is hidden in the server's
                    // handshake flight (RFC 8446 §2.3).
                    (tls.phase, tls.is_early) = (Phase::Torn, true);
                    return;
                }
                if by == Side::Client && is_encrypted && !tls.is_1_3 {
                    // The client sends this after its own Finished (False Start).
                    self.close_handshake(tls, view);
                    return self.record_began(tls, by, record, packet, view);
                }
                if by == Side::Server && is_encrypted && flights.is_unfinished() {
                    // None of the client's records could be identified as its Finished.
                    tls.phase = Phase::Application;
                    return;
                }
                // A ChangeCipherSpec for middlebox compatibility may come long before the other
                // records.
                let means_nothing = record.content == Content::ChangeCipherSpec && tls.is_1_3;
                if !means_nothing {
                    flights.began(by, record.start, begin);
                }
            }
            Phase::Torn => {
                let is_finished = FINISHED_RECORDS.contains(&record.length);
                if by == Side::Client && is_encrypted && is_finished {
                    (tls.is_1_3, tls.is_early) = (true, false);
                }
                let is_request = tls.is_request(record) && !is_finished && !tls.is_early;
                if by == Side::Client && is_request {
                    tls.phase = Phase::Application;
                    self.request_record(tls, record, begin, packet, view);
                }
            }
            Phase::Application => match by {
                Side::Client if tls.is_request(record) => {
                    self.request_record(tls, record, begin, packet, view)
                }
                Side::Client if tls.is_alert(record) => {
                    self.settle_late(&mut tls.unasked, begin.at, Next::End);
                    self.client_closes();
                }
                Side::Client if is_encrypted => {
                    self.settle_late(&mut tls.unasked, begin.at, Next::Control(record.length))
                }
                Side::Server if is_encrypted => self.response_began(tls, record, packet, view),
                _ => {}
            },
        }
    }

    fn record_ended(
        &mut self,
        tls: &mut Conversation,
        by: Side,
        record: Record,
        packet: &PacketKey,
        view: &View<'_>,
    ) {
        match &mut tls.phase {
            Phase::Handshake(flights) => {
                if record.content != Content::ChangeCipherSpec || !tls.is_1_3 {
                    flights.ended(by, record.content, record.end, packet);
                }
                let is_finished = by == Side::Client
                    && tls.is_1_3
                    && record.content == Content::ApplicationData
                    && FINISHED_RECORDS.contains(&record.length);
                if is_finished || (!tls.is_1_3 && flights.is_done()) {
                    tls.completed_by = packet.number;
                    self.close_handshake(tls, view);
                }
            }
            Phase::Torn => {}
            Phase::Application => {
                if by == Side::Server && record.content == Content::Handshake {
                    // The client did not wait for the server's Finished.
                    tls.completed_by = packet.number;
                }
                let is_answer = by == Side::Server && record.end > tls.unasked.end;
                if is_answer && record.content == Content::ApplicationData {
                    self.response_ended(record, packet);
                }
            }
        }
    }

    /// Closes the completed handshake; it is kept until the first exchange is charged with it.
    fn close_handshake(&mut self, tls: &mut Conversation, view: &View<'_>) {
        let before = core::mem::replace(&mut tls.phase, Phase::Application);
        if let Phase::Handshake(flights) = before {
            let handshake = flights.close(view, self.packets.as_slice(), &self.torn);
            self.tls.handshake = handshake.map(Box::new);
        }
    }

    fn request_record(
        &mut self,
        tls: &mut Conversation,
        record: Record,
        first: PacketTime,
        packet: &PacketKey,
        view: &View<'_>,
    ) {
        let may_be_control = record.length <= MOST_CONTROL;
        let pause = first.at.since(tls.last_request);
        let is_late = pause > LULL;
        let has_crossed = core::mem::take(&mut self.turn.has_crossed);
        let is_next = is_late && self.has_whole_message(tls, packet, view);
        tls.last_request = first.at;
        tls.has_messages |= !may_be_control;
        if self.open.back().is_none_or(Draft::has_response) {
            tls.late_control = None;
            // Tickets come before the first response only, some of them before the first request.
            tls.ticket = tls.ticket.filter(|_| self.next.ordinal == 0);
            tls.is_control = may_be_control;
            self.settle_late(&mut tls.unasked, first.at, Next::Request(record.length));
            self.finish_turn();
            let is_early = !may_be_control && self.is_early(packet);
            self.begin(record.start, first);
            self.note_crossing(is_early);
            self.note_reply(first.at, view);
        } else if is_late && may_be_control && !tls.is_control {
            tls.late_control = Some((record.span(), first));
            return;
        } else if let Some(draft) = self.open.back_mut()
            && (is_next || (is_late && (tls.is_control || has_crossed)))
        {
            draft.begin_again(record.start, first);
            // A client that sends message after message without waiting for an answer is owed none:
            // it sends heartbeats or telemetry. Over HTTP/2, requests overlap.
            draft.signs.doubts.is_crossed |= is_next && pause > PUSHED && !tls.has_http2;
            tls.is_control = may_be_control;
        } else {
            tls.is_control &= may_be_control;
        }
        let shortest = tls
            .unasked
            .shortest_request
            .into_iter()
            .chain([record.length])
            .min();
        tls.unasked.shortest_request = shortest
            .filter(|_| !may_be_control)
            .or(tls.unasked.shortest_request);
        if let Some(draft) = self.open.back_mut() {
            draft.request.end = draft.request.end.max(record.end);
        }
    }

    /// Returns true if the client's records so far may be a whole message, so that what comes after
    /// a pause is as likely another one: they fill no segment, and nothing else shows that they are
    /// incomplete. Over HTTP/2 requests do not wait for each other; otherwise the server must have
    /// had the time to acknowledge the message. What leaves with that acknowledgement was held for
    /// it.
    fn has_whole_message(&self, tls: &Conversation, packet: &PacketKey, view: &View<'_>) -> bool {
        let Some(draft) = self.open.back() else {
            return false;
        };
        let request = draft.request;
        let is_acked = self.acked.requests >= request.end;
        let mss = u64::from(view.pipes().client.mss);
        let reaction = view.to_client().floor().unwrap_or_default() + LULL;
        let is_held = packet.idle <= reaction;
        (tls.has_http2 || is_acked) && !is_held && request.end - request.start < mss
    }

    /// Ends the response in progress, because a client that closes the connection awaits nothing
    /// more: what the server sends from then on closes it too.
    fn client_closes(&mut self) {
        if self.open.back().is_some_and(Draft::has_response) {
            self.finish_turn();
        }
    }

    /// Returns true if a server record that may be control data comes too long after a response to
    /// be a part of it: a keep-alive check, or the close of an idle connection. A record as short
    /// as an alert may also be a message, such as an empty line.
    fn is_late_control(&self, record: Record, may_be_alert: bool, packet: &PacketKey) -> bool {
        let longest = if may_be_alert { LULL } else { PUSHED };
        let answered = self.open.back().filter(|draft| draft.has_response());
        let is_late = answered.is_some_and(|draft| packet.at.since(draft.last.at) > longest);
        record.length <= MOST_CONTROL && is_late
    }

    /// Returns true if the open request is only a control record on a connection that carries
    /// messages, and the server's data comes too late to be its response.
    fn is_unanswered_control(
        &self,
        tls: &Conversation,
        packet: &PacketKey,
        view: &View<'_>,
    ) -> bool {
        let is_open = self.open.back().is_some_and(|draft| !draft.has_response());
        let propagation = view.to_server().floor().unwrap_or_default();
        let is_late = packet.at.since(tls.last_request) > propagation * 2 + LULL;
        is_open && tls.is_control && tls.has_messages && is_late
    }

    /// Begins the request again with the client's last record if the server's data comes just a round
    /// trip after that record: it answers that record, even if the record may be control data.
    fn prefer_last_record(
        &mut self,
        tls: &mut Conversation,
        record: Record,
        packet: &PacketKey,
        view: &View<'_>,
    ) {
        let open = self.open.back_mut().filter(|draft| !draft.has_response());
        let Some((draft, (asked, first))) = open.zip(tls.late_control.take()) else {
            return;
        };
        let propagation = view.to_server().floor().unwrap_or_default();
        let is_answered = packet.at.since(first.at) <= propagation + LULL;
        if is_answered && packet.ack >= asked.end && record.length > MOST_CONTROL {
            draft.begin_again(asked.start, first);
            draft.request.end = asked.end;
        }
    }

    fn response_began(
        &mut self,
        tls: &mut Conversation,
        record: Record,
        packet: &PacketKey,
        view: &View<'_>,
    ) {
        // With HTTP/2 or SPDY, the server's settings may come before the client's requests, but the
        // client does not wait for them.
        if self.open.is_empty()
            && !tls.is_1_3
            && !tls.has_agreement
            && let Some(handshake) = &mut self.tls.handshake
        {
            handshake.is_server_first = true;
        }
        let index = tls.server_records;
        tls.server_records = index.saturating_add(1).min(MOST_TICKETS);
        let is_alert = tls.is_1_3 && record.length == ALERT_RECORD;
        if self.is_unanswered_control(tls, packet, view) {
            self.open.pop_back();
        }
        self.prefer_last_record(tls, record, packet, view);
        let is_control = tls.is_control_frame(record.length);
        let answer = Some(record.span()).filter(|_| !is_control);
        if self.is_late_control(record, is_alert, packet) || self.crosses(packet, answer) {
            tls.unasked.end = record.end;
            return;
        }
        if is_alert {
            return;
        }
        self.doubt_response(packet);
        let is_ticket = index < MOST_TICKETS && tls.ticket == Some(record.length);
        let may_be_ticket = tls.is_1_3 && index == 0 && TICKET_RECORDS.contains(&record.length);
        let Some(draft) = self.open.back_mut().filter(|draft| draft.is_awaited()) else {
            // Tickets come unasked too, but nobody answers them.
            self.turn.is_unasked = tls.has_answered;
            tls.ticket = (may_be_ticket || is_ticket).then_some(record.length);
            return;
        };
        let is_rest_late = packet.at.since(draft.last.at) > LULL;
        let is_other = tls.ticket.is_some_and(|length| length != record.length);
        if index == 1 && is_other && is_rest_late && draft.has_response() {
            // A single record long before all others was not the beginning of a response.
            draft.put_begin_aside(record.start);
        }
        let is_control = is_control && !draft.has_response();
        if is_control && draft.has_aside() {
            tls.unasked.end = record.end;
            return;
        }
        let is_preface = is_control || tls.is_preface(record.length, packet);
        tls.ticket = (may_be_ticket || is_ticket).then_some(record.length);
        tls.has_answered |= !is_preface && tls.ticket.is_none();
        if is_preface || is_ticket {
            draft.put_aside(record.start, record.end, packet.time());
            return;
        }
        note_late(
            &mut tls.unasked,
            draft,
            (record.length, record.span()),
            packet,
            view,
        );
        let span = Span {
            start: record.start,
            end: record.start + HEADER,
        };
        draft.extend_turn(span, packet.time());
    }

    fn response_ended(&mut self, record: Record, packet: &PacketKey) {
        let Some(draft) = self.open.back_mut().filter(|draft| draft.is_awaited()) else {
            return;
        };
        let span = Span {
            start: record.start,
            end: record.end,
        };
        if draft.is_aside(record.end) {
            draft.put_aside(record.start, record.end, packet.time());
            return;
        }
        draft.extend_turn(span, packet.time());
        if record.start == draft.response.start {
            draft.records.first = Some(span);
        }
    }
}

impl Pairing {
    /// Returns the start time of the handshake in progress.
    pub(super) fn handshake_begin(&self) -> Option<Timestamp> {
        self.tls.conversation.as_ref()?.flights()?.begin()
    }

    /// Fails a handshake in progress because no more will come: it becomes an exchange that failed.
    pub(super) fn fail_handshake(&mut self) {
        let Some(flights) = self.tls.conversation.as_ref().and_then(|tls| tls.flights()) else {
            return;
        };
        let name = flights.server_name().unwrap_or_default().to_owned();
        let Some((request, first)) = flights.first() else {
            return;
        };
        let has_hello = flights.is_answered();
        self.begin(request.start, first);
        if let Some(draft) = self.open.back_mut().filter(|draft| draft.is_awaited()) {
            draft.request = request;
            draft.request_head.line = Some(RequestLine::new("TLS", &name));
            draft.signs.tls.is_answered = has_hello;
        }
    }

    /// Begins the exchange of a handshake that an alert ends, if parts of the handshake are missing.
    fn begin_refused(&mut self, tls: &Conversation, packet: &PacketKey) {
        let is_torn = matches!(tls.phase, Phase::Torn);
        if is_torn && self.next.ordinal == 0 {
            self.begin(0, packet.time());
            if let Some(draft) = self.open.back_mut() {
                draft.request_head.line = Some(RequestLine::new("TLS", ""));
                draft.signs.tls.is_answered = true;
            }
        }
    }

    /// Decides what the late record after the last response is, when the connection ends at
    /// `ended`, or the capture does.
    pub(super) fn settle_late_at_end(&mut self, ended: Option<Timestamp>) {
        if let Some(mut tls) = self.tls.conversation.take() {
            self.settle_late(&mut tls.unasked, ended.unwrap_or(Timestamp::MAX), Next::End);
            self.tls.conversation = Some(tls);
        }
    }

    /// Records for the exchange that still waits, because no more will come, that a side refused
    /// TLS.
    pub(super) fn note_alert(&mut self) {
        let alert = self.tls.conversation.take().and_then(|tls| tls.alert);
        if let Some(draft) = self.open.back_mut().filter(|draft| draft.is_awaited()) {
            draft.signs.tls.alert = alert;
        }
    }
}
