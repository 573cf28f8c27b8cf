//! Finds the peaks of a latency distribution.
//!
//! The input is exchanges, by bands of their latency. The output is the modes: bands around a peak
//! that a clear valley separates from the next peak, each with the waits that make up its time and
//! a few example exchanges.

use core::time::Duration;

use crate::exchange::Exchange;
use crate::exchange::wait::WaitKind;
use crate::observed::time::nanos;
use crate::registry::Id;
use crate::report::{Finding, LatencyMode};
use crate::service::Shares;
use crate::service::example::Example;
use crate::stats::Merge;
use crate::stats::histogram::Distribution;
use crate::stats::slots::Slots;

/// Base-2 logarithm of the number of bands per doubling of the latency: 8 bands, each at most an
/// eighth wide.
const BAND_BITS: u32 = 3;
/// Maximum number of exchanges shown for each mode; each band keeps only its first exchange.
const EXEMPLARS: usize = 3;
/// Minimum number of exchanges for determining modes.
const LEAST_EXCHANGES: u64 = 20;
/// Minimum share of all exchanges for a mode.
const LEAST_SHARE: f64 = 0.02;
/// Minimum number of exchanges for a mode: the number from which one kind of evidence counts as
/// strong.
const LEAST_COUNT: u64 = 5;
/// Maximum height of the valley next to a peak, as a share of the lower peak: half, the usual
/// prominence for calling a histogram bimodal.
const VALLEY: f64 = 0.5;
/// Minimum difference between the three bands at the peak and the three in the valley, in standard
/// deviations of a Poisson count; with a smaller difference the valley is chance.
const SIGMAS: f64 = 3.0;
/// Number of adjacent empty bands that always separate two peaks: half a doubling of the latency.
const EMPTY: usize = 4;
/// Minimum share of a mode's time for a kind of wait to characterize the mode.
const DOMINANT: f64 = 0.2;

/// Exchanges by bands of their latency. Bounded: eight bands for each doubling
/// that occurs.
#[derive(Clone, Debug, Default, Merge)]
pub(crate) struct Bands {
    bands: Slots<Band>,
}

#[derive(Clone, Debug, Default, Merge)]
struct Band {
    count: u64,
    waits: Shares,
    /// The band's first exchange. Of exchanges that began simultaneously, the one of the lowest
    /// client is kept, so that the order of closing has no effect.
    #[merge(with = earlier)]
    first: Option<Example>,
}

/// Keeps the example that comes first.
fn earlier(own: &mut Option<Example>, other: Option<Example>) {
    let both = own.take().into_iter().chain(other);
    *own = both.min_by_key(|example| (example.begin, example.client));
}

impl Bands {
    pub(crate) fn add_exchange(&mut self, exchange: &Exchange) {
        let number = index(exchange.latency()) as usize;
        let band = self.bands.get_or_insert_with(number, Band::default);
        band.count += 1;
        band.waits.add(&exchange.waits);
        let rank = (exchange.begin, exchange.id.client);
        let is_first = |first: &Example| rank < (first.begin, first.client);
        if band.first.as_ref().is_none_or(is_first) {
            band.first = Some(Example::of(exchange));
        }
    }

    /// Returns the modes, fastest first, of exchanges whose latencies are `latency`.
    pub(crate) fn modes(&self, latency: &Distribution, findings: &[Finding]) -> Vec<LatencyMode> {
        let total = self.count();
        let of_heap = |heap: Heap| self.mode(heap.peak, heap.bands, total, latency);
        let mut modes: Vec<LatencyMode> = self.heaps().into_iter().map(of_heap).collect();
        attribute(&mut modes, findings);
        modes
    }

