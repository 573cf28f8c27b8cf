//! Hosts whose timestamps tick slower than in milliseconds.
//!
//! A connection tells its sender's tick only after some segments. A host has one for all its
//! connections: where these together tell it, each goes by it sooner.

use core::net::IpAddr;

use super::counters::{PLACES, Sender};
use crate::connection::transit::{self, Coarse};
use crate::event::PointId;
use crate::flow::FlowKey;
use crate::segment::Segment;
use crate::time::Timestamp;

/// The connections of a host that are followed at a time, the latest.
const MAX_FLOWS: usize = 8;

/// Segments of a host after which its tick is sought no longer: its connections are too many at
/// a time, or too short.
const MAX_LOOKS: u32 = 4096;

/// The shortest tick of any clock, in nanoseconds.
const MOMENT_NS: u64 = 1_000_000;

/// The ticks of hosts, as far as their connections at one point show them; of two hosts that
/// fall on one place, the later one stays.
#[derive(Debug)]
pub(super) struct Clocks {
    places: Box<[Option<Host>]>,
}

#[derive(Debug)]
struct Host {
    point: PointId,
    address: IpAddr,
    tick: Tick,
}

#[derive(Debug)]
enum Tick {
    /// The only connection so far looks for it by itself.
    Single(Followed),
    Sought(Box<Search>),
    Coarse(u32),
    /// A millisecond, or none that is known.
    Other,
}

/// The search for the tick of a host, by its connections together.
#[derive(Debug, Default)]
struct Search {
    flows: Vec<Followed>,
    /// The place of the next one.
    next: usize,
    /// Segments looked at.
    looks: u32,
    coarse: Coarse,
    /// The last segment that was looked at.
    last: Option<(Timestamp, u32, FlowKey)>,
}

/// A connection of the host: its first stamps, and its ticks since then.
#[derive(Clone, Copy, Debug)]
struct Followed {
    flow: FlowKey,
    begin: Timestamp,
    base: u32,
    ticks: i64,
}

impl Default for Clocks {
    fn default() -> Self {
        Self {
            places: core::iter::repeat_with(|| None).take(PLACES).collect(),
        }
    }
}

impl Clocks {
    /// Takes in a segment, and returns its sender's tick in nanoseconds where that is known
    /// to be longer than a millisecond.
    #[inline]
    pub(super) fn take(&mut self, segment: &Segment, sender: Sender<'_>) -> Option<u32> {
        let (tsval, _) = segment.options.timestamps?;
        let place = self.places.get_mut(sender.place % PLACES)?;
        let host = match place {
            Some(host) if host.point == segment.point && host.address == *sender.address => host,
            _ => {
                *place = Some(Host::new(segment, tsval, *sender.address));
                return None;
            }
        };
        match &mut host.tick {
            Tick::Coarse(nanos) => Some(*nanos),
            Tick::Other => None,
            Tick::Single(first) if first.flow == segment.flow => {
                if first.is_of_milliseconds(segment, tsval) {
                    host.tick = Tick::Other;
                }
                None
            }
            Tick::Single(_) | Tick::Sought(_) => host.seek(segment, tsval),
        }
    }
}

impl Host {
    fn new(segment: &Segment, tsval: u32, address: IpAddr) -> Self {
        Self {
            point: segment.point,
            address,
            tick: Tick::Single(Followed::new(segment, tsval)),
        }
    }

    /// Looks for its tick by the stamps of several connections together.
    fn seek(&mut self, segment: &Segment, tsval: u32) -> Option<u32> {
        if let Tick::Single(first) = self.tick {
            self.tick = Tick::Sought(Box::new(Search::beginning_with(first)));
        }
        let Tick::Sought(search) = &mut self.tick else {
            return None;
        };
        if !search.is_due(segment, tsval) {
            return None;
        }
        self.tick = search.take(segment, tsval)?;
        match self.tick {
            Tick::Coarse(nanos) => Some(nanos),
            _ => None,
        }
    }
}

impl Followed {
    fn new(segment: &Segment, tsval: u32) -> Self {
        Self {
            flow: segment.flow,
            begin: segment.at,
            base: tsval,
            ticks: 0,
        }
    }

    /// Nanoseconds and ticks since its first stamps.
    #[inline]
    fn passed(&self, segment: &Segment, tsval: u32) -> (i64, i64) {
        let ticks = tsval.wrapping_sub(self.base) as i32;
        (segment.at.signed_since(self.begin), i64::from(ticks))
    }

