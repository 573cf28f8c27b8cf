//! HTTP/2: a stream is an exchange; several may be open at once, and each is tiled separately. A
//! stretch that a flow-control window held back is recorded with its exchange.

mod flow_control;
mod messages;
mod requests;

use super::{Draft, Mode, Pairing};
use crate::attribution::packet::Span;
use crate::attribution::packet_record::PacketKey;
use crate::connection::View;
use crate::exchange::{PerSide, Side};
use crate::protocol::http::{RequestLine, Role, fingerprint};
use crate::protocol::http2::{Event, Fields, FrameHeader, HEADER, Meaning, StreamType, are_frames};
use crate::protocol::{Protocol, Step};
pub(super) use flow_control::{Multiplex, Multiplexed};

/// Returns true if a segment shows that a connection whose beginning was not seen uses HTTP/2.
pub(super) fn is_joined(payload: &[u8]) -> bool {
    are_frames(payload)
}

impl Pairing {
    /// Starts parsing HTTP/2, which the client is about to send. If the connection is joined midway,
    /// its windows and earlier field sections are unknown, and the server may be in the middle of a
    /// frame.
    pub(super) fn begin_http2(&mut self, is_joined: bool) {
        self.protocol.mode = Mode::Http2;
        self.streams.requests.speak(Protocol::Http2, Role::Request);
        self.streams
            .responses
            .speak(Protocol::Http2, Role::Response);
        self.multiplex = Some(Box::new(Multiplex::new()));
        if is_joined {
            self.streams.requests.messages.reset();
            self.streams.responses.messages.join();
            if let Some(multiplex) = &mut self.multiplex {
                multiplex.join();
            }
        }
    }

    /// Changes from HTTP/1.1 to HTTP/2: the request that asked for the upgrade is stream 1 (RFC
    /// 7540 §3.2). The responses' parser was changed at the end of the 101 response.
    pub(super) fn upgrade_to_http2(&mut self) {
        self.protocol.mode = Mode::Http2;
        self.streams.requests.speak(Protocol::Http2, Role::Request);
        self.multiplex = Some(Box::new(Multiplex::new()));
        if let Some(draft) = self.open.back_mut() {
            draft.multiplexed = Multiplexed::of(1);
            draft.response = Span { start: 0, end: 0 };
        }
    }

    /// Takes in a hole: bytes that the capture missed.
    pub(super) fn http2_torn(&mut self, by: Side, span: Span) {
        if !self.skip(by, span).is_empty() {
            self.lose_streams();
        }
    }

    /// Drops the open streams and their windows, which are no longer known.
    fn lose_streams(&mut self) {
        self.cut_awaited();
        if let Some(multiplex) = &mut self.multiplex {
            multiplex.lose();
        }
    }

    pub(super) fn http2_step(
        &mut self,
        offset: u64,
        step: Step,
        packet: &PacketKey,
        view: &View<'_>,
    ) {
        let by = packet.by;
        match step {
            Step::Lost => self.lose_streams(),
            Step::Http2(Event::Began(frame)) => {
                let start = offset.saturating_sub(HEADER);
                self.frame_began(by, frame, start, packet, view);
            }
            Step::Http2(Event::Ended(frame, meaning)) => {
                self.frame_ended(by, frame, meaning, offset, packet, view);
            }
            _ => {}
        }
    }

    /// Returns an open stream. They are in the order of their numbers: others are not begun.
    fn stream(&mut self, id: u32) -> Option<&mut Draft> {
        let after = self.streams_up_to(id);
        let draft = self.open.get_mut(after.checked_sub(1)?)?;
        let number = draft.multiplexed.as_deref().map(Multiplexed::id);
        (number == Some(id) && draft.is_awaited()).then_some(draft)
    }

    /// Returns the number of open exchanges whose streams have at most this number.
    fn streams_up_to(&self, id: u32) -> usize {
        let number = |draft: &Draft| draft.multiplexed.as_deref().map(Multiplexed::id);
        self.open.partition_point(|draft| number(draft) <= Some(id))
    }

    /// Returns true if a stream's number is higher than those of all streams before, as it must be
    /// (RFC 9113 §5.1.1). Headers of another one end its request.
    fn is_later(&self, stream: u32) -> bool {
        let mut multiplex = self.multiplex.iter();
        multiplex.all(|multiplex| multiplex.requests.is_later(stream))
    }