    /// Returns the heaps of the modes, fastest first.
    pub(crate) fn heaps(&self) -> Vec<Heap> {
        let total = self.count();
        let (Some((first, _)), Some((last, _))) = (self.bands().next(), self.bands().next_back())
        else {
            return Vec::new();
        };
        if total < LEAST_EXCHANGES {
            return Vec::new();
        }
        let band = |index: u32| self.bands.get(index as usize);
        let count = |index: u32| band(index).map_or(0, |band| band.count);
        // The ends are padded with empty bands, so that a peak at an end counts as a peak.
        let counts: Vec<f64> = (first..=last).map(|index| count(index) as f64).collect();
        let least = (LEAST_SHARE * total as f64).max(LEAST_COUNT as f64);
        let heap = |peak: Peak| Heap {
            peak: first + peak.at,
            bands: first + peak.from..first + peak.to,
        };
        let heaps = peaks(&counts).into_iter().map(heap);
        let is_large = |heap: &Heap| heap.bands.clone().map(count).sum::<u64>() as f64 >= least;
        heaps.filter(is_large).collect()
    }

    /// Returns the number of exchanges.
    pub(crate) fn count(&self) -> u64 {
        self.bands().map(|(_, band)| band.count).sum()
    }

    /// Iterates over the bands that occur, fastest first, each with the number of its exchanges and
    /// their waits.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (u32, u64, &Shares)> {
        self.bands()
            .map(|(index, band)| (index, band.count, &band.waits))
    }

    fn bands(&self) -> impl DoubleEndedIterator<Item = (u32, &Band)> {
        self.bands
            .iter()
            .map(|(number, band)| (number as u32, band))
    }

    fn mode(
        &self,
        peak: u32,
        range: core::ops::Range<u32>,
        total: u64,
        latency: &Distribution,
    ) -> LatencyMode {
        let inside = || self.bands().filter(|(index, _)| range.contains(index));
        let mut sum = Band::default();
        for (_, band) in inside() {
            sum.count += band.count;
            sum.waits.merge(band.waits.clone());
        }
        // The bands nearest to the peak are the best examples.
        let mut near: Vec<(u32, &Band)> = inside()
            .map(|(index, band)| (index.abs_diff(peak), band))
            .collect();
        near.sort_by_key(|&(distance, _)| distance);
        let exemplars = near
            .iter()
            .filter_map(|(_, band)| band.first.as_ref())
            .map(Example::exemplar);
        let latencies = latency
            .buckets()
            .into_iter()
            .filter(|(ns, _)| range.contains(&index(Duration::from_nanos(*ns))));
        let latencies = Distribution::from_buckets(latencies);
        let at = |quantile| latencies.quantile(quantile).map_or(0, nanos);
        LatencyMode {
            count: sum.count,
            share: sum.count as f64 / total.max(1) as f64,
            low_ns: at(0.05),
            peak_ns: middle(peak),
            high_ns: at(0.95),
            waits: sum.waits.shares(),
            causes: Vec::new(),
            exemplars: exemplars.take(EXEMPLARS).collect(),
        }
    }
}

/// Assigns to each mode the findings that make it slow: those that lengthen a wait which takes much
/// of the mode's time, and more than in the fastest mode.
fn attribute(modes: &mut [LatencyMode], findings: &[Finding]) {
    let per_exchange = |mode: &LatencyMode, kind: WaitKind| {
        let times = mode.waits.iter().filter(|wait| wait.kind == kind);
        times.map(|wait| wait.total_ns).sum::<u64>() / mode.count.max(1)
    };
    let fastest: Option<LatencyMode> = modes.first().cloned();
    let is_only = modes.len() == 1;
    for (at, mode) in modes.iter_mut().enumerate() {
        let is_made_by = |finding: &&Finding| {
            let of_wait = finding.waits.iter().any(|&kind| {
                let here = per_exchange(mode, kind);
                let there = fastest.as_ref().map_or(0, |mode| per_exchange(mode, kind));
                let latency = mode.waits.iter().map(|wait| wait.total_ns).sum::<u64>();
                let whole = latency / mode.count.max(1);
                here as f64 >= DOMINANT * whole as f64 && (at == 0 || here > there)
            });
            let is_inside = finding
                .exemplars
                .iter()
                .any(|exemplar| (mode.low_ns..=mode.high_ns).contains(&exemplar.latency_ns));
            of_wait || (finding.waits.is_empty() && (is_inside || is_only))
        };
        let mut causes: Vec<Id> = Vec::new();
        let of_cause = findings.iter().filter(|finding| !finding.locates);
        for finding in of_cause.filter(is_made_by) {
            if !causes.contains(&finding.cause) {
                causes.push(finding.cause);
            }
        }
        mode.causes = causes;
    }
}

