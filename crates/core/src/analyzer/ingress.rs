//! The ingress, which sees all packets before they are separated by flow.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use foldhash::fast::SeedableRandomState;

use super::Sink;
use super::closed::{ClosedBatch, ClosedItem, ClosedRecord};
use super::hosts::{Sender, SendingHosts};
use super::local::LocalAddresses;
use super::peers::Peers;
use super::points::{ObservationPoints, Vantages};
use super::ruler::Ruler;
use super::stride::Strides;
use crate::facts::icmp_errors::{IcmpTotals, Words};
use crate::observed::datagram::{Datagram, Neighbour};
use crate::observed::event::PointId;
use crate::observed::flow::Direction;
use crate::observed::icmp::{Echo, IcmpError};
use crate::observed::segment::Segment;
use crate::preconnect::{Approach, Approaches, SeenLookups, Silent};
use crate::report::Connections;
use crate::views::connections::{Collected, ConnectionSink};
use crate::views::picture::SegmentStore;

/// The part of the analyzer that sees all packets in order. It passes on closed exchanges and
/// connections in the same order.
pub struct Ingress {
    shards: usize,
    /// Number of packets so far.
    packets: u64,
    points: ObservationPoints,
    ruler: Ruler,
    strides: Strides,
    hosts: SendingHosts,
    local: LocalAddresses,
    peers: Peers,
    /// The lookups and other steps before connections. This is the only state that flows share.
    approaches: Approaches,
    /// Pings, and ICMP errors about packets.
    words: Words,
    /// The individual connections, if their figures are requested.
    collected: Collected,
    /// The segments from which the picture's packets are drawn, if they cannot be read again.
    pub(super) kept: Option<Box<SegmentStore>>,
    sink: Option<Sink>,
    /// Exchanges and connections still to be delivered, in the order in which they closed.
    undelivered: VecDeque<ClosedRecord>,
}

/// A segment's assignment to a worker, and facts about the segment that its own flow does not show.
#[derive(Debug)]
pub struct Routed {
    shard: usize,
    /// The segment's number among all packets, from 1.
    pub(super) ordinal: u64,
    /// Wireshark's index of the segment's connection (`tcp.stream`), if it is requested.
    pub(super) stream: Option<u32>,
    /// The steps before the connection, if the segment opens one.
    pub(super) approach: Option<Box<Approach>>,
    /// The direction in which the client sends, if only the peers of both ends show it.
    pub(super) client: Option<Direction>,
    pub(super) sender: Sender,
}

impl Routed {
    /// Returns the index of the worker that must process the segment.
    pub fn shard(&self) -> usize {
        self.shard
    }
}

/// The totals of an ingress at the end.
pub(super) struct Seen {
    pub(super) points: ObservationPoints,
    pub(super) resolvers: BTreeMap<IpAddr, Duration>,
    pub(super) silent: Vec<Silent>,
    pub(super) asked: SeenLookups,
    /// The addresses of the host whose kernel captured the packets, as far as it says so.
    pub(super) local: BTreeSet<(PointId, IpAddr)>,
    pub(super) icmp: IcmpTotals,
    pub(super) connections: Option<Connections>,
    /// True if the packets' timestamps are artificial, not from a clock.
    pub(super) is_drawn: bool,
    /// True if data of both ends arrived at the same constant interval.
    pub(super) is_at_one_pace: bool,
}

impl Ingress {
    pub(super) fn new(shards: usize, collected: Collected, hasher: SeedableRandomState) -> Self {
        Self {
            shards,
            packets: 0,
            points: ObservationPoints::default(),
            ruler: Ruler::default(),
            strides: Strides::default(),
            hosts: SendingHosts::default(),
            local: LocalAddresses::default(),
            peers: Peers::new(hasher),
            approaches: Approaches::default(),
            words: Words::default(),
            collected,
            kept: None,
            sink: None,
            undelivered: VecDeque::new(),
        }
    }

    pub(super) fn set_sink(&mut self, sink: Sink) {
        self.sink = Some(sink);
    }

    pub(super) fn set_connection_sink(&mut self, sink: ConnectionSink) {
        self.collected.set_sink(sink);
    }

