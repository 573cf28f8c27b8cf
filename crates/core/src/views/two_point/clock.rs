//! The relation of two clocks, estimated from packets.
//!
//! The lag of a packet is the time at which the far capture saw it, minus the time at which the
//! near capture saw it. For packets towards the far end, the lag is the clocks' offset plus the
//! transit time. In the opposite direction, it is the offset minus the transit time. The quickest
//! packets of each direction therefore bound the offset from both sides. The change of their lags
//! over time is the drift.
//!
//! Sources: Paxson, "On Calibrating Measurements of Packet Transit Times" (1998); Moon, Skelly and
//! Towsley, "Estimation and Removal of Clock Skew from Network Delay Measurements" (1999). The
//! second paper's line below all lags is found here with the convex hull of the lags.

use std::collections::BTreeMap;

use super::View;
use super::matching::Pairs;
use crate::observed::time::{ClockMap, Timestamp};
use crate::report::ClockRelation;

/// The length of a window in nanoseconds. Only the quickest packet of each window is used. In so
/// short a time, clock drift is negligible.
const WINDOW_NS: i64 = 250_000_000;
/// The time in nanoseconds within which both directions of a round trip must be seen. It is so
/// short that drift cannot be mistaken for transit time.
const TURN_NS: i64 = 5_000_000;
/// Minimum length of a capture for estimating the drift, in nanoseconds.
const LEAST_SPAN_NS: i64 = 2_000_000_000;
/// Minimum number of windows with packets for estimating the drift.
const LEAST_WINDOWS: usize = 6;
/// Maximum drift of a clock, as a ratio. NTP's frequency tolerance is 500 ppm (RFC 5905 §7.2), and
/// a bad crystal has a few times as much.
const MAX_DRIFT: f64 = 5e-3;

/// The relation of the far clock to the near one.
#[derive(Clone, Copy, Debug)]
pub(super) struct FarClock {
    pub(super) map: ClockMap,
    /// The error of the offset, in nanoseconds.
    error: f64,
    drift_error: Option<f64>,
}

/// Minimum lag of each window in one direction, by the near clock's time.
type Lags = BTreeMap<i64, (f64, f64)>;

/// Returns the index of the capture nearer to the clients. It is the one for which round trips to
/// the other capture take more than zero time, whatever the clocks show.
pub(super) fn nearer_to_clients(views: &[View; 2], pairs: &Pairs) -> Option<usize> {
    let origin = origin(views, pairs, 0)?;
    let (there, back) = lags(views, pairs, 0, origin, TURN_NS);
    let mut trips: Vec<f64> = there
        .iter()
        .filter_map(|(window, (_, there))| Some(there + back.get(window)?.1))
        .collect();
    trips.sort_by(f64::total_cmp);
    let median = match trips.get(trips.len() / 2) {
        Some(&median) => median,
        // No window contains packets of both directions.
        None => least(&there, 0.0)? + least(&back, 0.0)?,
    };
    Some(usize::from(median < 0.0))
}

impl FarClock {
    /// Estimates the relation of the clocks from the packets whose match is certain; `client` is
    /// the capture nearer to the clients. `None` if a direction has no such packets.
    pub(super) fn estimate(views: &[View; 2], pairs: &Pairs, client: usize) -> Option<Self> {
        let origin = origin(views, pairs, client)?;
        let (there, back) = lags(views, pairs, client, origin, WINDOW_NS);
        let (drift, drift_error) = match drift(&there, &back) {
            Some((drift, error)) => (drift, Some(error)),
            None => (0.0, None),
        };
        // A drift that is smaller than its error counts as zero.
        let is_told = drift_error.is_some_and(|error| drift.abs() > error);
        let drift = if is_told { drift } else { 0.0 };
        let (forth, home) = (least(&there, drift)?, least(&back, -drift)?);
        Some(Self {
            map: ClockMap {
                origin,
                offset: (forth - home) / 2.0,
                drift,
            },
            error: ((forth + home) / 2.0).abs(),
            drift_error,
        })
    }

    pub(super) fn relation(self) -> ClockRelation {
        ClockRelation {
            offset_ns: self.map.offset.round() as i64,
            offset_error_ns: self.error.round() as u64,
            drift_ppb: (self.map.drift * 1e9).round() as i64,
            drift_error_ppb: self.drift_error.map(|error| (error * 1e9).round() as u64),
        }
    }
}

