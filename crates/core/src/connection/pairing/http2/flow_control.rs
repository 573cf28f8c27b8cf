//! Flow control of HTTP/2: what each side may send, and what held it back (RFC 9113 §5.2).

use core::time::Duration;
use std::collections::VecDeque;

use super::messages::Talk;
use super::requests::Requests;
use super::{Draft, Pairing};
use crate::attribution::packet_record::PacketKey;
use crate::attribution::{HeldSpan, Stretch};
use crate::connection::View;
use crate::exchange::{PerSide, Side};
use crate::observed::time::Timestamp;
use crate::protocol::http2::{FrameHeader, Settings};

/// The size of each window until a frame changes it (RFC 9113 §6.5.2, §6.9.2).
const INITIAL_WINDOW: i64 = 65_535;
/// Maximum number of window updates in flight that are remembered, and of stretches in which one
/// stream was held back.
const MAX_CREDITS: usize = 256;
const MAX_HELD: usize = 1024;
/// Maximum time after an update in which a sender held by the window continues; a sender that
/// continues later was not waiting for the window.
const REACTION: Duration = Duration::from_millis(5);
/// Minimum length of a frame's last part that fills a segment (Ethernet's MSS with timestamps).
const SEGMENT: u64 = 1448;
/// Error of timestamps on one path.
const JITTER: Duration = Duration::from_micros(500);

/// Flow-control state of a connection, by sender of the data.
#[derive(Debug)]
pub(in super::super) struct Multiplex {
    senders: PerSide<Sender>,
    pub(super) requests: Requests,
    /// Number of open exchanges that ended since some were handed out.
    pub(in super::super) ended: usize,
}

/// Data of one side, and what its peer allows it to send.
#[derive(Debug)]
struct Sender {
    /// The connection's window.
    connection: Window,
    /// The initial window of each stream.
    initial: i64,
    /// Updates that the peer has sent: the time at which they reach the sender, the stream (0 for
    /// the whole connection), and the number of bytes.
    credits: VecDeque<(Timestamp, u32, i64)>,
    /// The last stretch in which the connection's window held all streams back, and the packet with
    /// which data continued: its other frames were held back too.
    stall: Option<((Timestamp, Timestamp), u64)>,
}

/// A window as its sender knows it, relative to its initial size.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    given: i64,
    used: i64,
    /// End of the last data, and the total of the updates received by then.
    spent: Option<(Timestamp, i64)>,
    /// The first update since then.
    released: Option<Timestamp>,
}

/// The state of an exchange on a connection that carries several in parallel.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Multiplexed {
    stream: u32,
    /// The flow-control windows for each side's data.
    windows: PerSide<Window>,
    /// The gRPC messages of each side, and the stretches between them; `None` if the stream is not
    /// known to carry gRPC.
    pub(super) messages: Option<PerSide<Talk>>,
    /// Stretches between the messages of one side, in which it owed nothing.
    pub(in super::super) rests: Vec<Stretch>,
    /// Stretches in which one side was held back by the other's windows.
    pub(in super::super) held: Vec<HeldSpan>,
}

impl Multiplexed {
    pub(super) fn of(stream: u32) -> Option<Box<Self>> {
        let it = Self {
            stream,
            ..Self::default()
        };
        Some(Box::new(it))
    }

    pub(super) fn id(&self) -> u32 {
        self.stream
    }

    /// Returns the memory of the stretches, in bytes.
    pub(in super::super) fn held_bytes(&self) -> usize {
        self.held.capacity() * size_of::<HeldSpan>() + self.rests.capacity() * size_of::<Stretch>()
    }

    /// Returns the window for what one side may still send.
    fn window(&mut self, by: Side) -> &mut Window {
        self.windows.get_mut(by)
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
    /// Records that `bytes` were used, and that nothing more was sent since.
    fn use_up(&mut self, bytes: i64, since: Timestamp) {
        self.used = self.used.saturating_add(bytes);
        self.spent = Some((since, self.given));
        self.released = None;
    }

    fn give(&mut self, bytes: i64, at: Timestamp) {
        self.given = self.given.saturating_add(bytes);
        let is_later = self.spent.is_some_and(|(since, _)| at + JITTER >= since);
        self.released = self.released.or(Some(at).filter(|_| is_later));
    }

    /// Returns the start and end of the time in which `bytes` had no room; `None` if they had room.
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
            senders: PerSide::default(),
            requests: Requests::default(),
            ended: 0,
        }
    }

    /// Notes that the connection's earlier frames were not seen.
    pub(super) fn join(&mut self) {
        self.requests.join();
    }

    /// Forgets what missed frames may have changed: windows and the streams that are open. The
    /// settings remain.
    pub(super) fn lose(&mut self) {
        for by in [Side::Client, Side::Server] {
            let sender = self.sender(by);
            *sender = Sender {
                initial: sender.initial,
                ..Sender::default()
            };
        }
        self.requests.lose();
    }

    /// Returns the memory of the state, in bytes.
    pub(in super::super) fn held_bytes(&self) -> usize {
        let senders = [&self.senders.client, &self.senders.server];
        let credits = senders.map(|sender| sender.credits.capacity());
        size_of::<Self>() + credits.iter().sum::<usize>() * size_of::<(Timestamp, u32, i64)>()
    }

    fn sender(&mut self, by: Side) -> &mut Sender {
        self.senders.get_mut(by)
    }
}

