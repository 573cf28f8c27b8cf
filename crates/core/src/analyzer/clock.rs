//! The timestamp clock of a host, if its tick is longer than a millisecond.
//!
//! A single connection reveals its sender's tick only after several segments. A host has one clock
//! for all its connections. If the connections together reveal the tick, each of them can use it
//! earlier.

use crate::connection::transit::{self, Coarse};
use crate::observed::flow::Tag;
use crate::observed::segment::Segment;
use crate::observed::time::Timestamp;

/// Maximum number of connections followed per host at one time. The latest ones are kept.
const MAX_FLOWS: usize = 8;

/// Number of a host's segments after which the search for its tick ends. Such a host has too many
/// concurrent connections, or they are too short.
const MAX_LOOKS: u32 = 4096;

/// The shortest tick of any clock, in nanoseconds.
const MOMENT_NS: u64 = 1_000_000;

/// The state of the search for a host's tick, from its connections at one observation point.
#[derive(Debug, Default)]
pub(super) enum Clock {
    #[default]
    Unseen,
    /// The host has had one connection so far, which searches for the tick by itself.
    Single(Followed),
    Sought(Box<TickSearch>),
    Coarse(u32),
    /// The tick is a millisecond, or it could not be determined.
    Other,
}

/// The search for a host's tick with all its connections.
#[derive(Debug, Default)]
pub(super) struct TickSearch {
    flows: Vec<Followed>,
    /// The index for the next new connection.
    next: usize,
    /// Number of segments examined.
    looks: u32,
    coarse: Coarse,
    /// The last segment that was examined.
    last: Option<(Timestamp, u32, Tag)>,
}

/// A connection of the host: its first timestamp, and the number of ticks since then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Followed {
    flow: Tag,
    begin: Timestamp,
    base: u32,
    ticks: i64,
}

impl Clock {
    /// Processes a segment of the flow `flow`. Returns its sender's tick in nanoseconds if the tick
    /// is known to be longer than a millisecond.
    #[inline]
    pub(super) fn observe(&mut self, segment: &Segment, flow: Tag) -> Option<u32> {
        let (tsval, _) = segment.options.timestamps?;
        match self {
            Self::Coarse(nanos) => Some(*nanos),
            Self::Other => None,
            Self::Single(first) if first.flow == flow => {
                if first.is_of_milliseconds(segment.at, tsval) {
                    *self = Self::Other;
                }
                None
            }
            _ => self.seek(segment.at, tsval, flow),
        }
    }

    /// Searches for the tick in the timestamps of several connections together.
    #[inline]
    fn seek(&mut self, at: Timestamp, tsval: u32, flow: Tag) -> Option<u32> {
        match *self {
            Self::Unseen => *self = Self::Single(Followed::new(at, tsval, flow)),
            Self::Single(first) => {
                *self = Self::Sought(Box::new(TickSearch::beginning_with(first)))
            }
            _ => {}
        }
        if let Self::Sought(search) = self {
            if !search.is_due(at, tsval, flow) {
                return None;
            }
            *self = search.observe_timestamp(at, tsval, flow)?;
        }
        match self {
            Self::Coarse(nanos) => Some(*nanos),
            _ => None,
        }
    }
}

impl Followed {
    fn new(at: Timestamp, tsval: u32, flow: Tag) -> Self {
        Self {
            flow,
            begin: at,
            base: tsval,
            ticks: 0,
        }
    }

    /// Returns the nanoseconds and ticks since the connection's first timestamp.
    #[inline]
    fn passed(&self, at: Timestamp, tsval: u32) -> (i64, i64) {
        let ticks = tsval.wrapping_sub(self.base) as i32;
        (at.signed_since(self.begin), i64::from(ticks))
    }

    /// Returns true if a segment shows that the ticks are milliseconds, or that they do not come
    /// from a clock.
    #[inline]
    fn is_of_milliseconds(&self, at: Timestamp, tsval: u32) -> bool {
        let (passed_ns, ticks) = self.passed(at, tsval);
        passed_ns < 0 || transit::are_milliseconds(passed_ns, ticks)
    }
}

impl TickSearch {
    fn beginning_with(first: Followed) -> Self {
        Self {
            flows: vec![first],
            next: 1,
            ..Self::default()
        }
    }

    /// Returns false if the segment adds no information: it has the timestamp of its connection's
    /// previous segment, and follows it within a millisecond.
    #[inline]
    fn is_due(&mut self, at: Timestamp, tsval: u32, flow: Tag) -> bool {
        let is_told = self.last.is_some_and(|(last, stamp, of)| {
            stamp == tsval && of == flow && at.signed_since(last).unsigned_abs() < MOMENT_NS
        });
        if !is_told {
            self.last = Some((at, tsval, flow));
        }
        !is_told
    }

    /// Processes a segment of the host. Returns the host's clock if the segment determines it.
    fn observe_timestamp(&mut self, at: Timestamp, tsval: u32, flow: Tag) -> Option<Clock> {
        self.looks += 1;
        let flow = self.flow(at, tsval, flow);
        let (passed_ns, ticks) = flow.passed(at, tsval);
        let goes_on = ticks > flow.ticks;
        flow.ticks = flow.ticks.max(ticks);
        let is_over = self.looks >= MAX_LOOKS;
        let is_of_it = (0..transit::FAR_NS).contains(&passed_ns);
        if is_over || !is_of_it || transit::are_milliseconds(passed_ns, ticks) {
            return Some(Clock::Other);
        }
        self.coarse.observe_segment(passed_ns, ticks, goes_on);
        self.coarse.tick(false).map(Clock::Coarse)
    }

    /// Returns the segment's connection, and adds it if it is not followed yet.
    fn flow(&mut self, at: Timestamp, tsval: u32, flow: Tag) -> &mut Followed {
        let known = self.flows.iter().position(|one| one.flow == flow);
        let place = known.unwrap_or_else(|| {
            let one = Followed::new(at, tsval, flow);
            let place = self.next % MAX_FLOWS;
            self.next = self.next.wrapping_add(1);
            match self.flows.get_mut(place) {
                Some(old) => *old = one,
                None => self.flows.push(one),
            }
            place
        });
        // The connection at this index was either found or just inserted.
        &mut self.flows[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::flow::Endpoint;
    use crate::observed::segment::TcpOptions;

    /// Returns the tick found after each segment; a segment is given as connection, milliseconds
    /// and timestamp.
    fn told(stamps: &[(u16, i64, u32)]) -> Vec<Option<u32>> {
        let mut clock = Clock::default();
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
            clock.observe(&segment, segment.flow.tag())
        };
        stamps.iter().map(&mut take).collect()
    }

    #[test]
    fn connections_of_a_host_tell_its_tick_together() {
        // Each connection has two timestamps, 200 ms apart, from a clock of 100 Hz.
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
