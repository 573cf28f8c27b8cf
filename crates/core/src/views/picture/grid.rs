//! The raster while exchanges are collected: numbers of exchanges by time and latency.

use super::collector::ServerIndex;
use crate::exchange::wait::Owner;
use crate::observed::time::Timestamp;
use crate::report::{Cell, Raster};
use crate::service::latency_modes::lower_end;

/// Maximum number of columns.
const MAX_COLUMNS: u64 = 1024;
/// Number of cells, counted for each owner, above which columns become wider, as long as there is
/// more than one column.
const MAX_CELLS: usize = 1 << 16;
/// Base-2 logarithm of the minimum width of a column in nanoseconds: about a microsecond, the unit
/// of most captures' timestamps.
const MIN_WIDTH: u32 = 10;
/// The band of the first row, which begins at 1,024 ns. There are 256 rows, up to 2^42 ns (73
/// minutes). Lower and higher latencies are in the first and the last row.
const FIRST_ROW: u32 = 56;

/// Number of exchanges that are collected before they are moved to the cells.
const MAX_RECENT: usize = 4096;

/// The number of owners.
const OWNERS: usize = 6;
const ALL_OWNERS: [Owner; OWNERS] = [
    Owner::Client,
    Owner::Server,
    Owner::Path,
    Owner::Resolver,
    Owner::Proxy,
    Owner::Unknown,
];

/// A cell of a service: its service, column and row.
type Placed = ((u8, i64, u8), Counts);

/// Numbers of exchanges by their dominant owner, in the order of [`ALL_OWNERS`].
type Counts = [u64; OWNERS];

/// Numbers of exchanges by server, column, row and dominant owner.
///
/// Columns have the smallest width for which neither columns nor cells are too many. It is a power
/// of two, and columns begin at its multiples since the epoch. Both numbers only grow as exchanges
/// are added, and only shrink as columns get wider. So the width depends only on the exchanges, not
/// on their order.
// Adding only appends: a search among all cells would be a cache miss for each exchange.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    /// Base-2 logarithm of the columns' width in nanoseconds.
    width: u32,
    /// The start times of the first and the last exchange.
    span: Option<(i64, i64)>,
    /// The numbers of exchanges, in the order of their places.
    cells: Vec<(Place, u32)>,
    /// The latest exchanges, which are not in the cells yet: their start times instead of columns.
    recent: Vec<Place>,
}

/// The place of an exchange: the number of its column since the epoch, its server, row and owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    column: i64,
    server: ServerIndex,
    row: u8,
    owner: Owner,
}

impl Default for Grid {
    fn default() -> Self {
        Self {
            width: MIN_WIDTH,
            span: None,
            cells: Vec::new(),
            recent: Vec::new(),
        }
    }
}

impl Grid {
    /// Adds an exchange. `band` is the band of its latency, as in the latency modes.
    #[inline]
    pub(super) fn add(&mut self, server: ServerIndex, begin: Timestamp, band: u32, owner: Owner) {
        let row = band.saturating_sub(FIRST_ROW);
        self.recent.push(Place {
            column: begin.as_nanos(),
            server,
            row: u8::try_from(row).unwrap_or(u8::MAX),
            owner,
        });
        if self.recent.len() >= MAX_RECENT {
            self.settle();
        }
    }

    /// Moves the latest exchanges to the cells.
    fn settle(&mut self) {
        let mut recent = core::mem::take(&mut self.recent);
        for place in &recent {
            self.extend(place.column, place.column);
        }
        self.widen(self.least_width());
        for place in &mut recent {
            place.column >>= self.width;
        }
        self.insert(recent.iter().map(|place| (*place, 1)).collect());
        self.fit();
        recent.clear();
        self.recent = recent;
    }

    /// Adds all exchanges of another grid. `renumbered` returns the number that a server of the
    /// other grid has in this one.
    pub(super) fn merge(
        &mut self,
        mut other: Self,
        renumbered: impl Fn(ServerIndex) -> ServerIndex,
    ) {
        self.settle();
        other.settle();
        let Some((first, last)) = other.span else {
            return;
        };
        self.extend(first, last);
        self.widen(self.least_width().max(other.width));
        other.widen(self.width);
        for (place, _) in &mut other.cells {
            place.server = renumbered(place.server);
        }
        self.insert(other.cells);
        self.fit();
    }

    /// Adds numbers of exchanges, in any order, in columns of the current width.
    fn insert(&mut self, mut cells: Vec<(Place, u32)>) {
        cells.sort_unstable_by_key(|(place, _)| *place);
        let Some((first, _)) = cells.first() else {
            return;
        };
        // Exchanges close nearly in the order in which they began: most cells stay where they are.
        let kept = self.cells.partition_point(|(place, _)| place < first);
        cells.extend(self.cells.drain(kept..));
        cells.sort_by_key(|(place, _)| *place);
        self.cells.append(&mut cells);
        join(&mut self.cells);
    }

