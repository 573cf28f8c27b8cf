//! Confidence intervals by resampling clusters.
//!
//! Requests are not independent of each other: those in one second share its disturbances, and
//! those of one group share their connections. Intervals that treat them as independent are far too
//! narrow. So whole seconds and whole groups are drawn with replacement, independently of each
//! other. The weight of a cluster is the product of both draws (the pigeonhole bootstrap: Owen,
//! "The pigeonhole bootstrap", Annals of Applied Statistics 1(2), 2007). The intervals are rather
//! too wide than too narrow. Resampling cannot show differences between whole runs (another hour,
//! another neighbour on the host).

use std::collections::{BTreeMap, BTreeSet};

use super::generator::SplitMix64;
use crate::report::Cluster;

/// Minimum number of clusters for an interval. Resampling fewer clusters would suggest a precision
/// that does not exist.
pub(crate) const LEAST_CLUSTERS: usize = 10;
/// Maximum number of `(bucket, count)` pairs that a resample adds up. It bounds the work for
/// reports of any size.
const MOST_ENTRIES: usize = 60_000;
/// Maximum numbers of seconds and of groups, which also bound the work. If there are more,
/// neighbours are merged.
const MOST_SECONDS: usize = 600;
const MOST_GROUPS: usize = 64;
/// Minimum degrees of freedom. A load with fewer (its seconds minus 1) widens the intervals as much
/// as this number.
const LEAST_FREEDOM: usize = 4;

/// The figures of a sample or a resample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Estimate {
    /// Mean latency in nanoseconds.
    pub(crate) mean: f64,
    /// Median, 90th and 99th percentile in nanoseconds.
    pub(crate) quantiles: [f64; 3],
    /// Number of requests in the sample.
    pub(crate) requests: f64,
    /// Number of failed requests divided by the number of all requests, 0 to 1.
    pub(crate) failed: f64,
}

const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// The clusters of a run, in a layout that is quick to weigh.
#[derive(Clone, Debug)]
pub(crate) struct RunClusters {
    /// The distinct latencies in ascending order, in nanoseconds.
    values: Vec<f64>,
    cells: Vec<Cell>,
    seconds: usize,
    groups: usize,
}

/// A cluster. `second`, `group` and the first part of each entry are indices into its sample.
#[derive(Clone, Debug)]
struct Cell {
    second: usize,
    group: usize,
    failures: f64,
    entries: Vec<(usize, f64)>,
}

/// A cluster while its requests are added up.
#[derive(Clone, Debug, Default)]
struct ClusterSum {
    failures: f64,
    entries: BTreeMap<usize, f64>,
}

impl From<((usize, usize), ClusterSum)> for Cell {
    fn from(((second, group), tally): ((usize, usize), ClusterSum)) -> Self {
        let entries = tally.entries.into_iter().collect();
        Self {
            second,
            group,
            failures: tally.failures,
            entries,
        }
    }
}

/// The indices along one axis. If there are too many items, neighbours share an index.
struct Axis<T> {
    items: Vec<T>,
    pooled: usize,
}

impl<T: Ord> Axis<T> {
    fn new(items: impl Iterator<Item = T>, most: usize) -> Self {
        let items = distinct(items);
        let pooled = items.len().div_ceil(most).max(1);
        Self { items, pooled }
    }

    fn place(&self, item: &T) -> usize {
        self.items.binary_search(item).unwrap_or_default() / self.pooled
    }

    fn len(&self) -> usize {
        self.items.len().div_ceil(self.pooled)
    }
}

impl RunClusters {
    /// Makes the sample of these clusters; `None` if they are fewer than [`LEAST_CLUSTERS`].
    pub(crate) fn new(clusters: &[Cluster]) -> Option<Self> {
        let clusters: Vec<&Cluster> = clusters
            .iter()
            .filter(|c| !c.latency.is_empty() || c.failures > 0)
            .collect();
        if clusters.len() < LEAST_CLUSTERS {
            return None;
        }
        let dropped_bits = coarseness(&clusters);
        let bin = |value: u64| coarse(value, dropped_bits);
        let values = distinct(
            clusters
                .iter()
                .flat_map(|c| c.latency.buckets())
                .map(|b| bin(b.0)),
        );
        let seconds = Axis::new(clusters.iter().map(|c| c.second), MOST_SECONDS);
        let groups = Axis::new(clusters.iter().map(|c| c.group), MOST_GROUPS);
        let mut cells: BTreeMap<(usize, usize), ClusterSum> = BTreeMap::new();
        for cluster in clusters {
            let place = (seconds.place(&cluster.second), groups.place(&cluster.group));
            let cell = cells.entry(place).or_default();
            cell.failures += cluster.failures as f64;
            for (value, count) in cluster.latency.buckets() {
                let at = values.binary_search(&bin(value)).unwrap_or_default();
                *cell.entries.entry(at).or_default() += count as f64;
            }
        }
        Some(Self {
            values: values.iter().map(|&value| value as f64).collect(),
            cells: cells.into_iter().map(Cell::from).collect(),
            seconds: seconds.len(),
            groups: groups.len(),
        })
    }

    /// Returns the number of clusters.
    pub(crate) fn clusters(&self) -> usize {
        self.cells.len()
    }