    /// Returns the number of packets seen so far, which is also the last packet's number.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Processes a TCP segment and the captured part of its payload.
    #[inline]
    pub fn segment(&mut self, segment: &Segment, payload: &[u8]) -> Routed {
        self.packets += 1;
        if let Some(kept) = &mut self.kept {
            kept.observe_segment(segment);
        }
        self.points.count(segment);
        self.local.observe(
            segment.point,
            segment.flow.sender(segment.direction),
            segment.ip.sent_by,
        );
        self.ruler.observe(segment.at);
        self.strides.observe(segment);
        let approach = self.approaches.segment(segment, payload);
        let stream = if self.collected.is_wanted() {
            self.collected.number(segment)
        } else {
            None
        };
        let flow = segment.flow.tag();
        Routed {
            shard: flow.share(self.shards),
            ordinal: self.packets,
            stream,
            approach,
            client: self.peers.observe(segment),
            sender: self.hosts.observe(segment, flow),
        }
    }

    /// Processes an ICMP error about a packet. Returns the index of the worker to which it must be
    /// passed.
    pub fn icmp(&mut self, error: &IcmpError) -> usize {
        self.packets += 1;
        self.collected.number_quoted(error);
        self.words.error(error);
        error.flow.share(self.shards)
    }

    /// Processes a ping, a ping reply, or an ICMP error about a ping.
    pub fn echo(&mut self, echo: &Echo) {
        self.packets += 1;
        self.words.echo(echo);
    }

    /// Processes a UDP datagram and the captured part of its payload.
    pub fn datagram(&mut self, datagram: &Datagram, payload: &[u8]) {
        self.packets += 1;
        self.words.datagram(datagram);
        self.local.observe(
            datagram.point,
            datagram.flow.sender(datagram.direction),
            datagram.sent_by,
        );
        self.approaches.datagram(datagram, payload);
        for flow in self.collected.datagram(datagram, payload) {
            self.undelivered.push_back(ClosedRecord {
                ordinal: self.packets,
                item: ClosedItem::Quic(flow),
            });
        }
    }

    /// Processes a step of the resolution of a hardware address.
    pub fn neighbour(&mut self, step: &Neighbour) {
        self.packets += 1;
        self.approaches.neighbour(step);
    }

    /// Collects a worker's results. The results of all workers for the same packets must be
    /// gathered before they are delivered.
    pub fn gather(&mut self, ClosedBatch(records): ClosedBatch) {
        self.queue(records);
    }

    pub(super) fn queue(&mut self, records: impl IntoIterator<Item = ClosedRecord>) {
        let before = self.undelivered.len();
        self.undelivered.extend(records);
        if self.undelivered.len() > before {
            self.undelivered
                .make_contiguous()
                .sort_by_key(|record| record.ordinal);
        }
    }

    /// Passes the exchanges and connections that closed up to packet `last` to the sinks, in the
    /// order of closing.
    pub fn deliver(&mut self, last: u64) {
        while self
            .undelivered
            .front()
            .is_some_and(|record| record.ordinal <= last)
        {
            match self.undelivered.pop_front().map(|record| record.item) {
                Some(ClosedItem::Exchange(exchange)) => {
                    if let Some(sink) = &mut self.sink {
                        sink(&exchange);
                    }
                }
                Some(ClosedItem::Connection(watched)) => self.collected.add_connection(watched),
                Some(ClosedItem::Quic(flow)) => self.collected.take_quic(flow),
                None => {}
            }
        }
    }

    /// Returns the totals so far, without individual connections.
    pub(super) fn so_far(&self, vantages: Vantages) -> Seen {
        let mut points = self.points.clone();
        points.finish(vantages);
        Seen {
            points,
            resolvers: self.approaches.resolvers(),
            silent: self.approaches.silent(),
            asked: self.approaches.asked(&self.local.own()),
            local: self.local.own(),
            icmp: self.words.totals(),
            connections: None,
            is_drawn: self.ruler.is_even(),
            is_at_one_pace: self.strides.are_even(),
        }
    }

    pub(super) fn finish(mut self, vantages: Vantages) -> Seen {
        self.points.finish(vantages);
        Seen {
            points: self.points,
            resolvers: self.approaches.resolvers(),
            silent: self.approaches.silent(),
            asked: self.approaches.asked(&self.local.own()),
            local: self.local.own(),
            icmp: self.words.totals(),
            connections: self.collected.finish(),
            is_drawn: self.ruler.is_even(),
            is_at_one_pace: self.strides.are_even(),
        }
    }
}

impl core::fmt::Debug for Ingress {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Ingress")
            .field("packets", &self.packets)
            .finish_non_exhaustive()
    }
}
