//! HTTP/2: a stream is an exchange; several may be open at once, and each is
//! tiled on its own. What its flow-control windows held back is noted with it.

use core::time::Duration;
use std::collections::VecDeque;

use super::{Draft, Mode, Pairing};
use crate::connection::View;
use crate::connection::half::Span;
use crate::exchange::Side;
use crate::http::{RequestLine, Role, fingerprint};
use crate::mark::Mark;
use crate::protocol::http2::{Event, Fields, Frame, HEADER, Meaning};
use crate::protocol::{Protocol, Step};
use crate::tile::Held;
use crate::time::Timestamp;

/// Each window before a frame says otherwise (RFC 9113 §6.5.2, §6.9.2).
const INITIAL_WINDOW: i64 = 65_535;
/// Window updates on their way that are remembered, and stretches that one
/// stream was held back.
const MAX_CREDITS: usize = 256;
const MAX_HELD: usize = 1024;
/// A sender that a window held goes on within this time of the update that
/// opened it; what comes later it was not waiting for.
const REACTION: Duration = Duration::from_millis(5);
/// A frame's tail that is shorter than this fills no segment (Ethernet's MSS
/// less timestamps).
const SEGMENT: u64 = 1448;
/// Stamps of one path stray by this much.
const JITTER: Duration = Duration::from_micros(500);

/// What a connection's flow control has come to, by the data's sender: the
/// client's, the server's.
#[derive(Debug)]
pub(super) struct Multiplex {
    senders: [Sender; 2],
}

/// One side's data, and what its peer allows.
#[derive(Debug)]
struct Sender {
    /// The connection's window.
    connection: Window,
    /// Each stream's window at first.
    initial: i64,
    /// Updates that the peer has sent: when they reach the sender, for which
    /// stream (0: all), how many bytes.
    credits: VecDeque<(Timestamp, u32, i64)>,
    /// When the connection's window last held all streams back, and the packet
    /// that went on: what else it carries was held back with it.
    stall: Option<((Timestamp, Timestamp), u64)>,
}

/// A window as its sender knows it, counted from what it was at first.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    given: i64,
    used: i64,
    /// When data last ended, and what had been given by then.
    spent: Option<(Timestamp, i64)>,
    /// The first update since.
    released: Option<Timestamp>,
}

/// One exchange's part in a connection that carries several at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Multiplexed {
    stream: u32,
    /// What the client sent and the server under flow control.
    windows: [Window; 2],
    /// Stretches that one side was held back in by the other's windows.
    pub(super) held: Vec<Held>,
}

impl Multiplexed {
    fn of(stream: u32) -> Option<Box<Self>> {
        let it = Self {
            stream,
            ..Self::default()
        };
        Some(Box::new(it))
    }

    /// What may still be sent by one side.
    fn window(&mut self, by: Side) -> &mut Window {
        let [client, server] = &mut self.windows;
        match by {
            Side::Client => client,
            Side::Server => server,
        }
    }
}

impl Default for Sender {
    fn default() -> Self {
        Self {
            connection: Window::default(),
            initial: INITIAL_WINDOW,
            credits: VecDeque::new(),
            stall: None,
        }
    }
}

impl Window {
    /// So many bytes were used, and nothing more was sent since.
    fn take(&mut self, bytes: i64, since: Timestamp) {
        self.used = self.used.saturating_add(bytes);
        self.spent = Some((since, self.given));
        self.released = None;
    }

    fn give(&mut self, bytes: i64, at: Timestamp) {
        self.given = self.given.saturating_add(bytes);
        let is_later = self.spent.is_some_and(|(since, _)| at + JITTER >= since);
        self.released = self.released.or(Some(at).filter(|_| is_later));
    }

    /// From when until when so many bytes had no room; `None`: they had.
    fn held(&self, initial: i64, bytes: i64) -> Option<(Timestamp, Timestamp)> {
        let (since, given) = self.spent?;
        let had_room = bytes <= initial + given - self.used;
        self.released
            .filter(|_| !had_room)
            .map(|until| (since, until))
    }
}

impl Multiplex {
    fn new() -> Self {
        Self {
            senders: [Sender::default(), Sender::default()],
        }
    }

    fn sender(&mut self, by: Side) -> &mut Sender {
        let [client, server] = &mut self.senders;
        match by {
            Side::Client => client,
            Side::Server => server,
        }
    }
}

impl Pairing {
    /// The client is about to speak HTTP/2.
    pub(super) fn begin_http2(&mut self) {
        self.mode = Mode::Http2;
        self.requests.speak(Protocol::Http2, Role::Request);
        self.responses.speak(Protocol::Http2, Role::Response);
        self.multiplex = Some(Box::new(Multiplex::new()));
    }

