//! Connections one by one: which are wanted, their numbers, and the few with
//! the most of something.

use core::cmp::Reverse;
use core::fmt;
use core::hash::BuildHasher as _;
use std::collections::BTreeMap;

use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;

use crate::conclude::connection_record;
use crate::connection::Watched;
use crate::report::{ConnectionRecord, Connections};
use crate::segment::{Segment, TcpFlags};

/// Flows whose number is remembered; connections of later ones have none.
const MAX_FLOWS: usize = 1 << 20;

/// Receives every connection's record as it ends or is given up.
pub type ConnectionSink = Box<dyn FnMut(&ConnectionRecord) + Send>;

/// Which connections' facts are wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// How many the report lists at most; 0: none are collected.
    pub limit: usize,
    /// What they are to have most of.
    pub by: Key,
    /// How many observation points a capture file has room for, the points of
    /// one file following each other: numbers are a file's own. 0: all are of
    /// one.
    pub points_per_file: u16,
}

/// What connections are sorted by, the most first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Key {
    /// Time lost by its exchanges.
    #[default]
    Lost,
    /// Packets.
    Packets,
    /// Payload bytes.
    Bytes,
    /// First to last packet.
    Duration,
    /// Handshake.
    Handshake,
    /// Least round trips to both ends.
    RoundTrip,
    /// Packets sent again or late.
    Retransmissions,
    /// Time with a zero window.
    ZeroWindow,
    /// Requests.
    Exchanges,
    /// Begin: the earliest first.
    Start,
}

impl Key {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Lost,
        Self::Packets,
        Self::Bytes,
        Self::Duration,
        Self::Handshake,
        Self::RoundTrip,
        Self::Retransmissions,
        Self::ZeroWindow,
        Self::Exchanges,
        Self::Start,
    ];

    /// Its name, `round-trip`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Packets => "packets",
            Self::Bytes => "bytes",
            Self::Duration => "duration",
            Self::Handshake => "handshake",
            Self::RoundTrip => "round-trip",
            Self::Retransmissions => "retransmissions",
            Self::ZeroWindow => "zero-window",
            Self::Exchanges => "exchanges",
            Self::Start => "start",
        }
    }
}

/// Orders connections: the key, then the earlier and the lower first.
type Rank = Reverse<(u64, Reverse<(i64, u16, u64)>)>;

/// The connections collected so far.
pub(crate) struct Collected {
    wanted: Wanted,
    seen: u64,
    kept: BTreeMap<Rank, Watched>,
    files: BTreeMap<u16, StreamNumbers>,
    hasher: SeedableRandomState,
    sink: Option<ConnectionSink>,
}

impl Collected {
    pub(crate) fn new(wanted: Wanted, hasher: SeedableRandomState) -> Self {
        Self {
            wanted,
            seen: 0,
            kept: BTreeMap::new(),
            files: BTreeMap::new(),
            hasher,
            sink: None,
        }
    }

    pub(crate) fn set_sink(&mut self, sink: ConnectionSink) {
        self.sink = Some(sink);
    }

    /// Whether anybody wants to know.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.limit > 0 || self.sink.is_some()
    }

    /// The number of the connection that this segment, the first of it that was
    /// seen or remembered, belongs to.
    pub(crate) fn number(&mut self, segment: &Segment) -> Option<u32> {
        let room = self.wanted.points_per_file;
        let file = segment.point.0.checked_div(room).unwrap_or_default();
        let hash = self.hasher.hash_one(segment.flow);
        let numbers = self.files.entry(file).or_default();
        let is_opening = segment.flags.0 & (TcpFlags::SYN.0 | TcpFlags::ACK.0) == TcpFlags::SYN.0;
        numbers.number(hash, is_opening.then_some(segment.seq))
    }

    /// Takes in connections that are followed no further.
    pub(crate) fn take(&mut self, watched: &mut Vec<Watched>) {
        for watched in watched.drain(..) {
            self.seen += 1;
            if let Some(sink) = &mut self.sink {
                sink(&connection_record(&watched));
            }
            let value = value(&watched, self.wanted.by);
            let start = watched.facts.first.as_nanos();
            let first = watched.facts.first_packet;
            let rank = Reverse((value, Reverse((start, watched.point.0, first))));
            self.kept.insert(rank, watched);
            if self.kept.len() > self.wanted.limit {
                self.kept.pop_last();
            }
        }
    }

    /// The list; `None` where nobody wants it.
    pub(crate) fn finish(&mut self) -> Option<Connections> {
        let kept = core::mem::take(&mut self.kept);
        (self.wanted.limit > 0).then(|| Connections {
            seen: self.seen,
            sorted_by: self.wanted.by.name().to_owned(),
            list: kept.values().map(connection_record).collect(),
        })
    }
}

