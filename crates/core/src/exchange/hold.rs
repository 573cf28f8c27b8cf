//! Small segments that Nagle's algorithm may hold.

use core::time::Duration;

use super::Side;
use crate::observed::packet::PacketNumber;

/// A small segment sent after another small one, and what released it.
///
/// Times are those at the sender, as far as they can be computed at the observation point: its own
/// timestamps minus the propagation between (RFC 896; `tcp_nagle_check()` in
/// `net/ipv4/tcp_output.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The sender of both segments.
    pub sender: Side,
    /// The event that released the second segment.
    pub release: HoldRelease,
    /// The time from the first segment to the second.
    pub held: Duration,
    /// The time that the receiver took to acknowledge the first segment, propagation excluded.
    pub ack_delay: Duration,
    /// The time from the acknowledgement's arrival at the sender to the second segment, in
    /// nanoseconds; negative if that segment had been sent already.
    pub reaction_ns: i64,
    /// True if so much was in flight that a full congestion window may have held the second segment
    /// too.
    pub(crate) is_crowded: bool,
    /// The packets that show the hold.
    pub packets: HoldPackets,
}

/// Packet numbers of a hold; `None` if no packet was captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HoldPackets {
    /// The first small segment.
    pub first: Option<PacketNumber>,
    /// The acknowledgement of the first segment.
    pub ack: Option<PacketNumber>,
    /// The second small segment.
    pub second: Option<PacketNumber>,
}

impl HoldPackets {
    /// Returns the numbers of the packets in time order.
    pub(crate) fn numbers(self) -> Vec<u64> {
        let packets = [self.first, self.ack, self.second].into_iter();
        packets.flatten().map(PacketNumber::get).collect()
    }
}

/// The event that released the second small segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HoldRelease {
    /// The acknowledgement of the first segment: the second left immediately after it arrived.
    Acknowledgement,
    /// Nothing: the second segment left while the first was unacknowledged, so Nagle's algorithm is
    /// off.
    Eager,
    /// The program, which wrote late: the second segment left some time after the acknowledgement.
    Program,
    /// The end of a hold that the sender's kernel measured, regardless of the packets.
    Timed,
    /// The program: the second segment left together with an acknowledgement by coincidence, and
    /// the sender's kernel saw the program write only then.
    Written,
}
