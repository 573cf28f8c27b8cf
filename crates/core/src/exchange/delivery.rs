//! Limits of a message while its bytes were sent.

use core::time::Duration;

use crate::exchange::Side;

/// A message that stood still while it was sent, and what held it back most.
///
/// Made only of what packets show at one point; a stop is named after what
/// ended it, as a wait is.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// The sender of the message.
    pub sender: Side,
    /// The limit that held most of it back.
    pub limit: Limit,
    /// Number of times that it stood still for that limit.
    pub stops: u32,
    /// Time for which it stood still for that limit.
    pub stopped: Duration,
    /// Time for which it stood still in all while its sender had more to send.
    pub held: Duration,
    /// The part of `held` by which its last byte was longer on its way than the way takes: the
    /// queue that it stood in, seen beside its sender.
    pub drain: Duration,
    /// The part of the standstill that slow start would have taken in any case.
    pub spared: Duration,
    /// The part of the stops for the congestion window that would have been spared had the
    /// connection kept the window that it had before its rest.
    pub kept_spared: Duration,
    /// The sum of the round trips from the point to both ends.
    pub round_trip: Duration,
    /// Length of the message, in bytes.
    pub bytes: u64,
    /// Number of segments that it was sent in, super-segments counted by their parts.
    pub segments: u64,
    /// Payload of a full segment.
    pub mss: u32,
    /// Bytes in flight at the first stop.
    pub first_in_flight: u64,
    /// Maximum number of bytes in flight at a stop.
    pub most_in_flight: u64,
    /// Maximum number of segments in flight at a stop.
    pub most_segments: u64,
    /// The receiver's window at the first and at the last stop that it caused.
    pub windows: [u64; 2],
    /// Number of times that the receiver closed its window altogether.
    pub zero_windows: u32,
    /// Bytes per second, where they came evenly.
    pub rate: Option<f64>,
    /// The time for which the connection had rested before its exchange began; `None`: its first
    /// one.
    pub rested: Option<Duration>,
    /// Maximum number of bytes in flight in the responses before it.
    pub earlier_in_flight: u64,
    /// True if any of its sender's data was sent again so far.
    pub has_losses: bool,
    /// True if its segments waited in a queue on their way.
    pub has_queue: bool,
    /// Pauses of the program's own, the first few.
    pub pauses: Vec<Pause>,
    /// Numbers of the packets of its longest stop: the last before, what released the next (0:
    /// nothing), the next.
    pub packets: [u64; 3],
}

/// The limit that held a message back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// The sender's program, and nothing else.
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
    /// Number of the message's bytes sent before it.
    pub after: u64,
    /// The time from the message's first byte to the end of the pause.
    pub until: Duration,
    /// Length of the pause.
    pub took: Duration,
    /// True if an acknowledgement met its end, by chance or not.
    pub meets_ack: bool,
}