    /// Returns the figures of the sample itself.
    pub(crate) fn estimate(&self) -> Estimate {
        self.weigh(
            &vec![1.0; self.seconds],
            &vec![1.0; self.groups],
            &mut Vec::new(),
        )
    }

    /// Returns the figures of `count` resamples.
    pub(crate) fn resample(&self, count: usize, generator: &mut SplitMix64) -> Vec<Estimate> {
        let mut counts = Vec::new();
        (0..count)
            .map(|_| {
                let seconds = draw(self.seconds, generator);
                let groups = draw(self.groups, generator);
                self.weigh(&seconds, &groups, &mut counts)
            })
            .collect()
    }

    /// Returns the factor by which percentile intervals are widened, because few seconds
    /// underestimate the variance. It is the quantile of Student's t divided by the normal
    /// quantile, times the square root of n / (n - 1).
    pub(crate) fn widening(&self) -> f64 {
        let freedom = self.seconds.saturating_sub(1).max(LEAST_FREEDOM) as f64;
        let (z, z3, z5) = (1.96, 1.96_f64.powi(3), 1.96_f64.powi(5));
        // Abramowitz and Stegun 26.7.5; the error is within 0.5 % from 4 degrees of freedom on.
        let t = z
            + (z3 + z) / (4.0 * freedom)
            + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * freedom.powi(2));
        t / z * ((freedom + 1.0) / freedom).sqrt()
    }

    fn weigh(&self, seconds: &[f64], groups: &[f64], counts: &mut Vec<f64>) -> Estimate {
        counts.clear();
        counts.resize(self.values.len(), 0.0);
        let mut failures = 0.0;
        for cell in &self.cells {
            let of = |weights: &[f64], at| weights.get(at).copied().unwrap_or_default();
            let weight = of(seconds, cell.second) * of(groups, cell.group);
            if weight == 0.0 {
                continue;
            }
            failures += weight * cell.failures;
            for &(at, count) in &cell.entries {
                if let Some(sum) = counts.get_mut(at) {
                    *sum += weight * count;
                }
            }
        }
        summarise(&self.values, counts, failures)
    }
}

/// Returns the number of times that each of `len` items is drawn in `len` draws.
fn draw(len: usize, generator: &mut SplitMix64) -> Vec<f64> {
    let mut weights = vec![0.0; len];
    for _ in 0..len {
        if let Some(weight) = weights.get_mut(generator.index(len)) {
            *weight += 1.0;
        }
    }
    weights
}

fn summarise(values: &[f64], counts: &[f64], failures: f64) -> Estimate {
    let requests: f64 = counts.iter().sum();
    let total: f64 = values
        .iter()
        .zip(counts)
        .map(|(value, count)| value * count)
        .sum();
    let mut quantiles = [0.0; 3];
    let mut wanted = QUANTILES.iter().zip(&mut quantiles).peekable();
    let mut seen = 0.0;
    for (&value, &count) in values.iter().zip(counts) {
        seen += count;
        while let Some((_, slot)) =
            wanted.next_if(|(quantile, _)| seen > 0.0 && seen >= (*quantile * requests).ceil())
        {
            *slot = value;
        }
    }
    let all = requests.max(failures).max(1.0);
    Estimate {
        mean: if requests > 0.0 {
            total / requests
        } else {
            0.0
        },
        quantiles,
        requests,
        failed: failures / all,
    }
}

/// Returns the 95 % interval of the difference `after - before`, from the percentiles of the
/// resampled differences. It is widened by the factor `widening`, and extended to include
/// `difference` itself.
pub(crate) fn interval(difference: f64, mut resampled: Vec<f64>, widening: f64) -> (f64, f64) {
    resampled.retain(|d| d.is_finite());
    resampled.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let last = resampled.len().saturating_sub(1) as f64;
        resampled
            .get((share * last).round() as usize)
            .copied()
            .unwrap_or(difference)
    };
    let centre = at(0.5);
    let low = centre + (at(0.025) - centre) * widening;
    let high = centre + (at(0.975) - centre) * widening;
    (low.min(difference), high.max(difference))
}

/// Returns the number of leading bits of a latency to drop, so that at most [`MOST_ENTRIES`] pairs
/// remain.
fn coarseness(clusters: &[&Cluster]) -> u32 {
    (0..u64::BITS)
        .find(|&bits| {
            let bins = |c: &&Cluster| {
                let mut bins: Vec<u64> = c
                    .latency
                    .buckets()
                    .iter()
                    .map(|b| coarse(b.0, bits))
                    .collect();
                bins.dedup();
                bins.len()
            };
            clusters.iter().map(bins).sum::<usize>() <= MOST_ENTRIES.max(clusters.len())
        })
        .unwrap_or(u64::BITS)
}

/// Returns the upper end of the bucket that contains `value`. The values in a bucket agree in their
/// 11 - `dropped` leading bits.
fn coarse(value: u64, dropped: u32) -> u64 {
    let length = u64::BITS - value.leading_zeros();
    let low = (length.saturating_sub(11) + dropped).min(length.saturating_sub(1));
    if dropped == 0 {
        value
    } else {
        value | ((1_u64 << low) - 1)
    }
}

fn distinct<T: Ord>(items: impl Iterator<Item = T>) -> Vec<T> {
    items.collect::<BTreeSet<T>>().into_iter().collect()
}
