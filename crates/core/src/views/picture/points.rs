//! All exchanges as points, unless there are too many.

use super::services::ServerIndex;
use crate::exchange::wait::Owner;
use crate::report::Points;

/// Maximum number of points. With more exchanges there are none.
pub(super) const MAX_POINTS: usize = 200_000;
/// Number of significant digits of a point's latency.
const DIGITS: u32 = 4;

/// The exchanges as points; `None` if there are too many.
#[derive(Clone, Debug)]
pub(super) struct Dots(Option<Vec<Dot>>);

/// An exchange as a point. Points that are equal in all fields are interchangeable, so their order
/// is always the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Dot {
    pub(super) begin_ns: i64,
    pub(super) latency_ns: u64,
    pub(super) server: ServerIndex,
    pub(super) owner: Owner,
}

impl Default for Dots {
    fn default() -> Self {
        Self(Some(Vec::new()))
    }
}

impl Dots {
    #[inline]
    pub(super) fn add(&mut self, dot: Dot) {
        if let Some(dots) = &mut self.0 {
            dots.push(dot);
            self.limit();
        }
    }

    pub(super) fn merge(&mut self, other: Self, renumbered: impl Fn(ServerIndex) -> ServerIndex) {
        let Self(others) = other;
        match (&mut self.0, others) {
            (Some(dots), Some(others)) => dots.extend(others.into_iter().map(|dot| Dot {
                server: renumbered(dot.server),
                ..dot
            })),
            (dots, _) => *dots = None,
        }
        self.limit();
    }

    fn limit(&mut self) {
        self.0.take_if(|dots| dots.len() > MAX_POINTS);
    }

    /// Returns the points. `service` returns the service of each server.
    pub(super) fn finish(self, service: impl Fn(ServerIndex) -> Option<u8>) -> Option<Points> {
        let placed = |dot: Dot| {
            let server = service(dot.server)?.into();
            Some(Dot { server, ..dot })
        };
        // By service, not by server: the servers are numbered in the order of their arrival.
        let mut dots: Vec<Dot> = self.0?.into_iter().filter_map(placed).collect();
        dots.sort_unstable();
        let mut points = Points {
            start_ns: dots.first().map_or(0, |dot| dot.begin_ns),
            ..Points::default()
        };
        let mut before = 0;
        for dot in dots {
            // Whole microseconds since the start, so that the sums do not drift.
            let since = dot.begin_ns.abs_diff(points.start_ns) / 1_000;
            points.after_us.push(since - before);
            before = since;
            points.latency_ns.push(rounded(dot.latency_ns));
            points.owner.push(index(&mut points.owners, dot.owner));
            points
                .service
                .push(u8::try_from(dot.server).unwrap_or(u8::MAX));
        }
        Some(points)
    }
}

/// Returns the owner's index, after adding it if it is new.
fn index(owners: &mut Vec<Owner>, owner: Owner) -> u8 {
    let known = owners.iter().position(|known| *known == owner);
    let place = known.unwrap_or_else(|| {
        owners.push(owner);
        owners.len() - 1
    });
    place as u8
}

/// Rounds to [`DIGITS`] significant digits.
fn rounded(ns: u64) -> u64 {
    let excess = ns.checked_ilog10().unwrap_or_default() + 1;
    let unit = 10_u64.pow(excess.saturating_sub(DIGITS));
    let rest = ns % unit;
    let down = ns - rest;
    if rest * 2 >= unit {
        down.saturating_add(unit)
    } else {
        down
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_keep_four_digits() {
        for (ns, expected) in [(0, 0), (1_234, 1_234), (12_345, 12_350), (99_999, 100_000)] {
            assert_eq!(rounded(ns), expected);
        }
        assert!(rounded(u64::MAX) > u64::MAX / 2);
    }
}
