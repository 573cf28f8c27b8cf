//! Data that its receiver never acknowledged, however often it was retransmitted.

use core::time::Duration;

use super::{Closed, Connection};
use crate::exchange::Side;
use crate::observed::flow::{Direction, Endpoint};
use crate::observed::packet::PacketRange;

/// Minimum number of retransmissions of the same bytes: the first may be a probe, and a capture may
/// end during the second.
const LEAST_REPEATS: u32 = 3;
/// Minimum time from the first retransmission to the last: quicker retransmissions do not come from
/// a timer.
const LEAST_TIME: Duration = Duration::from_secs(1);

/// The end of a connection on which one side fell silent while the other retransmitted its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeadPeer {
    /// The address and port of the service.
    pub(crate) server: Endpoint,
    /// The side that retransmitted its data.
    pub(crate) sender: Side,
    /// Number of retransmissions of the bytes that were retransmitted most often.
    pub(crate) repeats: u32,
    /// The time from the first of these retransmissions to the last.
    pub(crate) lasted: Duration,
    /// The first and the last packet of these retransmissions.
    pub(crate) packets: PacketRange,
}

impl Connection {
    /// Records that one side never acknowledged the other's data. A side that has sent a FIN or
    /// closed its window does not count.
    pub(super) fn note_dead_peer(&self, closed: &mut Closed) {
        for direction in [Direction::Forward, Direction::Backward] {
            let (half, peer) = (self.half(direction), self.half(direction.reverse()));
            let has_ended = peer.sequence.fin.is_some() || peer.zero_window.is_now;
            if !half.repeats.has_any() || has_ended {
                continue;
            }
            let Some(sender) = self.side(direction) else {
                continue;
            };
            let Some(run) = half.repeats.longest_unanswered(half.sequence.acked) else {
                continue;
            };
            let lasted = run.last.since(run.first);
            if run.count >= LEAST_REPEATS && lasted >= LEAST_TIME {
                let (_, server) = self.endpoints();
                closed.dead_peers.push(DeadPeer {
                    server,
                    sender,
                    repeats: run.count,
                    lasted,
                    packets: run.packets,
                });
            }
        }
    }
}