impl fmt::Debug for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collected")
            .field("wanted", &self.wanted)
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}

/// How much a connection has of what is sorted by; nothing where it is unknown.
fn value(watched: &Watched, key: Key) -> u64 {
    let facts = &watched.facts;
    let ends = watched.both();
    let nanos =
        |duration: core::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    match key {
        Key::Lost => facts.lost(),
        Key::Packets => ends.iter().map(|end| u64::from(end.segments)).sum(),
        Key::Bytes => ends.iter().map(|end| end.bytes).sum(),
        Key::Duration => nanos(watched.last_seen.since(facts.first)),
        Key::Handshake => facts.opening.whole().map_or(0, nanos),
        Key::RoundTrip => watched
            .trips
            .iter()
            .filter_map(|trip| trip.floor().map(nanos))
            .sum(),
        Key::Retransmissions => ends.iter().map(|end| u64::from(end.resent())).sum(),
        Key::ZeroWindow => ends
            .iter()
            .filter_map(|end| end.rare())
            .map(|rare| nanos(rare.zero_window.total(watched.last_seen)))
            .sum(),
        Key::Exchanges => u64::from(facts.exchanges),
        Key::Start => u64::MAX.saturating_sub_signed(facts.first.as_nanos()),
    }
}

/// Numbers the connections of one capture file as Wireshark does
/// (`epan/dissectors/packet-tcp.c`): from 0, by their first packets; a SYN with
/// another sequence number opens another. It is asked about first segments
/// only, so what it remembers is little of each flow.
#[derive(Debug, Default)]
struct StreamNumbers {
    /// Keyed by what is a seeded hash already: collisions among a million
    /// flows are one in 30 million captures.
    flows: HashMap<u64, Numbered, SeedableRandomState>,
    next: u32,
}

/// A flow's latest connection.
#[derive(Clone, Copy, Debug)]
struct Numbered {
    number: u32,
    /// Sequence number of its SYN, never 0; 0 where that was not seen.
    opening: u32,
}

impl StreamNumbers {
    /// The number of a flow's connection, of whose SYN `opening` is the
    /// sequence number.
    fn number(&mut self, flow: u64, opening: Option<u32>) -> Option<u32> {
        let opening = opening.map_or(0, |seq| seq.max(1));
        let fresh = Numbered {
            number: self.next,
            opening,
        };
        let is_full = self.flows.len() >= MAX_FLOWS;
        match self.flows.get_mut(&flow) {
            Some(known) if opening == 0 || opening == known.opening => return Some(known.number),
            Some(known) => *known = fresh,
            None if is_full => return None,
            None => {
                self.flows.insert(flow, fresh);
            }
        }
        self.next = self.next.saturating_add(1);
        Some(fresh.number)
    }
}

#[cfg(test)]
mod tests {
    use super::StreamNumbers;

    #[test]
    fn numbers_go_by_first_packets_and_a_forgotten_flow_keeps_its_own() {
        let mut numbers = StreamNumbers::default();
        assert_eq!(numbers.number(77, Some(100)), Some(0));
        assert_eq!(numbers.number(5, None), Some(1), "begun before the capture");
        assert_eq!(numbers.number(77, None), Some(0), "met again");
        assert_eq!(numbers.number(77, Some(100)), Some(0), "at another point");
        assert_eq!(numbers.number(77, Some(900)), Some(2), "opened anew");
        assert_eq!(numbers.number(77, None), Some(2));
        assert_eq!(numbers.number(5, Some(1)), Some(3));
    }
}