    /// HTTP/1.1 was left for HTTP/2: the request that asked for it is stream 1
    /// (RFC 7540 §3.2). The responses' parser was changed with the 101's end.
    pub(super) fn upgrade_to_http2(&mut self) {
        self.mode = Mode::Http2;
        self.requests.speak(Protocol::Http2, Role::Request);
        self.multiplex = Some(Box::new(Multiplex::new()));
        if let Some(draft) = self.open.back_mut() {
            draft.multiplexed = Multiplexed::of(1);
            draft.response = Span { start: 0, end: 0 };
        }
    }

    /// The capture missed bytes.
    pub(super) fn http2_torn(&mut self, by: Side, span: Span) {
        if !self.skip(by, span).is_empty() {
            self.lose_streams();
        }
    }

    /// Which streams go on, and what their windows are, is not known.
    fn lose_streams(&mut self) {
        self.cut_awaited();
        if let Some(multiplex) = &mut self.multiplex {
            **multiplex = Multiplex::new();
        }
    }

    pub(super) fn http2_step(&mut self, offset: u64, step: Step, mark: &Mark, view: &View<'_>) {
        let by = mark.by;
        match step {
            Step::Lost => self.lose_streams(),
            Step::Http2(Event::Began(frame)) => {
                let start = offset.saturating_sub(HEADER);
                self.frame_began(by, frame, start, mark);
            }
            Step::Http2(Event::Ended(frame, meaning)) => {
                self.frame_ended(by, frame, meaning, offset, mark, view);
            }
            _ => {}
        }
    }

    fn stream(&mut self, id: u32) -> Option<&mut Draft> {
        let mut open = self.open.iter_mut().rev();
        open.find(|draft| draft.is_of(id) && draft.is_awaited())
    }

    fn window(&mut self, stream: u32, by: Side) -> Option<&mut Window> {
        let multiplexed = self.stream(stream)?.multiplexed.as_mut()?;
        Some(multiplexed.window(by))
    }