fn origin(views: &[View; 2], pairs: &Pairs, client: usize) -> Option<Timestamp> {
    let view = views.get(client)?;
    let near = pairs.packets.iter().filter_map(|pair| {
        let index = if client == 0 { pair.first } else { pair.second };
        view.sighting(index)
    });
    near.map(|sighting| sighting.at).min()
}

/// Returns the minimum lag of each window, for both directions.
fn lags(
    views: &[View; 2],
    pairs: &Pairs,
    client: usize,
    origin: Timestamp,
    window: i64,
) -> (Lags, Lags) {
    let [first, second] = views;
    let (mut there, mut back) = (Lags::new(), Lags::new());
    for pair in pairs.packets.iter().filter(|pair| pair.is_certain) {
        let (Some(one), Some(other)) = (first.sighting(pair.first), second.sighting(pair.second))
        else {
            continue;
        };
        let (near, far) = if client == 0 {
            (one, other)
        } else {
            (other, one)
        };
        let since = near.at.signed_since(origin);
        let lag = far.at.signed_since(near.at) as f64;
        let Some(flow) = first.flow(one.flow) else {
            continue;
        };
        let (lags, lag) = if flow.client() == one.direction {
            (&mut there, lag)
        } else {
            (&mut back, -lag)
        };
        let least = lags
            .entry(since.div_euclid(window))
            .or_insert((since as f64, lag));
        if lag < least.1 {
            *least = (since as f64, lag);
        }
    }
    (there, back)
}

/// Returns the minimum lag after subtracting the drift.
fn least(lags: &Lags, drift: f64) -> Option<f64> {
    lags.values()
        .map(|&(since, lag)| lag - drift * since)
        .min_by(f64::total_cmp)
}

/// Returns the drift and its error. The error is the largest deviation of four estimates from the
/// drift.
fn drift(there: &Lags, back: &Lags) -> Option<(f64, f64)> {
    let hulls = [under(there)?, -under(back)?];
    let thirds = [by_thirds(there)?, -by_thirds(back)?];
    let drift = (hulls[0] + hulls[1]) / 2.0;
    let spread = |estimate: &f64| (estimate - drift).abs();
    let error = hulls.iter().chain(&thirds).map(spread).fold(0.0, f64::max);
    // With timestamps of microsecond resolution, the error is at least one microsecond over the
    // whole span.
    let span = span(there).min(span(back));
    (drift.abs() <= MAX_DRIFT).then(|| (drift, error.max(1_000.0 / span)))
}

fn span(lags: &Lags) -> f64 {
    let since = |entry: Option<(&i64, &(f64, f64))>| entry.map_or(0.0, |(_, &(since, _))| since);
    since(lags.last_key_value()) - since(lags.first_key_value())
}

/// Returns the slope of the highest line that is below all lags: the edge of their lower hull at
/// the middle of their times.
fn under(lags: &Lags) -> Option<f64> {
    if lags.len() < LEAST_WINDOWS || span(lags) < LEAST_SPAN_NS as f64 {
        return None;
    }
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for &(x, y) in lags.values() {
        while let [.., (ax, ay), (bx, by)] = hull.as_slice() {
            let turns_up = (bx - ax) * (y - ay) - (by - ay) * (x - ax);
            if turns_up > 0.0 {
                break;
            }
            hull.pop();
        }
        hull.push((x, y));
    }
    let mean = lags.values().map(|&(x, _)| x).sum::<f64>() / lags.len() as f64;
    hull.windows(2).find_map(|edge| match edge {
        &[(ax, ay), (bx, by)] if ax <= mean && mean <= bx && bx > ax => Some((by - ay) / (bx - ax)),
        _ => None,
    })
}

/// Returns the slope from the minimum lag of the first third to that of the last third.
fn by_thirds(lags: &Lags) -> Option<f64> {
    let third = lags.len() / 3;
    let least = |part: &mut dyn Iterator<Item = &(f64, f64)>| {
        part.copied().min_by(|(_, a), (_, b)| a.total_cmp(b))
    };
    let (ax, ay) = least(&mut lags.values().take(third))?;
    let (bx, by) = least(&mut lags.values().rev().take(third))?;
    (bx > ax).then(|| (by - ay) / (bx - ax))
}
