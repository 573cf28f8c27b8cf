//! Matching of packets in one capture with packets in the other.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;

use super::View;
use super::sighting::{MatchKey, Sighting};
use crate::observed::flow::Direction;
use crate::observed::segment::TcpFlags;

/// Maximum number of copies of one packet that are distinguished. Only a hostile capture has more.
const MAX_COPIES: usize = 64;
/// Maximum number of packets searched backwards for one that contains a position. A segment that
/// joins others contains fewer of them.
const LOOK_BACK: usize = 64;

/// The connections and packets found in both captures.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    /// Pairs of connections, by the index of the flow in the second capture.
    pub(super) flows: BTreeMap<u32, FlowPair>,
    pub(super) packets: Vec<PacketPair>,
}

/// A connection found in both captures.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowPair {
    pub(super) first: u32,
    /// True if the addresses or ports differ in the second capture.
    pub(super) is_translated: bool,
}

/// A packet found in both captures.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketPair {
    pub(super) first: u32,
    pub(super) second: u32,
    /// True if no other copy of the packet matches.
    pub(super) is_certain: bool,
}

/// Matches the packets of both captures, and through the packets their connections.
pub(super) fn pair(first: &View, second: &View, hasher: &SeedableRandomState) -> Pairs {
    let mut index: HashMap<MatchKey, Vec<u32>, SeedableRandomState> =
        HashMap::with_capacity_and_hasher(first.sightings.len(), hasher.clone());
    for (at, sighting) in (0..).zip(&first.sightings) {
        let copies = index.entry(sighting.key()).or_default();
        if copies.len() < MAX_COPIES {
            copies.push(at);
        }
    }
    let mut pairs = Pairs::default();
    let mut partners: BTreeMap<u32, u32> = BTreeMap::new();
    for (at, sighting) in (0..).zip(&second.sightings) {
        let Some(copies) = index.get_mut(&sighting.key()) else {
            continue;
        };
        let Some(found) = find(first, second, sighting, copies, &pairs, &partners) else {
            continue;
        };
        let taken = copies.remove(found.place);
        let Some(other) = first.sighting(taken) else {
            continue;
        };
        pairs.flows.entry(sighting.flow).or_insert_with(|| {
            partners.insert(other.flow, sighting.flow);
            FlowPair {
                first: other.flow,
                is_translated: first.flow(other.flow).map(|f| f.key)
                    != second.flow(sighting.flow).map(|f| f.key),
            }
        });
        pairs.packets.push(PacketPair {
            first: taken,
            second: at,
            is_certain: found.is_certain,
        });
    }
    pairs
}

/// The copy of a packet that matches a sighting.
struct FoundCopy {
    place: usize,
    is_certain: bool,
}

fn find(
    first: &View,
    second: &View,
    sighting: &Sighting,
    copies: &[u32],
    pairs: &Pairs,
    partners: &BTreeMap<u32, u32>,
) -> Option<FoundCopy> {
    let known = pairs.flows.get(&sighting.flow).map(|pair| pair.first);
    let own = second.flow(sighting.flow)?.key;
    // Across a NAT, a connection is identified only by values that are practically unique: 64 bits
    // of initial sequence numbers or timestamps.
    let is_telling = sighting.stamps.is_some() || sighting.flags & TcpFlags::SYN.0 != 0;
    let is_meant = |other: &Sighting| match known {
        Some(flow) => other.flow == flow,
        None if partners.contains_key(&other.flow) => false,
        None => is_telling || first.flow(other.flow).is_some_and(|flow| flow.key == own),
    };
    let meant: Vec<(usize, &Sighting)> = copies
        .iter()
        .enumerate()
        .filter_map(|(place, &copy)| Some((place, first.sighting(copy)?)))
        .filter(|(_, other)| is_meant(other))
        .collect();
    let same_id = |(_, other): &&(usize, &Sighting)| {
        sighting.ip_id.is_some() && other.ip_id == sighting.ip_id
    };
    let by_id = meant.iter().find(same_id);
    let (place, _) = by_id.or(meant.first())?;
    Some(FoundCopy {
        place: *place,
        is_certain: by_id.is_some() || meant.len() == 1 && copies.len() == 1,
    })
}

/// The counterpart of each packet in the other capture. If segments were split or joined between
/// the captures, it is the packet that contains the first byte.
#[derive(Debug)]
pub(super) struct Matched {
    /// Counterparts by the packet's index in the near capture.
    near: Vec<Option<u32>>,
    /// Counterparts by the packet's index in the far capture.
    far: Vec<Option<u32>>,
    /// The near capture's flow, by the far capture's flow.
    near_flow: BTreeMap<u32, u32>,
    /// Flows of the near capture that are in both captures.
    near_flows: BTreeSet<u32>,
}

/// The packets of each direction of a flow, by position in the stream, then by time.
type Streams = BTreeMap<(u32, Direction), Vec<(i64, u32)>>;

