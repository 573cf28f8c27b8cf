//! Packets on the path between the captures: their delays and losses.

use std::collections::BTreeMap;

use super::Recognised;
use super::sighting::Sighting;
use crate::observed::flow::Direction;
use crate::observed::segment::TcpFlags;
use crate::observed::time::Timestamp;
use crate::report::{Figures, Way};
use crate::stats::histogram::Distribution;

/// The passage of a packet from one capture to the other, on the clock of the client's capture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossing {
    pub(super) to_server: bool,
    /// Time at which the capture near its sender saw the packet.
    pub(super) sent: Timestamp,
    /// Time at which the other capture saw the packet.
    pub(super) arrived: Timestamp,
    /// Time at which the packet's bytes were first sent, if all earlier copies were lost.
    pub(super) first_sent: Timestamp,
}

/// All crossings of each connection, sorted by arrival.
pub(super) type Crossings = BTreeMap<u32, Vec<Crossing>>;

/// The capture at one end, as the sender or the receiver of packets.
struct End<'a> {
    joined: &'a Recognised,
    is_near: bool,
}

impl<'a> End<'a> {
    /// Returns the end that sends packets to the server if `to_server` is true, otherwise the one
    /// that sends to the client.
    fn sender(joined: &'a Recognised, to_server: bool) -> Self {
        let is_near = to_server;
        Self { joined, is_near }
    }

    fn sightings(&self) -> &'a [Sighting] {
        if self.is_near {
            &self.joined.near().sightings
        } else {
            &self.joined.far().sightings
        }
    }

    /// Returns true if the packet goes to the server, and the near capture's flow of its
    /// connection. `None` for connections that are only in this capture.
    fn of(&self, sighting: &Sighting) -> Option<(bool, u32)> {
        let view = if self.is_near {
            self.joined.near()
        } else {
            self.joined.far()
        };
        let to_server = view.flow(sighting.flow)?.client() == sighting.direction;
        let flow = if self.is_near {
            Some(sighting.flow).filter(|&flow| self.joined.matched.has_near(flow))
        } else {
            self.joined.matched.near_flow(sighting.flow)
        };
        Some((to_server, flow?))
    }

    /// Returns the same packet in the other capture.
    fn counterpart(&self, index: u32) -> Option<&'a Sighting> {
        let joined = self.joined;
        if self.is_near {
            joined.far().sighting(joined.matched.far_of(index)?)
        } else {
            joined.near().sighting(joined.matched.near_of(index)?)
        }
    }

    fn instant(&self, sighting: &Sighting) -> Timestamp {
        self.joined.instant(sighting, self.is_near)
    }

    fn instant_there(&self, sighting: &Sighting) -> Timestamp {
        self.joined.instant(sighting, !self.is_near)
    }
}

/// The outcome of earlier copies of retransmitted bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copies {
    /// No earlier copy arrived. Contains the time at which the first copy was sent.
    Lost(Timestamp),
    /// An earlier copy had arrived.
    Arrived,
}

/// Returns all packets that are in both captures.
pub(super) fn crossings(joined: &Recognised) -> Crossings {
    let mut crossings = Crossings::new();
    for to_server in [true, false] {
        let sender = End::sender(joined, to_server);
        let receiver = End {
            joined,
            is_near: !sender.is_near,
        };
        let again = sent_again(joined, to_server);
        for (index, sighting) in (0..).zip(receiver.sightings()) {
            let Some((_, flow)) = receiver.of(sighting).filter(|&(way, _)| way == to_server) else {
                continue;
            };
            let Some(origin) = receiver.counterpart(index) else {
                continue;
            };
            let sent = sender.instant(origin);
            let copies = again.get(&(flow, sent));
            crossings.entry(flow).or_default().push(Crossing {
                to_server,
                sent,
                arrived: receiver.instant(sighting),
                first_sent: match copies {
                    Some(&Copies::Lost(first)) => first,
                    _ => sent,
                },
            });
        }
    }
    for list in crossings.values_mut() {
        list.sort_by_key(|crossing| (crossing.arrived, crossing.sent));
    }
    crossings
}

/// Returns the retransmitted packets, by connection and time of sending.
fn sent_again(joined: &Recognised, to_server: bool) -> BTreeMap<(u32, Timestamp), Copies> {
    let sender = End::sender(joined, to_server);
    // The first time at which a segment was sent, and true if it arrived, by the segment's
    // position.
    let mut first: BTreeMap<(u32, Direction, i64), (Timestamp, bool)> = BTreeMap::new();
    let mut again = BTreeMap::new();
    for (index, sighting) in (0..).zip(sender.sightings()) {
        let Some((_, flow)) = sender.of(sighting).filter(|&(way, _)| way == to_server) else {
            continue;
        };
        if !sighting.is_reliable() {
            continue;
        }
        let sent = sender.instant(sighting);
        let has_arrived = sender.counterpart(index).is_some();
        let stream = (flow, sighting.direction);
        if sighting.is_repeat {
            // The earlier packet that contains the segment's first byte.
            let upto = (stream.0, stream.1, sighting.position);
            let from = (stream.0, stream.1, i64::MIN);
            if let Some((_, &(begun, arrived))) = first.range(from..=upto).next_back() {
                let copies = if arrived {
                    Copies::Arrived
                } else {
                    Copies::Lost(begun)
                };
                again.insert((flow, sent), copies);
            }
        }
        let key = (stream.0, stream.1, sighting.position);
        let entry = first.entry(key).or_insert((sent, false));
        entry.1 |= has_arrived;
    }
    again
}

/// Returns the delays and the losses of one direction.
pub(super) fn way(joined: &Recognised, crossings: &Crossings, to_server: bool) -> Way {
    let mut delays = Distribution::default();
    let its = |crossing: &&Crossing| crossing.to_server == to_server;
    for crossing in crossings.values().flatten().filter(its) {
        delays.record(crossing.arrived.since(crossing.sent));
    }
    let again = sent_again(joined, to_server);
    let lost = |copies: &&Copies| matches!(copies, Copies::Lost(_));
    let lost = again.values().filter(lost).count() as u64;
    Way {
        direction: if to_server {
            "client-to-server"
        } else {
            "server-to-client"
        }
        .to_owned(),
        delay_ns: Figures::from(&delays),
        lost,
        needless: again.len() as u64 - lost,
        acks_lost: acks_lost(joined, to_server),
    }
}

/// Counts bare acknowledgements that did not arrive although the other capture was running.
fn acks_lost(joined: &Recognised, to_server: bool) -> u64 {
    let sender = End::sender(joined, to_server);
    let there = if sender.is_near {
        joined.far()
    } else {
        joined.near()
    };
    let last = there
        .sightings
        .iter()
        .map(|s| sender.instant_there(s))
        .max();
    let first = there
        .sightings
        .iter()
        .map(|s| sender.instant_there(s))
        .min();
    let (Some(first), Some(last)) = (first, last) else {
        return 0;
    };
    let is_lost = |(index, sighting): &(u32, &Sighting)| {
        let is_bare = !sighting.is_reliable() && sighting.flags & TcpFlags::RST.0 == 0;
        let sent = sender.instant(sighting);
        is_bare
            && sender.of(sighting).is_some_and(|(way, _)| way == to_server)
            && sender.counterpart(*index).is_none()
            && (first..=last).contains(&sent)
    };
    (0..).zip(sender.sightings()).filter(is_lost).count() as u64
}
