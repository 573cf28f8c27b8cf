//! Segments that were lost, overtaken or duplicated.

use core::time::Duration;

use super::{Drops, Side, Vacant};

/// Segments of an exchange that were lost, overtaken or duplicated.
#[derive(Clone, Debug, Default)]
pub struct Loss {
    /// Losses repaired within the exchange.
    pub recoveries: Vec<Recovery>,
    /// Segments that arrived out of order or more than once.
    pub disorder: Disorder,
    /// Full segments of the response that never get through, if there are any.
    pub mtu: Option<MtuLoss>,
    /// Bytes of the exchange's messages that got through and bytes that were lost, by time, if more
    /// than one segment was lost.
    pub drops: Option<Box<Drops>>,
}

impl Vacant for Loss {
    const NOTHING: &'static Self = &Self {
        recoveries: Vec::new(),
        disorder: Disorder::NONE,
        mtu: None,
        drops: None,
    };
}

/// A repaired loss, and the mechanism that repaired it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The side whose data was lost.
    pub sender: Side,
    /// The way in which the loss was noticed.
    pub mechanism: RecoveryMechanism,
    /// True if a retransmission of the same bytes was lost before.
    pub again: bool,
    /// True if data that was sent later had revealed the loss to the receiver before it was
    /// repaired.
    pub(crate) is_revealed: bool,
    /// True if this may not have been a loss: only the sender's IP identifications indicate it, and
    /// no byte came twice or was missing; or the bytes were retransmitted before the receiver had
    /// to acknowledge them.
    pub(crate) is_doubtful: bool,
    /// Payload of the segment that repaired the loss.
    pub bytes: u32,
    /// Time that the loss cost the exchange.
    pub took: Duration,
    /// Number of the packet that repaired the loss.
    pub packet: u64,
}

/// The way in which a sender noticed a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecoveryMechanism {
    /// The sender's retransmission timer expired (RFC 6298), or a tail-loss probe's timer
    /// that was as long.
    Timeout,
    /// The sender received nothing for two round trips and retransmitted the last segment (RFC 8985
    /// §7).
    Probe,
    /// The receiver reported that it has later data (RFC 5681 §3.2, RFC 8985 §6).
    Fast,
}

/// A response whose large segments were lost every time, while smaller ones arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MtuLoss {
    /// Number of times that the first large segment was retransmitted at its size, if that can be
    /// seen.
    pub copies: u32,
    /// Payload of the smaller segments that arrived instead; 0: none.
    pub passed: u32,
    /// True if the receiver was heard meanwhile: neither it nor the path was gone.
    pub is_heard: bool,
    /// True if the segments were as large as the ends had agreed on.
    pub is_full: bool,
    /// Number of bytes that the server had sent, as its sequence numbers show, and that never came;
    /// 0 if the capture has what was lost.
    pub unseen: u64,
    /// Packet number of the last retransmission, of the first smaller segment, or of the server's
    /// last segment.
    pub packet: u64,
}

/// Segments that came out of order or more than once, none of them lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disorder {
    /// Segments that later ones overtook on the path.
    pub overtaken: u32,
    /// Segments retransmitted although an earlier copy arrived.
    pub resent: u32,
    /// Segments of the connection's earlier exchanges that were counted as lost there, but for
    /// which the receiver has since reported that the first copies had arrived too (D-SACK, RFC
    /// 2883).
    pub taken_back: u32,
    /// Segments that the path or the capture duplicated.
    pub copied: u32,
    /// The time for which data that had arrived waited for overtaken segments.
    pub took: Duration,
    /// The first packet of each kind.
    pub first_packets: DisorderPackets,
}

/// Number of the first packet of each kind of disorder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DisorderPackets {
    /// The first segment that later ones overtook.
    pub overtaken: Option<u64>,
    /// The first segment retransmitted although an earlier copy arrived.
    pub resent: Option<u64>,
    /// The first segment that the path or the capture duplicated.
    pub copied: Option<u64>,
}

impl Disorder {
    /// No segment was out of order or duplicated.
    pub(crate) const NONE: Self = Self {
        overtaken: 0,
        resent: 0,
        taken_back: 0,
        copied: 0,
        took: Duration::ZERO,
        first_packets: DisorderPackets {
            overtaken: None,
            resent: None,
            copied: None,
        },
    };

    pub(crate) fn overtook(&mut self, packet: u64, took: Duration) {
        self.overtaken += 1;
        self.took += took;
        self.first_packets.overtaken.get_or_insert(packet);
    }

    pub(crate) fn resent(&mut self, packet: u64) {
        self.resent += 1;
        self.first_packets.resent.get_or_insert(packet);
    }

    pub(crate) fn copied(&mut self, packet: u64) {
        self.copied += 1;
        self.first_packets.copied.get_or_insert(packet);
    }
}
