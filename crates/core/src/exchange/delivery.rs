//! Limits that held a message back while it was sent.

use core::time::Duration;

use crate::exchange::Side;
use crate::observed::packet::PacketNumber;

/// A message that stalled while it was sent, and the limit that held it back most.
///
/// Derived only from packets seen at one observation point. Each stall is attributed to the event
/// that ended it, as waits are.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// The sender of the message.
    pub sender: Side,
    /// The limit that accounts for most of the stalled time.
    pub limit: Limit,
    /// Number of times that the message stalled because of that limit.
    pub stops: u32,
    /// Times for which the message stalled.
    pub stalled: StallTimes,
    /// The sum of the round trips from the observation point to both ends.
    pub round_trip: Duration,
    /// Size of the message.
    pub size: MessageSize,
    /// Data in flight at the stops.
    pub in_flight: InFlight,
    /// The receiver's windows.
    pub windows: ReceiverWindows,
    /// Bytes per second, if they came at a constant rate.
    pub rate: Option<f64>,
    /// Bytes per second at which segments that had waited in a queue followed each other (median), if
    /// the message's own rate was uneven.
    pub burst_rate: Option<f64>,
    /// The time for which the connection had been idle before the exchange began; `None` for its
    /// first exchange.
    pub rested: Option<Duration>,
    /// True if any of the sender's data was retransmitted so far.
    pub has_losses: bool,
    /// True if the message's segments waited in a queue on the path.
    pub has_queue: bool,
    /// The first few pauses of the program itself.
    pub pauses: Vec<Pause>,
    /// The packets around the longest stop.
    pub packets: StopPackets,
}

/// Times for which a message stalled although its sender had more to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallTimes {
    /// Time for which the limit that accounts for most of the stalls stopped the message.
    pub stopped: Duration,
    /// Time of the stops during which the receiver's window was closed completely.
    pub shut: Duration,
    /// Total time for which the message stalled.
    pub held: Duration,
    /// The longest pause of the program itself.
    pub longest_pause: Duration,
    /// Number of pauses of the program itself.
    pub pauses: u32,
    /// The part of `held` for which the last byte was in transit beyond the path's own time: it
    /// waited in a queue, as seen at the sender.
    pub drain: Duration,
    /// The part of the stalled time that slow start would have taken in any case.
    pub spared: Duration,
    /// The part of the stops for the congestion window that would have been avoided if the
    /// connection had kept its window from before the idle period.
    pub kept_spared: Duration,
}

/// Size of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageSize {
    /// Length of the message, in bytes.
    pub bytes: u64,
    /// Number of segments in which the message was sent; super-segments count as their parts.
    pub segments: u64,
    /// Payload of a full segment.
    pub mss: u32,
}

/// Data in flight at the stops of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFlight {
    /// Bytes in flight at the first stop.
    pub first: u64,
    /// Maximum number of bytes in flight at a stop.
    pub most: u64,
    /// Maximum number of segments in flight at a stop.
    pub most_segments: u64,
    /// Maximum number of bytes in flight in earlier responses.
    pub earlier: u64,
}

/// The receiver's windows during a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverWindows {
    /// The window at the first stop caused by it while it was open, in bytes.
    pub first: u64,
    /// The window at the last stop caused by it while it was open, in bytes.
    pub last: u64,
    /// Number of times that the receiver closed its window completely.
    pub zero: u32,
}

/// Packet numbers around a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StopPackets {
    /// The last packet before the stop.
    pub before: u64,
    /// The packet that ended the stop, if there was one.
    pub release: Option<PacketNumber>,
    /// The sender's next packet.
    pub next: u64,
}

impl StopPackets {
    /// Returns the numbers of the packets in time order.
    pub(crate) fn numbers(self) -> Vec<u64> {
        let release = self.release.map(PacketNumber::get);
        [Some(self.before), release, Some(self.next)]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// The limit that held a message back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// The sender's program alone.
    Program,
    /// The sender's congestion window (RFC 5681 §3.1).
    CongestionWindow,
    /// The receiver's window (RFC 9293 §3.8.6).
    ReceiveWindow,
    /// The sender's socket buffer.
    SendBuffer,
    /// The sender's kernel, which spaces segments to a rate.
    Pacing,
    /// A queue that drains at a constant rate, on the path or before it.
    Bottleneck,
}

/// A pause made by the sender's program within a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Number of the message's bytes sent before the pause.
    pub after: u64,
    /// The time from the message's first byte to the end of the pause.
    pub until: Duration,
    /// Length of the pause.
    pub took: Duration,
    /// The part of the pause after the sender learned that all of its bytes had been acknowledged;
    /// `None` if the capture does not show when that was.
    pub idle: Option<Duration>,
    /// True if an acknowledgement coincided with the pause's end, by chance or not.
    pub meets_ack: bool,
}
