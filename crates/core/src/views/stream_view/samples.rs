//! Round trips, bytes in flight and windows of one connection over time.

use core::time::Duration;
use std::collections::VecDeque;

use crate::observed::flow::{Direction, PerDirection};
use crate::observed::segment::{Segment, TcpFlags};
use crate::observed::time::Timestamp;

/// Maximum number of samples of each kind and direction kept.
const MAX_SAMPLES: usize = 1 << 20;
/// Maximum number of unacknowledged segments remembered per direction.
const MAX_OUTSTANDING: usize = 1 << 16;

/// Samples over time, for the sender of each direction.
#[derive(Debug, Default)]
pub struct Samples {
    ways: PerDirection<Way>,
    client: Option<Direction>,
}

/// Samples over time, for the sender of one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaySamples {
    /// Round trips from the observation point to the receiver: the time of each acknowledgement,
    /// and the time since its segment. Retransmitted segments are excluded (RFC 6298 §3, Karn's
    /// algorithm).
    pub round_trips: Vec<(Timestamp, Duration)>,
    /// Bytes that were seen, and whose acknowledgement was not yet seen.
    pub in_flight: Vec<(Timestamp, u64)>,
    /// The window that the sender advertises to its peer: in bytes if the scaling is known,
    /// otherwise unscaled.
    pub windows: Vec<(Timestamp, u64)>,
}

#[derive(Debug, Default)]
struct Way {
    base: Option<u32>,
    sent: i64,
    acked: i64,
    /// The window scale that the sender offered; `None` before its SYN was seen.
    scale: Option<Option<u8>>,
    outstanding: VecDeque<(i64, Timestamp, bool)>,
    samples: WaySamples,
}

impl Samples {
    /// Records the connection's next segment.
    pub fn observe_segment(&mut self, segment: &Segment) {
        self.learn_client(segment);
        self.take_sequence(segment);
        if segment.flags.contains(TcpFlags::ACK) {
            self.take_ack(segment);
        }
        self.take_window(segment);
    }

    /// Returns the direction in which the client sends: that of the first SYN, or else that of the
    /// end with the higher port.
    pub fn client(&self) -> Direction {
        self.client.unwrap_or(Direction::Forward)
    }

    /// Returns the samples of the client as sender, then of the server as sender.
    pub fn finish(self) -> [WaySamples; 2] {
        let client = self.client();
        let PerDirection { forward, backward } = self.ways;
        let (forward, backward) = (forward.samples, backward.samples);
        match client {
            Direction::Forward => [forward, backward],
            Direction::Backward => [backward, forward],
        }
    }

    fn learn_client(&mut self, segment: &Segment) {
        let is_reply = segment.flags.contains(TcpFlags::SYN.with(TcpFlags::ACK));
        let (source, destination) = (
            segment.flow.source(segment.direction),
            segment.flow.destination(segment.direction),
        );
        let is_client = if segment.flags.contains(TcpFlags::SYN) {
            !is_reply
        } else {
            source.port >= destination.port
        };
        self.client.get_or_insert(if is_client {
            segment.direction
        } else {
            segment.direction.reverse()
        });
    }

    fn take_sequence(&mut self, segment: &Segment) {
        let own = self.ways.get_mut(segment.direction);
        let base = *own.base.get_or_insert(segment.seq);
        let start = own.position(base, segment.seq);
        let len = i64::from(segment.sequence_len());
        if len == 0 {
            return;
        }
        let end = start + len;
        if end > own.sent && start >= own.sent {
            if own.outstanding.len() < MAX_OUTSTANDING {
                own.outstanding.push_back((end, segment.at, true));
            }
        } else {
            // This is a retransmission, so an acknowledgement may be for either copy.
            let after = own.outstanding.partition_point(|&(its, ..)| its <= start);
            own.outstanding
                .range_mut(after..)
                .for_each(|sent| sent.2 = false);
        }
        own.sent = own.sent.max(end);
        let in_flight = u64::try_from(own.sent - own.acked).unwrap_or_default();
        keep(&mut own.samples.in_flight, (segment.at, in_flight));
    }

    fn take_ack(&mut self, segment: &Segment) {
        let peer = self.ways.get_mut(segment.direction.reverse());
        let Some(base) = peer.base else { return };
        let acked = peer.position(base, segment.ack);
        if acked <= peer.acked {
            return;
        }
        peer.acked = acked;
        let mut newest = None;
        while let Some(sent) = peer.outstanding.front().filter(|sent| sent.0 <= acked) {
            newest = Some(*sent);
            peer.outstanding.pop_front();
        }
        if let Some((_, at, true)) = newest {
            let took = segment.at.since(at);
            keep(&mut peer.samples.round_trips, (segment.at, took));
        }
        let in_flight = u64::try_from(peer.sent - peer.acked).unwrap_or_default();
        keep(&mut peer.samples.in_flight, (segment.at, in_flight));
    }

    fn take_window(&mut self, segment: &Segment) {
        let is_syn = segment.flags.contains(TcpFlags::SYN);
        let has_scale = |way: &&Way| way.scale.flatten().is_some();
        let is_scaled = self.ways.each().iter().all(has_scale);
        let own = self.ways.get_mut(segment.direction);
        if is_syn {
            own.scale = Some(segment.options.window_scale);
        }
        if segment.flags.contains(TcpFlags::RST) {
            return;
        }
        let shift = own.scale.flatten().filter(|_| is_scaled && !is_syn);
        let window = u64::from(segment.window) << shift.unwrap_or_default().min(14);
        keep(&mut own.samples.windows, (segment.at, window));
    }
}

impl Way {
    fn position(&self, base: u32, seq: u32) -> i64 {
        let sent = base.wrapping_add(self.sent as u32);
        self.sent + i64::from(seq.wrapping_sub(sent) as i32)
    }
}

fn keep<T>(list: &mut Vec<T>, sample: T) {
    if list.len() < MAX_SAMPLES {
        list.push(sample);
    }
}
