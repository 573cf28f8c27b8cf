//! What limited a message while its bytes were sent.

use core::time::Duration;

use crate::exchange::Side;

/// A message that stood still while it was sent, and what held it back most.
///
/// Made only of what packets show at one point; a stop is named after what
/// ended it, as a wait is.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// Whose message it was.
    pub sender: Side,
    /// What held most of it back.
    pub limit: Limit,
    /// How often it stood still for that.
    pub stops: u32,
    /// How long it did so.
    pub stopped: Duration,
    /// How long it stood still in all while its sender had more to send.
    pub held: Duration,
    /// Of that, how much longer than the way takes its last byte was on it: the
    /// queue that it stood in, seen beside its sender.
    pub drain: Duration,
    /// The part of the standstill that slow start would have taken in any case.
    pub spared: Duration,
    /// Of the stops for the congestion window, what they would have taken had
    /// the connection kept the window that it had before its rest.
    pub kept_spared: Duration,
    /// From the point to both ends and back.
    pub round_trip: Duration,
    /// Its length, in bytes.
    pub bytes: u64,
    /// Segments that it was sent in, super-segments counted by their parts.
    pub segments: u64,
    /// Payload of a full segment.
    pub mss: u32,
    /// Bytes in flight at the first stop.
    pub first_in_flight: u64,
    /// Bytes in flight at most, at a stop.
    pub most_in_flight: u64,
    /// Segments in flight at most, at a stop.
    pub most_segments: u64,
    /// The receiver's window at the first and at the last stop that it caused.
    pub windows: [u64; 2],
    /// How often the receiver closed its window altogether.
    pub zero_windows: u32,
    /// Bytes a second, where they came evenly.
    pub rate: Option<f64>,
    /// How long the connection had rested before its exchange began; `None`:
    /// its first one.
    pub rested: Option<Duration>,
    /// Bytes in flight at most in the responses before it.
    pub earlier_in_flight: u64,
    /// Whether any of its sender's data was sent again so far.
    pub has_losses: bool,
    /// Whether its segments waited in a queue on their way.
    pub has_queue: bool,
    /// Its program's own pauses, the first few.
    pub pauses: Vec<Pause>,
    /// Packets of its longest stop: the last before, what released the next
    /// (0: nothing), the next.
    pub packets: [u64; 3],
}

/// What held a message back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// Nothing but its program.
    Program,
    /// The sender's congestion window (RFC 5681 §3.1).
    CongestionWindow,
    /// The receiver's window (RFC 9293 §3.8.6).
    ReceiveWindow,
    /// The sender's socket buffer.
    SendBuffer,
    /// The sender's kernel, which spaces segments to a rate.
    Pacing,
    /// A queue that drains at a constant rate, on the way or before it.
    Bottleneck,
}

/// A pause that its program made within a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Bytes of the message sent before it.
    pub after: u64,
    /// From the message's first byte to the end of the pause.
    pub until: Duration,
    /// How long it was.
    pub took: Duration,
    /// True if an acknowledgement met its end, by chance or not.
    pub meets_ack: bool,
}