/// The bands of a mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heap {
    peak: u32,
    pub(crate) bands: core::ops::Range<u32>,
}

/// A peak: its highest band, and the bands that belong to it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Peak {
    at: u32,
    from: u32,
    to: u32,
    height: f64,
}

/// Returns the peaks that valleys separate. Starts from local maxima, and joins the least prominent
/// one with a neighbour until all remaining ones are prominent enough.
fn peaks(counts: &[f64]) -> Vec<Peak> {
    let smooth = smooth(counts);
    let height = |at: u32| smooth.get(at as usize).copied().unwrap_or_default();
    let end = u32::try_from(smooth.len()).unwrap_or(u32::MAX);
    let mut peaks: Vec<Peak> = Vec::new();
    let mut valley = 0;
    for at in 0..end {
        let before = if at == 0 { 0.0 } else { height(at - 1) };
        if height(at) < height(valley) {
            valley = at;
        }
        if height(at) > before && height(at) >= height(at + 1) && height(at) > 0.0 {
            if let Some(last) = peaks.last_mut() {
                last.to = valley.max(last.at + 1);
            }
            let from = peaks.last().map_or(0, |last| last.to);
            peaks.push(Peak {
                at,
                from,
                to: end,
                height: height(at),
            });
            valley = at;
        }
    }
    while let Some(weakest) = weakest(&peaks, counts, &height) {
        let next = peaks.remove(weakest + 1);
        if let Some(kept) = peaks.get_mut(weakest) {
            kept.to = next.to;
            if next.height > kept.height {
                (kept.at, kept.height) = (next.at, next.height);
            }
        }
    }
    peaks
}

/// Returns the index of the first of the two neighbouring peaks with the weakest separation; `None`
/// if all peaks are separated enough.
fn weakest(peaks: &[Peak], counts: &[f64], height: &impl Fn(u32) -> f64) -> Option<usize> {
    let around = |at: u32| {
        let at = at as usize;
        let bands = counts.get(at.saturating_sub(1)..counts.len().min(at + 2));
        bands.unwrap_or_default().iter().sum::<f64>()
    };
    let separation = |(at, pair): (usize, &[Peak])| {
        let [left, right] = pair else { return None };
        let between = left.at..=right.at;
        let bands = counts.get(left.at as usize..right.at as usize);
        let empty = bands.unwrap_or_default().split(|&count| count > 0.0);
        let is_gap = empty.map(<[f64]>::len).max() >= Some(EMPTY);
        let lower = left.height.min(right.height);
        let is_valley = between.clone().any(|band| height(band) <= VALLEY * lower);
        let crest = around(left.at).min(around(right.at));
        let floor = between.map(around).fold(crest, f64::min);
        let sigmas = (crest - floor) / crest.sqrt();
        let is_apart = is_gap || (is_valley && sigmas >= SIGMAS);
        (!is_apart).then_some((at, sigmas))
    };
    peaks
        .windows(2)
        .enumerate()
        .filter_map(separation)
        .min_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(at, _)| at)
}

/// Returns each band averaged with its neighbours, 1 : 2 : 1.
fn smooth(counts: &[f64]) -> Vec<f64> {
    let at = |index: Option<usize>| {
        index
            .and_then(|index| counts.get(index))
            .copied()
            .unwrap_or_default()
    };
    (0..counts.len())
        .map(|index| {
            let sides = at(index.checked_sub(1)) + at(Some(index + 1));
            (sides + 2.0 * at(Some(index))) / 4.0
        })
        .collect()
}

