//! What sees every packet before flows are told apart.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use super::Sink;
use super::hosts::{Hosts, Sender};
use super::points::{Points, Vantages};
use super::ruler::Ruler;
use super::shard::{self, News, Tidings};
use super::stride::Strides;
use crate::facts::icmp_errors::{Told, Words};
use crate::observed::datagram::{Datagram, Neighbour};
use crate::observed::icmp::{Echo, IcmpError};
use crate::observed::segment::Segment;
use crate::preconnect::{Approach, Approaches, Asked, Silent};
use crate::report::Connections;
use crate::views::connections::{Collected, ConnectionSink};

/// Where all packets pass in their order, and what closed is told in it.
pub struct Entrance {
    shards: usize,
    /// Packets so far.
    packets: u64,
    points: Points,
    ruler: Ruler,
    strides: Strides,
    hosts: Hosts,
    /// What connections followed; the only place where flows meet.
    approaches: Approaches,
    /// Pings, and the ICMP errors about packets.
    words: Words,
    /// Connections one by one, if they are wanted.
    collected: Collected,
    sink: Option<Sink>,
    /// What is still to be told, in the order in which it happened.
    told: VecDeque<shard::Told>,
}

/// A segment's way in: which worker it belongs to, and what is to be known of
/// it that its flow alone does not say.
#[derive(Debug)]
pub struct Admission {
    shard: usize,
    /// Its number among all packets, from 1.
    pub(super) ordinal: u64,
    /// Wireshark's number of its connection, if that is wanted.
    pub(super) stream: Option<u32>,
    /// What came before, if it opens a connection.
    pub(super) approach: Option<Box<Approach>>,
    pub(super) sender: Sender,
}

impl Admission {
    /// The index of the worker that is to take the segment.
    pub fn shard(&self) -> usize {
        self.shard
    }
}

/// What it amounts to in the end.
pub(super) struct Seen {
    pub(super) points: Points,
    pub(super) resolvers: BTreeMap<IpAddr, Duration>,
    pub(super) silent: Vec<Silent>,
    pub(super) asked: Asked,
    pub(super) told: Told,
    pub(super) connections: Option<Connections>,
    /// True if the packets' times are of no clock.
    pub(super) is_drawn: bool,
    /// True if data of both ends came at one and the same distance.
    pub(super) is_at_one_pace: bool,
}

impl Entrance {
    pub(super) fn new(shards: usize, collected: Collected) -> Self {
        Self {
            shards,
            packets: 0,
            points: Points::default(),
            ruler: Ruler::default(),
            strides: Strides::default(),
            hosts: Hosts::default(),
            approaches: Approaches::default(),
            words: Words::default(),
            collected,
            sink: None,
            told: VecDeque::new(),
        }
    }

    pub(super) fn set_sink(&mut self, sink: Sink) {
        self.sink = Some(sink);
    }

    pub(super) fn set_connection_sink(&mut self, sink: ConnectionSink) {
        self.collected.set_sink(sink);
    }

    /// Packets that came by so far: the number of the last one.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// A TCP segment and as much of its payload as was captured.
    #[inline]
    pub fn segment(&mut self, segment: &Segment, payload: &[u8]) -> Admission {
        self.packets += 1;
        self.points.count(segment);
        self.ruler.take(segment.at);
        self.strides.take(segment);
        let approach = self.approaches.segment(segment, payload);
        let stream = if self.collected.is_wanted() {
            self.collected.number(segment)
        } else {
            None
        };
        let flow = segment.flow.tag();
        Admission {
            shard: flow.share(self.shards),
            ordinal: self.packets,
            stream,
            approach,
            sender: self.hosts.take(segment, flow),
        }
    }

    /// What a router or host says about a packet; the index of the worker that
    /// is to hear it.
    pub fn icmp(&mut self, error: &IcmpError) -> usize {
        self.packets += 1;
        self.collected.number_quoted(error);
        self.words.error(error);
        error.flow.share(self.shards)
    }

    /// A ping, its answer, or what is said about it.
    pub fn echo(&mut self, echo: &Echo) {
        self.packets += 1;
        self.words.echo(echo);
    }

    /// A UDP datagram and as much of its payload as was captured.
    pub fn datagram(&mut self, datagram: &Datagram, payload: &[u8]) {
        self.packets += 1;
        self.words.datagram(datagram);
        self.approaches.datagram(datagram, payload);
        for flow in self.collected.datagram(datagram, payload) {
            self.told.push_back(shard::Told {
                ordinal: self.packets,
                news: News::Quic(flow),
            });
        }
    }

    /// A step of the search for a hardware address.
    pub fn neighbour(&mut self, step: &Neighbour) {
        self.packets += 1;
        self.approaches.neighbour(step);
    }

    /// Hears what a worker has to tell. All are to be heard of the same packets
    /// before that is delivered.
    pub fn gather(&mut self, Tidings(told): Tidings) {
        self.hear(told);
    }

    pub(super) fn hear(&mut self, told: impl IntoIterator<Item = shard::Told>) {
        let before = self.told.len();
        self.told.extend(told);
        if self.told.len() > before {
            self.told.make_contiguous().sort_by_key(|told| told.ordinal);
        }
    }

    /// Tells what closed up to packet `last`, in the order in which it did.
    pub fn deliver(&mut self, last: u64) {
        while self.told.front().is_some_and(|told| told.ordinal <= last) {
            match self.told.pop_front().map(|told| told.news) {
                Some(News::Exchange(exchange)) => {
                    if let Some(sink) = &mut self.sink {
                        sink(&exchange);
                    }
                }
                Some(News::Connection(watched)) => self.collected.take(watched),
                Some(News::Quic(flow)) => self.collected.take_quic(flow),
                None => {}
            }
        }
    }

    /// What it amounts to so far, connections one by one aside.
    pub(super) fn so_far(&self, vantages: Vantages) -> Seen {
        let mut points = self.points.clone();
        points.finish(vantages);
        Seen {
            points,
            resolvers: self.approaches.resolvers(),
            silent: self.approaches.silent(),
            asked: self.approaches.asked(),
            told: self.words.told(),
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
            asked: self.approaches.asked(),
            told: self.words.told(),
            connections: self.collected.finish(),
            is_drawn: self.ruler.is_even(),
            is_at_one_pace: self.strides.are_even(),
        }
    }
}

impl core::fmt::Debug for Entrance {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Entrance")
            .field("packets", &self.packets)
            .finish_non_exhaustive()
    }
}