impl Matched {
    pub(super) fn new(views: &[View; 2], pairs: &Pairs, client: usize) -> Self {
        let [first, second] = views;
        let (near, far) = match client {
            0 => (first, second),
            _ => (second, first),
        };
        let mut matched = Self {
            near: vec![None; near.sightings.len()],
            far: vec![None; far.sightings.len()],
            near_flow: BTreeMap::new(),
            near_flows: BTreeSet::new(),
        };
        for (&second, pair) in &pairs.flows {
            let (near, far) = match client {
                0 => (pair.first, second),
                _ => (second, pair.first),
            };
            matched.near_flow.insert(far, near);
            matched.near_flows.insert(near);
        }
        for pair in &pairs.packets {
            let (near, far) = match client {
                0 => (pair.first, pair.second),
                _ => (pair.second, pair.first),
            };
            set(&mut matched.near, near, far);
            set(&mut matched.far, far, near);
        }
        matched.complete(near, far);
        matched
    }

    /// Returns the near capture's flow that corresponds to the far capture's flow `far`.
    pub(super) fn near_flow(&self, far: u32) -> Option<u32> {
        self.near_flow.get(&far).copied()
    }

    /// Returns true if the near capture's flow is in both captures.
    pub(super) fn has_near(&self, near: u32) -> bool {
        self.near_flows.contains(&near)
    }

    /// Returns the far capture's counterpart of a packet in the near capture.
    pub(super) fn far_of(&self, near: u32) -> Option<u32> {
        self.near.get(near as usize).copied().flatten()
    }

    /// Returns the near capture's counterpart of a packet in the far capture.
    pub(super) fn near_of(&self, far: u32) -> Option<u32> {
        self.far.get(far as usize).copied().flatten()
    }

    /// Finds the counterparts of segments that were split or joined.
    fn complete(&mut self, near: &View, far: &View) {
        let far_flow: BTreeMap<u32, u32> = self.near_flow.iter().map(|(&f, &n)| (n, f)).collect();
        let of_near = pieces(near, &self.near, far, |flow| far_flow.get(&flow).copied());
        let of_far = pieces(far, &self.far, near, |flow| self.near_flow(flow));
        for (sighting, other) in of_near {
            set(&mut self.near, sighting, other);
        }
        for (sighting, other) in of_far {
            set(&mut self.far, sighting, other);
        }
    }
}

fn set(list: &mut [Option<u32>], at: u32, to: u32) {
    if let Some(slot) = list.get_mut(at as usize) {
        *slot = Some(to);
    }
}

/// Returns counterparts in `there` for packets with data in `here` that have none yet. A
/// counterpart contains the packet's first byte and has the same timestamps.
fn pieces(
    here: &View,
    known: &[Option<u32>],
    there: &View,
    flow_there: impl Fn(u32) -> Option<u32>,
) -> Vec<(u32, u32)> {
    let streams = streams(there);
    // The difference between a stream's positions in the two captures. They differ if the captures
    // began at different bytes.
    let mut shifts: BTreeMap<(u32, Direction), i64> = BTreeMap::new();
    for (sighting, other) in here.sightings.iter().zip(known) {
        if let Some(other) = other.and_then(|other| there.sighting(other)) {
            let shift = other.position - sighting.position;
            shifts
                .entry((sighting.flow, sighting.direction))
                .or_insert(shift);
        }
    }
    let mut found = Vec::new();
    for ((at, sighting), other) in (0..).zip(&here.sightings).zip(known) {
        if other.is_some() || !sighting.has_data() {
            continue;
        }
        let (Some(flow), Some(shift)) = (
            flow_there(sighting.flow),
            shifts.get(&(sighting.flow, sighting.direction)),
        ) else {
            continue;
        };
        let direction = direction_there(here, there, sighting, flow);
        let Some(stream) = streams.get(&(flow, direction)) else {
            continue;
        };
        let position = sighting.position + shift;
        let holds = |index: &&(i64, u32)| {
            there.sighting(index.1).is_some_and(|other| {
                other.position <= position
                    && position < other.position + i64::from(other.len)
                    && other.stamps == sighting.stamps
            })
        };
        let end = stream.partition_point(|&(start, _)| start <= position);
        let before = stream.get(end.saturating_sub(LOOK_BACK)..end);
        if let Some(&(_, other)) = before.unwrap_or_default().iter().rev().find(holds) {
            found.push((at, other));
        }
    }
    found
}

/// Returns the direction of a packet in the other capture, where translated addresses may sort
/// differently.
fn direction_there(here: &View, there: &View, sighting: &Sighting, flow: u32) -> Direction {
    let own = here.flow(sighting.flow).map(super::SightedFlow::client);
    let other = there.flow(flow).map(super::SightedFlow::client);
    if own == other {
        sighting.direction
    } else {
        sighting.direction.reverse()
    }
}

fn streams(view: &View) -> Streams {
    let mut streams = Streams::default();
    for (at, sighting) in (0..).zip(&view.sightings) {
        if sighting.has_data() {
            let stream = streams
                .entry((sighting.flow, sighting.direction))
                .or_default();
            stream.push((sighting.position, at));
        }
    }
    for stream in streams.values_mut() {
        stream.sort_unstable();
    }
    streams
}