    fn frame_began(
        &mut self,
        by: Side,
        frame: FrameHeader,
        start: u64,
        packet: &PacketKey,
        view: &View<'_>,
    ) {
        // Streams opened by a client have odd numbers (RFC 9113 §5.1.1).
        let opens = by == Side::Client && frame.is_headers() && frame.stream % 2 == 1;
        if opens && self.is_later(frame.stream) {
            let signs = self.stream_opens(frame.stream, packet, view);
            if !self.is_full() {
                let first = self.first_sent(start).unwrap_or(packet.time());
                self.begin(start, first);
                if let Some(draft) = self.open.back_mut() {
                    draft.multiplexed = Multiplexed::of(frame.stream);
                    draft.beginning.was_behind = false;
                    draft.signs.stream = signs;
                }
            }
        }
        let end = start + HEADER + u64::from(frame.length);
        let is_message = frame.is_headers() || frame.is_data();
        if let Some(draft) = self.stream(frame.stream).filter(|_| is_message) {
            match by {
                Side::Client => draft.request.end = draft.request.end.max(end),
                Side::Server => draft.extend_turn(
                    Span {
                        start,
                        end: start + 1,
                    },
                    packet.time(),
                ),
            }
        }
        if frame.is_data() && frame.length > 0 {
            self.data_began(by, frame, packet);
        }
    }

    fn frame_ended(
        &mut self,
        by: Side,
        frame: FrameHeader,
        meaning: Meaning,
        offset: u64,
        packet: &PacketKey,
        view: &View<'_>,
    ) {
        match meaning {
            Meaning::Headers(fields) => {
                self.grpc_frame(by, frame, None, packet);
                let is_interim = self.field_section(by, frame, fields);
                if !is_interim {
                    self.message_went_on(by, frame, offset, packet);
                }
            }
            Meaning::Data(first) => {
                self.grpc_frame(by, frame, first, packet);
                self.data_ended(by, frame, offset, packet);
                self.message_went_on(by, frame, offset, packet);
            }
            Meaning::Settings(settings) => self.settings(by, settings),
            Meaning::WindowUpdate(bytes) => self.window_update(by, frame, bytes, packet, view),
            Meaning::Reset(code) => self.stream_reset(by, frame.stream, code, packet.at),
            Meaning::GoAway(announced) if by == Side::Server => {
                self.server_leaves(announced, packet.at);
            }
            Meaning::GoAway(_) => {}
            Meaning::Other => {}
        }
    }

    /// Records the contents of a field section; returns true if the final one is still to come (RFC
    /// 9110 §15.2).
    fn field_section(&mut self, by: Side, frame: FrameHeader, fields: Option<Box<Fields>>) -> bool {
        let Some(draft) = self.stream(frame.stream) else {
            return false;
        };
        let Some(fields) = fields else {
            return false;
        };
        match by {
            Side::Client if draft.request_head.line.is_none() => {
                if fields.stream == Some(StreamType::Grpc)
                    && let Some(multiplexed) = &mut draft.multiplexed
                {
                    multiplexed.messages = Some(PerSide::default());
                }
                let Fields { method, path, .. } = *fields;
                let target = path.unwrap_or_default();
                draft.request_head.line = method.map(|method| RequestLine {
                    fingerprint: fingerprint(target.as_bytes()),
                    ..RequestLine::new(&method, &target)
                });
                false
            }
            Side::Server => {
                let is_interim = matches!(fields.status, Some(100..200));
                if !is_interim {
                    let head = &mut draft.response_head;
                    // Trailers have no status.
                    head.status = fields.status.or(head.status);
                    head.grpc_status = fields.grpc_status.or(head.grpc_status);
                    head.fields.is_stream |= fields.stream == Some(StreamType::Events);
                }
                is_interim
            }
            Side::Client => false,
        }
    }

    /// Records how far the stream's message has come.
    fn message_went_on(&mut self, by: Side, frame: FrameHeader, offset: u64, packet: &PacketKey) {
        let Some(draft) = self.stream(frame.stream).filter(|_| by == Side::Server) else {
            return;
        };
        draft.last.number = packet.time().number;
        if frame.ends_stream() {
            draft.complete(offset, packet.time());
            self.protocol.frames_lost = 0;
            self.stream_closed(packet.at);
        } else {
            let end = Span {
                start: offset,
                end: offset,
            };
            draft.extend_turn(end, packet.time());
        }
    }
}
