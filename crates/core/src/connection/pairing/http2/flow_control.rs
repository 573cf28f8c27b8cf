//! Flow control of HTTP/2: what each side may send, and what it was held back by (RFC 9113 §5.2).

use core::time::Duration;
use std::collections::VecDeque;

use super::{Draft, Pairing};
use crate::attribution::Held;
use crate::attribution::mark::Brief;
use crate::connection::View;
use crate::exchange::Side;
use crate::observed::time::Timestamp;
use crate::protocol::http2::Frame;

/// The size of each window before a frame says otherwise (RFC 9113 §6.5.2, §6.9.2).
const INITIAL_WINDOW: i64 = 65_535;
/// The most window updates on their way that are remembered, and stretches in which one stream was
/// held back.
const MAX_CREDITS: usize = 256;
const MAX_HELD: usize = 1024;
/// The time within which a sender that a window held goes on after the update that opened it; what
/// comes later was not waiting for it.
const REACTION: Duration = Duration::from_millis(5);
/// Minimum length of a frame's tail that fills a segment (Ethernet's MSS less timestamps).
const SEGMENT: u64 = 1448;
/// The amount by which stamps of one path stray.
const JITTER: Duration = Duration::from_micros(500);

/// Flow-control state of a connection, by the data's sender: the client's, the server's.
#[derive(Debug)]
pub(in super::super) struct Multiplex {
    senders: [Sender; 2],
}

/// Data of one side, and what its peer allows.
#[derive(Debug)]
struct Sender {
    /// The connection's window.
    connection: Window,
    /// The initial window of each stream.
    initial: i64,
    /// Updates that the peer has sent: the time when they reach the sender, the stream (0: all),
    /// and the number of bytes.
    credits: VecDeque<(Timestamp, u32, i64)>,
    /// The last stretch in which the connection's window held all streams back, and the packet that
    /// went on: what else it carries was held back with it.
    stall: Option<((Timestamp, Timestamp), u64)>,
}

/// A window as its sender knows it, counted from what it was at first.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    given: i64,
    used: i64,
    /// End of the last data, and what had been given by then.
    spent: Option<(Timestamp, i64)>,
    /// The first update since.
    released: Option<Timestamp>,
}

/// The part of an exchange in a connection that carries several at once.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Multiplexed {
    stream: u32,
    /// Windows of what the client sent and of what the server sent.
    windows: [Window; 2],
    /// Stretches that one side was held back in by the other's windows.
    pub(in super::super) held: Vec<Held>,
}

impl Multiplexed {
    pub(super) fn of(stream: u32) -> Option<Box<Self>> {
        let it = Self {
            stream,
            ..Self::default()
        };
        Some(Box::new(it))
    }

    /// Returns the window of what one side may still send.
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
    /// Notes that `bytes` were used, and that nothing more was sent since.
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

    /// Returns the time from and until which `bytes` had no room; `None`: they had.
    fn held(&self, initial: i64, bytes: i64) -> Option<(Timestamp, Timestamp)> {
        let (since, given) = self.spent?;
        let had_room = bytes <= initial + given - self.used;
        self.released
            .filter(|_| !had_room)
            .map(|until| (since, until))
    }
}

impl Multiplex {
    pub(super) fn new() -> Self {
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
    /// Takes in a window update: the peer of a sender allows it more, once the update has got
    /// there.
    pub(super) fn window_update(
        &mut self,
        by: Side,
        frame: Frame,
        bytes: u32,
        mark: &Brief,
        view: &View<'_>,
    ) {
        let trip = match by {
            Side::Client => view.to_server(),
            Side::Server => view.to_client(),
        };
        let reaches = mark.at + trip.floor().unwrap_or_default();
        if let Some(multiplex) = &mut self.multiplex {
            let credits = &mut multiplex.sender(by.peer()).credits;
            if credits.len() >= MAX_CREDITS {
                credits.pop_front();
            }
            credits.push_back((reaches, frame.stream, i64::from(bytes)));
        }
    }

    fn window(&mut self, stream: u32, by: Side) -> Option<&mut Window> {
        let multiplexed = self.stream(stream)?.multiplexed.as_mut()?;
        Some(multiplexed.window(by))
    }

    /// Takes in a new initial size, which applies to the streams that are open as well (RFC 9113
    /// §6.9.2).
    pub(super) fn initial_window(&mut self, sender: Side, bytes: u32) {
        if let Some(multiplex) = &mut self.multiplex {
            multiplex.sender(sender).initial = i64::from(bytes);
        }
    }

    /// Notes that data of a stream begins, and whether it could have come sooner but for the
    /// windows, which had no room for it before an update.
    pub(super) fn data_began(&mut self, by: Side, frame: Frame, mark: &Brief) {
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
        let until = if mark.at <= released + REACTION {
            mark.at
        } else {
            released
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

    /// Returns the time since when a sender had nothing more that it might send, when its frame
    /// ended at `offset` in `mark`. A tail that fills no segment was written with what came before:
    /// with more behind it, it would have gone at once.
    fn spent_since(&self, by: Side, offset: u64, mark: &Brief) -> Timestamp {
        let is_tail = offset.saturating_sub(mark.start) < SEGMENT;
        let mut earlier = self.marks.as_slice().iter().rev();
        let before = earlier
            .find(|other| other.by == by && other.data.is_some() && other.number != mark.number);
        before
            .filter(|_| is_tail)
            .map_or(mark.at, |before| before.at.min(mark.at))
    }

    /// Notes that data of a stream ended, which used up its windows.
    pub(super) fn data_ended(&mut self, by: Side, frame: Frame, offset: u64, mark: &Brief) {
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
    /// Returns true if it is that stream.
    pub(super) fn is_of(&self, id: u32) -> bool {
        self.multiplexed
            .as_ref()
            .is_some_and(|own| own.stream == id)
    }
}