    fn extend(&mut self, from: i64, until: i64) {
        let (first, last) = self.span.unwrap_or((from, until));
        self.span = Some((first.min(from), last.max(until)));
    }

    /// Returns the least width, from the current one up, for which columns are few enough.
    fn least_width(&self) -> u32 {
        let mut width = self.width;
        while self.columns(width) > MAX_COLUMNS {
            width += 1;
        }
        width
    }

    /// Widens the columns until there are few enough cells.
    fn fit(&mut self) {
        while self.cells.len() > MAX_CELLS && self.columns(self.width) > 1 {
            self.widen(self.width + 1);
        }
    }

    /// Returns the number of columns of this width.
    fn columns(&self, width: u32) -> u64 {
        let (first, last) = self.span.unwrap_or_default();
        (last >> width).abs_diff(first >> width) + 1
    }

    fn widen(&mut self, width: u32) {
        let Some(by @ 1..) = width.checked_sub(self.width) else {
            return;
        };
        self.width = width;
        for (place, _) in &mut self.cells {
            place.column >>= by;
        }
        // Stable, because it makes use of the order that is left.
        self.cells.sort_by_key(|(place, _)| *place);
        join(&mut self.cells);
    }

    /// Returns the raster. `service` returns the service of each server.
    pub(super) fn finish(mut self, service: impl Fn(ServerIndex) -> Option<u8>) -> Raster {
        self.settle();
        let mut cells: Vec<Placed> = Vec::with_capacity(self.cells.len());
        for (place, count) in &self.cells {
            let Some(service) = service(place.server) else {
                continue;
            };
            let mut counts = Counts::default();
            if let Some(own) = counts.get_mut(place.owner as usize) {
                *own = u64::from(*count);
            }
            cells.push(((service, place.column, place.row), counts));
        }
        cells.sort_by_key(|(place, _)| *place);
        // Owners share a cell, and so do servers of one service.
        cells.dedup_by(|(next, counts), (place, sum)| {
            let is_same = next == place;
            if is_same {
                add(sum, *counts);
            }
            is_same
        });
        self.raster(&cells)
    }

    fn raster(&self, cells: &[Placed]) -> Raster {
        let rows = || cells.iter().map(|((.., row), _)| *row);
        let columns = || cells.iter().map(|((_, column, _), _)| *column);
        let ends = (rows().min(), rows().max(), columns().min(), columns().max());
        let (Some(low), Some(high), Some(start), Some(end)) = ends else {
            return Raster::default();
        };
        let cell = |((service, column, row), counts): &Placed| {
            let column = u32::try_from(column - start).unwrap_or(u32::MAX);
            let row = u16::from(row - low);
            Cell(*service, column, row, counts.iter().sum(), most(counts))
        };
        let bound = |row: u32| lower_end(FIRST_ROW + row);
        Raster {
            start_ns: start << self.width,
            column_ns: 1 << self.width,
            columns: u32::try_from(end - start + 1).unwrap_or(u32::MAX),
            rows_ns: (low.into()..=u32::from(high) + 1).map(bound).collect(),
            cells: cells.iter().map(cell).collect(),
        }
    }
}

/// Adds up numbers of the same place, which follow each other.
fn join(cells: &mut Vec<(Place, u32)>) {
    cells.dedup_by(|(next, count), (place, sum)| {
        let is_same = next == place;
        if is_same {
            *sum = sum.saturating_add(*count);
        }
        is_same
    });
}

fn add(sum: &mut Counts, counts: Counts) {
    for (sum, count) in sum.iter_mut().zip(counts) {
        *sum = sum.saturating_add(count);
    }
}

/// Returns the owner of most exchanges; of several owners of equally many, the first one.
fn most(counts: &Counts) -> Owner {
    let mut most = (Owner::Unknown, 0);
    for (owner, &count) in ALL_OWNERS.into_iter().zip(counts) {
        if count > most.1 {
            most = (owner, count);
        }
    }
    most.0
}

/// Returns the owner of most of an exchange's time; of several owners of equally much, the first
/// one; `Unknown` if there is no time.
pub(super) fn dominant(waits: &[crate::exchange::wait::Wait]) -> Owner {
    let mut sums = [0_u64; OWNERS];
    for wait in waits {
        if let Some(sum) = sums.get_mut(wait.owner as usize) {
            *sum = sum.saturating_add(wait.nanos());
        }
    }
    let mut most = (Owner::Unknown, 0);
    for (owner, sum) in ALL_OWNERS.into_iter().zip(sums) {
        if sum > most.1 {
            most = (owner, sum);
        }
    }
    most.0
}