impl Pairing {
    /// Takes in a window update: the peer of a sender allows it more, once the update has reached
    /// the sender.
    pub(super) fn window_update(
        &mut self,
        by: Side,
        frame: FrameHeader,
        bytes: u32,
        packet: &PacketKey,
        view: &View<'_>,
    ) {
        let trip = match by {
            Side::Client => view.to_server(),
            Side::Server => view.to_client(),
        };
        let reaches = packet.at + trip.floor().unwrap_or_default();
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

    /// Takes in the settings of one side: a new initial window of its peer's data also applies to
    /// open streams (RFC 9113 §6.9.2).
    pub(super) fn settings(&mut self, by: Side, settings: Settings) {
        let Some(multiplex) = &mut self.multiplex else {
            return;
        };
        if let Some(bytes) = settings.initial_window {
            multiplex.sender(by.peer()).initial = i64::from(bytes);
        }
        if by == Side::Server {
            multiplex.requests.allow(settings.most_streams);
        }
    }

    /// Records that data of a stream begins, and whether it could have been sent sooner if the
    /// windows had had room before an update.
    pub(super) fn data_began(&mut self, by: Side, frame: FrameHeader, packet: &PacketKey) {
        let Some(mut multiplex) = self.multiplex.take() else {
            return;
        };
        let sender = multiplex.sender(by);
        self.apply_credits(by, sender, packet.at + JITTER);
        let length = i64::from(frame.length);
        if let Some(held) = sender.connection.held(INITIAL_WINDOW, length) {
            sender.stall = Some((held, packet.number));
        }
        let with_all = sender.stall.filter(|&(_, number)| number == packet.number);
        let initial = sender.initial;
        let is_unsure = multiplex.requests.is_torn();
        self.multiplex = Some(multiplex);
        let Some(draft) = self.stream(frame.stream) else {
            return;
        };
        let begin = draft.first.at;
        let Some(multiplexed) = &mut draft.multiplexed else {
            return;
        };
        let held = multiplexed.window(by).held(initial, length);
        let held = held.or(with_all.map(|(held, _)| held));
        // Updates may have been among the frames that the capture lacks.
        let Some((spent, released)) = held.filter(|_| !is_unsure) else {
            return;
        };
        let spent = spent.max(begin);
        let until = if packet.at <= released + REACTION {
            packet.at
        } else {
            released
        };
        if until > spent && multiplexed.held.len() < MAX_HELD {
            multiplexed.held.push(HeldSpan {
                from: spent,
                until,
                by: by.peer(),
                released: packet.number,
            });
        }
    }

    /// Credits a sender with the updates that have reached it by `until`.
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

    /// Returns the time since which a sender was not allowed to send more; its frame ended at
    /// `offset` in `packet`. If the frame's last part does not fill a segment, it was written
    /// together with the data before it, and the time is that of the preceding segment.
    fn spent_since(&self, by: Side, offset: u64, packet: &PacketKey) -> Timestamp {
        let is_tail = offset.saturating_sub(packet.start) < SEGMENT;
        let mut earlier = self.packets.as_slice().iter().rev();
        let before = earlier
            .find(|other| other.by == by && other.data.is_some() && other.number != packet.number);
        before
            .filter(|_| is_tail)
            .map_or(packet.at, |before| before.at.min(packet.at))
    }

    /// Records that data of a stream ended, which used up its windows.
    pub(super) fn data_ended(
        &mut self,
        by: Side,
        frame: FrameHeader,
        offset: u64,
        packet: &PacketKey,
    ) {
        let since = self.spent_since(by, offset, packet);
        let Some(mut multiplex) = self.multiplex.take() else {
            return;
        };
        let sender = multiplex.sender(by);
        let length = i64::from(frame.length);
        sender.connection.use_up(length, since);
        if let Some(window) = self.window(frame.stream, by) {
            window.use_up(length, since);
        }
        self.multiplex = Some(multiplex);
    }
}

impl Draft {}