/// Returns the band of a latency.
pub(crate) fn index(latency: Duration) -> u32 {
    index_of_nanos(nanos(latency))
}

/// Returns the band of a latency in nanoseconds.
#[inline]
pub(crate) fn index_of_nanos(latency: u64) -> u32 {
    let ns = latency.max(1 << BAND_BITS);
    let octave = ns.ilog2() - BAND_BITS;
    let part = (ns >> octave) as u32 & ((1 << BAND_BITS) - 1);
    (octave << BAND_BITS) | part
}

/// Returns the lower end of a band, in nanoseconds; saturates above the highest band.
pub(crate) fn lower_end(index: u32) -> u64 {
    let (octave, part) = (index >> BAND_BITS, index & ((1 << BAND_BITS) - 1));
    let low = u64::from((1 << BAND_BITS) | part);
    low.saturating_mul(1_u64.checked_shl(octave).unwrap_or(u64::MAX))
}

/// Returns the middle of a band, in nanoseconds.
fn middle(index: u32) -> u64 {
    let (octave, part) = (index >> BAND_BITS, index & ((1 << BAND_BITS) - 1));
    let low = u64::from((1 << BAND_BITS) | part) << octave.min(60);
    low + ((1_u64 << octave.min(60)) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(counts: &[f64]) -> Vec<u32> {
        peaks(counts).iter().map(|peak| peak.at).collect()
    }

    #[test]
    fn two_heaps_are_two_peaks() {
        let counts = [2.0, 30.0, 30.0, 2.0, 0.0, 0.0, 0.0, 3.0, 30.0, 5.0];
        assert_eq!(at(&counts), [1, 8]);
    }

    #[test]
    fn noise_on_one_heap_is_one_peak() {
        let counts = [
            3.0, 9.0, 12.0, 8.0, 13.0, 9.0, 12.0, 6.0, 8.0, 2.0, 3.0, 0.0, 1.0,
        ];
        assert_eq!(at(&counts).len(), 1, "{:?}", peaks(&counts));
    }

    #[test]
    fn what_nothing_leads_to_is_apart() {
        let mut counts = vec![0.0; 40];
        counts.splice(3..6, [20.0, 60.0, 20.0]);
        counts[30] = 6.0;
        assert_eq!(at(&counts), [4, 30]);
    }

    #[test]
    fn a_thin_wide_heap_is_one_peak() {
        let counts = [
            1.0, 4.0, 6.0, 2.0, 5.0, 3.0, 7.0, 4.0, 2.0, 6.0, 3.0, 1.0, 2.0,
        ];
        assert_eq!(at(&counts).len(), 1, "{:?}", peaks(&counts));
    }

    #[test]
    fn peaks_cover_all_bands_without_overlap() {
        let counts = [40.0, 1.0, 0.0, 0.0, 0.0, 40.0, 0.0, 0.0, 0.0, 40.0];
        let found = peaks(&counts);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found.first().map(|peak| peak.from), Some(0));
        assert_eq!(found.last().map(|peak| peak.to), Some(10));
        assert!(found.windows(2).all(|pair| pair[0].to == pair[1].from));
    }

    #[test]
    fn bands_are_an_eighth_wide_at_most_and_in_order() {
        let mut before = 0;
        for ns in (1..2_000_000_u64).step_by(997) {
            let band = index(Duration::from_nanos(ns));
            assert!(band >= before);
            before = band;
            let off = middle(band).abs_diff(ns.max(8)) as f64;
            assert!(off <= ns.max(8) as f64 / 8.0, "{ns}");
            assert!(
                (lower_end(band)..lower_end(band + 1)).contains(&ns.max(8)),
                "{ns}"
            );
        }
        assert!(index(Duration::MAX) < 62 << BAND_BITS);
    }
}