    fn frame_began(&mut self, by: Side, frame: Frame, start: u64, mark: &Mark) {
        // Streams that a client opens have odd numbers (RFC 9113 §5.1.1).
        let opens = by == Side::Client && frame.is_headers() && frame.stream % 2 == 1;
        if opens && self.stream(frame.stream).is_none() {
            let (at, number) = self.first_sent(start).unwrap_or((mark.at, mark.number));
            self.begin(start, at, number);
            if let Some(draft) = self.open.back_mut() {
                draft.multiplexed = Multiplexed::of(frame.stream);
                draft.was_behind = false;
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
                    mark.at,
                    mark.number,
                ),
            }
        }
        if frame.is_data() && frame.length > 0 {
            self.data_began(by, frame, mark);
        }
    }

    fn frame_ended(
        &mut self,
        by: Side,
        frame: Frame,
        meaning: Meaning,
        offset: u64,
        mark: &Mark,
        view: &View<'_>,
    ) {
        match meaning {
            Meaning::Headers(fields) => {
                let is_interim = self.field_section(by, frame, fields);
                if !is_interim {
                    self.message_went_on(by, frame, offset, mark);
                }
            }
            Meaning::Data => {
                self.data_ended(by, frame, offset, mark);
                self.message_went_on(by, frame, offset, mark);
            }
            Meaning::InitialWindow(bytes) => self.initial_window(by.peer(), bytes),
            Meaning::WindowUpdate(bytes) => {
                let trip = match by {
                    Side::Client => view.to_server(),
                    Side::Server => view.to_client(),
                };
                let reaches = mark.at + trip.floor().unwrap_or_default();
                let credits = &mut self.credits(by.peer());
                if let Some(credits) = credits {
                    if credits.len() >= MAX_CREDITS {
                        credits.pop_front();
                    }
                    credits.push_back((reaches, frame.stream, i64::from(bytes)));
                }
            }
            Meaning::Reset => {
                if let Some(draft) = self.stream(frame.stream) {
                    draft.give_up(Some((Some(by), mark.at, true)));
                }
            }
            Meaning::Other => {}
        }
    }

    fn credits(&mut self, by: Side) -> Option<&mut VecDeque<(Timestamp, u32, i64)>> {
        self.multiplex
            .as_mut()
            .map(|multiplex| &mut multiplex.sender(by).credits)
    }

    /// Notes what a field section says; whether the real one is still to come
    /// (RFC 9110 §15.2).
    fn field_section(&mut self, by: Side, frame: Frame, fields: Option<Box<Fields>>) -> bool {
        let Some(draft) = self.stream(frame.stream) else {
            return false;
        };
        let Some(fields) = fields else {
            return false;
        };
        match by {
            Side::Client if draft.line.is_none() => {
                let Fields { method, path, .. } = *fields;
                let target = path.unwrap_or_default();
                draft.line = method.map(|method| RequestLine {
                    fingerprint: fingerprint(&target),
                    ..RequestLine::new(&method, &target)
                });
                false
            }
            Side::Server => {
                let is_interim = matches!(fields.status, Some(100..200));
                if !is_interim {
                    // Trailers have none.
                    draft.status = fields.status.or(draft.status);
                }
                is_interim
            }
            Side::Client => false,
        }
    }

    /// The stream's message has come so far.
    fn message_went_on(&mut self, by: Side, frame: Frame, offset: u64, mark: &Mark) {
        let Some(draft) = self.stream(frame.stream).filter(|_| by == Side::Server) else {
            return;
        };
        draft.last_number = mark.number;
        match frame.ends_stream() {
            true => draft.complete(offset, mark.at, mark.number),
            false => {
                let end = Span {
                    start: offset,
                    end: offset,
                };
                draft.extend_turn(end, mark.at, mark.number);
            }
        }
    }

    /// A new size applies to the streams that are open as well (RFC 9113 §6.9.2).
    fn initial_window(&mut self, sender: Side, bytes: u32) {
        if let Some(multiplex) = &mut self.multiplex {
            multiplex.sender(sender).initial = i64::from(bytes);
        }
    }

    /// Data of a stream begins: whether it could have come sooner but for the
    /// windows, which had no room for it before an update.
    fn data_began(&mut self, by: Side, frame: Frame, mark: &Mark) {
        let Some(mut multiplex) = self.multiplex.take() else {
            return;
        };
        let sender = multiplex.sender(by);
        self.apply_credits(by, sender, mark.at + JITTER);
        let length = i64::from(frame.length);
        if let Some(held) = sender.connection.held(INITIAL_WINDOW, length) {
            sender.stall = Some((held, mark.number));
        }
        let with_all = sender.stall.filter(|&(_, number)| number == mark.number);
        let initial = sender.initial;
        self.multiplex = Some(multiplex);
        let Some(draft) = self.stream(frame.stream) else {
            return;
        };
        let begin = draft.begin;
        let Some(multiplexed) = &mut draft.multiplexed else {
            return;
        };
        let held = multiplexed.window(by).held(initial, length);
        let Some((spent, released)) = held.or(with_all.map(|(held, _)| held)) else {
            return;
        };
        let spent = spent.max(begin);
        let until = match mark.at <= released + REACTION {
            true => mark.at,
            false => released,
        };
        if until > spent && multiplexed.held.len() < MAX_HELD {
            multiplexed.held.push(Held {
                from: spent,
                until,
                by: by.peer(),
                released: mark.number,
            });
        }
    }

    /// Gives a sender what has reached it by `until`.
    fn apply_credits(&mut self, by: Side, sender: &mut Sender, until: Timestamp) {
        while let Some(&(at, stream, bytes)) = sender.credits.front() {
            if at > until {
                break;
            }
            sender.credits.pop_front();
            match stream {
                0 => sender.connection.give(bytes, at),
                _ => {
                    if let Some(window) = self.window(stream, by) {
                        window.give(bytes, at);
                    }
                }
            }
        }
    }

    /// Since when a sender had nothing more that it might send, when its frame
    /// ended at `offset` in `mark`. A tail that fills no segment was written
    /// with what came before: with more behind it, it would have gone at once.
    fn spent_since(&self, by: Side, offset: u64, mark: &Mark) -> Timestamp {
        let is_tail = mark
            .data
            .is_some_and(|data| offset.saturating_sub(data.span.start) < SEGMENT);
        let mut earlier = self.marks.as_slice().iter().rev();
        let before = earlier
            .find(|other| other.by == by && other.data.is_some() && other.number != mark.number);
        before
            .filter(|_| is_tail)
            .map_or(mark.at, |before| before.at.min(mark.at))
    }

    /// Data of a stream ended: it used up its windows.
    fn data_ended(&mut self, by: Side, frame: Frame, offset: u64, mark: &Mark) {
        let since = self.spent_since(by, offset, mark);
        let Some(mut multiplex) = self.multiplex.take() else {
            return;
        };
        let sender = multiplex.sender(by);
        let length = i64::from(frame.length);
        sender.connection.take(length, since);
        if let Some(window) = self.window(frame.stream, by) {
            window.take(length, since);
        }
        self.multiplex = Some(multiplex);
    }
}

impl Draft {
    /// Whether it is that stream.
    fn is_of(&self, id: u32) -> bool {
        self.multiplexed
            .as_ref()
            .is_some_and(|own| own.stream == id)
    }
}
