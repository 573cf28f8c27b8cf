//! The time by kind of wait in parts of the latency distribution.

use core::ops::RangeBounds;
use core::time::Duration;

use super::services::PicturedServices;
use crate::report::{Part, PartShares, Report};
use crate::service::latency_modes::{Bands, Heap, index};
use crate::service::{Ledger, Shares};
use crate::stats::Merge;
use crate::stats::histogram::Distribution;

/// Returns the shares of all exchanges, then those of each service.
pub(super) fn shares(services: &PicturedServices, report: &Report) -> Vec<PartShares> {
    let all = &services.all;
    // The report's modes are those of the same exchanges.
    let mut heaps = all.latency.bands.heaps();
    heaps.truncate(report.exchanges.modes.len());
    let each = services.ledgers.iter().zip(0..);
    let each = each.map(|(ledger, place)| (Some(place), ledger));
    let of = |(service, ledger)| parts(service, ledger, &heaps);
    core::iter::once((None, all))
        .chain(each)
        .flat_map(of)
        .collect()
}

fn parts(service: Option<u8>, ledger: &Ledger, modes: &[Heap]) -> Vec<PartShares> {
    let part = |part, mode, bands: core::ops::RangeInclusive<u32>| {
        let shares = Sum::of(&ledger.latency.bands, &bands).shares(&ledger.latency.all, &bands);
        PartShares {
            service,
            part,
            mode,
            ..shares
        }
    };
    let bands = &ledger.latency.bands;
    let (median, p99) = (band_at(bands, 0.5), band_at(bands, 0.99));
    let mut list = vec![
        part(Part::All, None, 0..=u32::MAX),
        part(Part::Median, None, median..=median),
        part(Part::P99, None, p99..=p99),
        part(Part::Slowest, None, p99..=u32::MAX),
    ];
    for (heap, number) in modes.iter().zip(0..) {
        let bands = heap.bands.start..=heap.bands.end.saturating_sub(1);
        list.push(part(Part::Mode, Some(number), bands));
    }
    list.retain(|part| part.count > 0);
    list
}

/// Returns the band that contains the quantile.
fn band_at(bands: &Bands, quantile: f64) -> u32 {
    let wanted = (quantile * bands.count() as f64).ceil().max(1.0) as u64;
    let mut seen = 0;
    let mut rows = bands.rows();
    let reaches = rows.find(|(_, count, _)| {
        seen += count;
        seen >= wanted
    });
    reaches.map_or(0, |(index, ..)| index)
}

/// The exchanges of some bands.
#[derive(Default)]
struct Sum {
    count: u64,
    waits: Shares,
}

impl Sum {
    fn of(bands: &Bands, range: &impl RangeBounds<u32>) -> Self {
        let mut sum = Self::default();
        for (_, count, waits) in bands.rows().filter(|(index, ..)| range.contains(index)) {
            sum.count += count;
            sum.waits.merge(waits.clone());
        }
        sum
    }

    /// Returns the shares; `latency` contains the latencies of these and other exchanges.
    fn shares(self, latency: &Distribution, range: &impl RangeBounds<u32>) -> PartShares {
        let values = latency.buckets().into_iter().map(|(value, _)| value);
        let inside = values.filter(|ns| range.contains(&index(Duration::from_nanos(*ns))));
        let mut ends = inside.peekable();
        let low_ns = ends.peek().copied().unwrap_or_default();
        PartShares {
            service: None,
            part: Part::All,
            mode: None,
            count: self.count,
            low_ns,
            high_ns: ends.last().unwrap_or_default(),
            mean_ns: self.waits.total() / self.count.max(1),
            waits: self.waits.shares(),
        }
    }
}