    /// Returns true if a segment shows that the ticks are milliseconds, or none of a clock.
    #[inline]
    fn is_of_milliseconds(&self, segment: &Segment, tsval: u32) -> bool {
        let (passed_ns, ticks) = self.passed(segment, tsval);
        passed_ns < 0 || transit::are_milliseconds(passed_ns, ticks)
    }
}

impl Search {
    fn beginning_with(first: Followed) -> Self {
        Self {
            flows: vec![first],
            next: 1,
            ..Self::default()
        }
    }

    /// Returns true unless the segment comes within a moment of the last one of its connection
    /// and with the same stamp: then it tells what that one did.
    #[inline]
    fn is_due(&mut self, segment: &Segment, tsval: u32) -> bool {
        let is_told = self.last.is_some_and(|(at, stamp, flow)| {
            stamp == tsval
                && segment.at.signed_since(at).unsigned_abs() < MOMENT_NS
                && flow == segment.flow
        });
        if !is_told {
            self.last = Some((segment.at, tsval, segment.flow));
        }
        !is_told
    }

    /// Takes in a segment of the host; its tick, if that is told now.
    fn take(&mut self, segment: &Segment, tsval: u32) -> Option<Tick> {
        self.looks += 1;
        let flow = self.flow(segment, tsval);
        let (passed_ns, ticks) = flow.passed(segment, tsval);
        let goes_on = ticks > flow.ticks;
        flow.ticks = flow.ticks.max(ticks);
        let is_over = self.looks >= MAX_LOOKS;
        if is_over || passed_ns < 0 || transit::are_milliseconds(passed_ns, ticks) {
            return Some(Tick::Other);
        }
        self.coarse.take(passed_ns, ticks, goes_on);
        self.coarse.tick(false).map(Tick::Coarse)
    }

    /// The connection of the segment; one that was not followed begins with it.
    fn flow(&mut self, segment: &Segment, tsval: u32) -> &mut Followed {
        let known = self.flows.iter().position(|one| one.flow == segment.flow);
        let place = known.unwrap_or_else(|| {
            let one = Followed::new(segment, tsval);
            let place = self.next % MAX_FLOWS;
            self.next = self.next.wrapping_add(1);
            match self.flows.get_mut(place) {
                Some(old) => *old = one,
                None => self.flows.push(one),
            }
            place
        });
        // Either was just found there, or put.
        &mut self.flows[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Endpoint;
    use crate::segment::TcpOptions;

    /// The ticks told with segments given as (connection, milliseconds, stamp).
    fn told(stamps: &[(u16, i64, u32)]) -> Vec<Option<u32>> {
        let mut clocks = Clocks::default();
        let end = |last, port| Endpoint::new([10, 0, 0, last].into(), port);
        let mut take = |&(port, ms, tsval): &(u16, i64, u32)| {
            let at = Timestamp::from_nanos(ms * 1_000_000);
            let segment = Segment {
                options: TcpOptions {
                    timestamps: Some((tsval, 0)),
                    ..TcpOptions::default()
                },
                ..Segment::sent(end(2, 80), end(1, port), at)
            };
            clocks.take(&segment, Sender::of(&segment))
        };
        stamps.iter().map(&mut take).collect()
    }

    #[test]
    fn connections_of_a_host_tell_its_tick_together() {
        // Each answers once, after 200 ms by a clock of 100 Hz.
        let stamps: Vec<_> = (0..4)
            .flat_map(|n| {
                let (at, base) = (i64::from(n) * 7, u32::from(n) * 5_000);
                [(n, at, base), (n, at + 200, base + 20)]
            })
            .collect();
        let told = told(&stamps);
        assert_eq!(told[..4], [None; 4]);
        assert_eq!(told.last(), Some(&Some(10_000_000)));
    }

    #[test]
    fn one_connection_in_milliseconds_says_that_the_host_counts_in_them() {
        let stamps = [
            (1, 0, 0),
            (1, 100, 100),
            (2, 0, 0),
            (2, 200, 20),
            (3, 0, 0),
            (3, 200, 20),
            (4, 0, 0),
            (4, 200, 20),
        ];
        assert_eq!(told(&stamps), [None; 8]);
    }
}
