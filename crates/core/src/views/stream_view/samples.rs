//! Round trips, bytes in flight and windows of one connection over time.

use core::time::Duration;

use crate::observed::flow::{Direction, PerDirection};
use crate::observed::segment::{Segment, TcpFlags};
use crate::observed::time::Timestamp;
use crate::views::tracker::Tracker;

/// Maximum number of samples of each kind and direction kept.
const MAX_SAMPLES: usize = 1 << 20;

/// Samples over time, for the sender of each direction.
#[derive(Debug, Default)]
pub struct Samples {
    tracker: Tracker,
    ways: PerDirection<WaySamples>,
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

impl Samples {
    /// Records the connection's next segment.
    pub fn observe_segment(&mut self, segment: &Segment) {
        self.learn_client(segment);
        let step = self.tracker.observe_segment(segment);
        let (own, peer) = self.ways.both_mut(segment.direction);
        if segment.sequence_len() > 0 {
            keep(&mut own.in_flight, (segment.at, step.in_flight[0]));
        }
        if let Some(took) = step.round_trip {
            keep(&mut peer.round_trips, (segment.at, took));
        }
        if step.is_ack_new {
            keep(&mut peer.in_flight, (segment.at, step.in_flight[1]));
        }
        if !segment.flags.contains(TcpFlags::RST) {
            let window = step.window.unwrap_or(segment.window.into());
            keep(&mut own.windows, (segment.at, window));
        }
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
}

fn keep<T>(list: &mut Vec<T>, sample: T) {
    if list.len() < MAX_SAMPLES {
        list.push(sample);
    }
}
