//! Packets kept for a while, one behind the other.

use std::ops::Range;

use lagtrace_core::decode::Packet;
use lagtrace_core::event::PointId;
use lagtrace_core::time::Timestamp;

/// Packets in their order, each with the place of its payload.
#[derive(Default)]
pub(super) struct Batch {
    packets: Vec<(Packet<'static>, Range<usize>)>,
    payloads: Vec<u8>,
}

impl Batch {
    /// Keeps a packet.
    pub(super) fn push(&mut self, packet: Packet<'_>) {
        let begin = self.payloads.len();
        let packet = match packet {
            Packet::Tcp(segment, payload) => {
                self.payloads.extend_from_slice(payload);
                Packet::Tcp(segment, &[])
            }
            Packet::Udp(header, payload) => {
                self.payloads.extend_from_slice(payload);
                Packet::Udp(header, &[])
            }
            Packet::Icmp(error) => Packet::Icmp(error),
            Packet::Neighbour(step) => Packet::Neighbour(step),
            Packet::Other => Packet::Other,
        };
        self.packets.push((packet, begin..self.payloads.len()));
    }

    /// Packet `index`.
    pub(super) fn at(&self, index: usize) -> Option<Packet<'_>> {
        let (packet, payload) = self.packets.get(index)?;
        Some(match packet {
            Packet::Tcp(segment, _) => Packet::Tcp(*segment, self.payloads.get(payload.clone())?),
            Packet::Udp(header, _) => Packet::Udp(*header, self.payloads.get(payload.clone())?),
            other => *other,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    /// How many bytes of payload are kept.
    pub(super) fn bytes(&self) -> usize {
        self.payloads.len()
    }

    /// Forgets all packets and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.packets.clear();
        self.payloads.clear();
    }
}

/// When a packet was seen; `None` for what bears on no flow.
pub(super) fn time_of(packet: &Packet<'_>) -> Option<Timestamp> {
    match packet {
        Packet::Tcp(segment, _) => Some(segment.at),
        Packet::Udp(header, _) => Some(header.at),
        Packet::Icmp(error) => Some(error.at),
        Packet::Neighbour(step) => Some(step.at),
        Packet::Other => None,
    }
}

/// The packet as another capture's: seen at another point, numbered on.
pub(super) fn moved<'a>(
    mut packet: Packet<'a>,
    points: impl Fn(PointId) -> PointId,
    numbers: u64,
) -> Packet<'a> {
    match &mut packet {
        Packet::Tcp(segment, _) => {
            segment.point = points(segment.point);
            segment.number += numbers;
        }
        Packet::Udp(header, _) => {
            header.point = points(header.point);
            header.number += numbers;
        }
        Packet::Icmp(error) => {
            error.point = points(error.point);
            error.number += numbers;
        }
        Packet::Neighbour(step) => {
            step.point = points(step.point);
            step.number += numbers;
        }
        Packet::Other => {}
    }
    packet
}
