//! The raster while exchanges are collected: numbers of exchanges by time and latency.

use foldhash::fast::SeedableRandomState;
use hashbrown::HashMap;

use super::collector::ServerIndex;
use crate::exchange::wait::Owner;
use crate::observed::time::Timestamp;
use crate::report::{Cell, Raster};
use crate::service::latency_modes::lower_end;

/// Maximum number of columns.
const MAX_COLUMNS: u64 = 1024;
/// Number of cells above which columns become wider, as long as there is more than one column.
const MAX_CELLS: usize = 1 << 16;
/// Base-2 logarithm of the minimum width of a column in nanoseconds: about a microsecond, the unit
/// of most captures' timestamps.
const MIN_WIDTH: u32 = 10;
/// The row of the latencies from 1,024 ns (the first row), and the number of rows: up to 2^42 ns
/// (73 minutes). Lower and higher latencies are in the first and the last row.
const FIRST_ROW: u16 = 56;
const ROWS: u16 = 256;

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

/// Numbers of exchanges by server, column and row.
///
/// Columns have the smallest width for which neither columns nor cells are too many. It is a power
/// of two, and columns begin at its multiples since the epoch. Both numbers only grow as exchanges
/// are added, and only shrink as columns get wider. So the width depends only on the exchanges, not
/// on their order.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    /// Base-2 logarithm of the columns' width in nanoseconds.
    width: u32,
    /// The start times of the first and the last exchange.
    span: Option<(i64, i64)>,
    cells: HashMap<Place, Counts, SeedableRandomState>,
}

/// The place of a cell: the number of its column since the epoch, its server and its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Place {
    column: i64,
    server: ServerIndex,
    row: u16,
}

/// Numbers of exchanges by their dominant owner, in the order of [`ALL_OWNERS`].
type Counts = [u32; OWNERS];

impl Grid {
    pub(super) fn new(hasher: SeedableRandomState) -> Self {
        Self {
            width: MIN_WIDTH,
            span: None,
            cells: HashMap::with_hasher(hasher),
        }
    }

    /// Adds an exchange. `band` is the band of its latency, as in the latency modes.
    pub(super) fn add(&mut self, server: ServerIndex, begin: Timestamp, band: u32, owner: Owner) {
        let begin = begin.as_nanos();
        self.extend(begin, begin);
        let row = u16::try_from(band).unwrap_or(u16::MAX);
        let place = Place {
            column: begin >> self.width,
            server,
            row: row.clamp(FIRST_ROW, FIRST_ROW + ROWS - 1),
        };
        let counts = self.cells.entry(place).or_default();
        if let Some(count) = counts.get_mut(owner as usize) {
            *count = count.saturating_add(1);
        }
        self.fit();
    }

    /// Adds all exchanges of another grid. `renumbered` returns the number that a server of the
    /// other grid has in this one.
    pub(super) fn merge(&mut self, other: Self, renumbered: impl Fn(ServerIndex) -> ServerIndex) {
        let Some((first, last)) = other.span else {
            return;
        };
        self.widen(other.width);
        self.extend(first, last);
        for (place, counts) in other.cells {
            let place = Place {
                column: place.column >> (self.width - other.width),
                server: renumbered(place.server),
                row: place.row,
            };
            add(self.cells.entry(place).or_default(), counts);
        }
        self.fit();
    }

    fn extend(&mut self, from: i64, until: i64) {
        let (first, last) = self.span.unwrap_or((from, until));
        self.span = Some((first.min(from), last.max(until)));
        let mut width = self.width;
        while self.columns(width) > MAX_COLUMNS {
            width += 1;
        }
        self.widen(width);
    }

    /// Widens the columns until there are few enough cells.
    #[inline]
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
        let hasher = self.cells.hasher().clone();
        let cells = core::mem::replace(&mut self.cells, HashMap::with_hasher(hasher));
        for (place, counts) in cells {
            let column = place.column >> by;
            let place = Place { column, ..place };
            add(self.cells.entry(place).or_default(), counts);
        }
    }

    /// Returns the raster. `service` returns the service of each server.
    pub(super) fn finish(mut self, service: impl Fn(ServerIndex) -> Option<u8>) -> Raster {
        let none = ServerIndex::MAX;
        let joined = |server| service(server).map_or(none, ServerIndex::from);
        let mut of_services = Self::new(self.cells.hasher().clone());
        of_services.width = self.width;
        self.cells
            .retain(|place, _| service(place.server).is_some());
        of_services.merge(self, joined);
        of_services.raster()
    }

    fn raster(self) -> Raster {
        let rows = || self.cells.keys().map(|place| place.row);
        let (Some((first, _)), Some(low), Some(high)) = (self.span, rows().min(), rows().max())
        else {
            return Raster::default();
        };
        let start = first >> self.width;
        let mut cells: Vec<(Place, Counts)> = self.cells.iter().map(|(p, c)| (*p, *c)).collect();
        cells.sort_unstable_by_key(|(place, _)| (place.server, place.column, place.row));
        let cell = |(place, counts): &(Place, Counts)| {
            let count = counts.iter().map(|&count| u64::from(count)).sum();
            let column = u32::try_from(place.column - start).unwrap_or(u32::MAX);
            let service = u8::try_from(place.server).unwrap_or(u8::MAX);
            Cell(service, column, place.row - low, count, most(counts))
        };
        Raster {
            start_ns: start << self.width,
            column_ns: 1 << self.width,
            columns: u32::try_from(self.columns(self.width)).unwrap_or(u32::MAX),
            rows_ns: (low..=high + 1).map(|row| lower_end(row.into())).collect(),
            cells: cells.iter().map(cell).collect(),
        }
    }
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
