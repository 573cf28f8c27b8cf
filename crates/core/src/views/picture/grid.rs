//! The raster while exchanges are collected: numbers of exchanges by time and latency.

use super::services::{BEYOND, ServerIndex};
use crate::exchange::wait::{Owner, Wait};
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

/// Numbers of exchanges by their dominant owner, in the order of [`ALL_OWNERS`].
type Counts = [u64; OWNERS];

/// Numbers of exchanges by column, server, row and dominant owner.
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
    /// The cells in the order of their places.
    cells: Vec<Count>,
    /// The latest exchanges, which are not in the cells yet: start time and place in column 0.
    recent: Vec<(i64, Place)>,
}

/// A cell's place and its number of exchanges.
type Count = (Place, u32);

/// The place of an exchange, from the highest bits down: the column, counted from the first one;
/// the server; the row; the owner. One number, because numbers are sorted fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place(u32);

impl Place {
    const SERVER: u32 = 11;
    const ROW: u32 = 8;
    const OWNER: u32 = 3;
    const COLUMN_AT: u32 = Self::SERVER + Self::ROW + Self::OWNER;

    fn new(server: ServerIndex, row: u8, owner: Owner) -> Self {
        let server = u32::from(server) << (Self::ROW + Self::OWNER);
        Self(server | u32::from(row) << Self::OWNER | owner as u32)
    }

    fn column(self) -> u32 {
        self.0 >> Self::COLUMN_AT
    }

    fn server(self) -> ServerIndex {
        let server = self.0 >> (Self::ROW + Self::OWNER) & ((1 << Self::SERVER) - 1);
        server as ServerIndex
    }

    fn row(self) -> u8 {
        (self.0 >> Self::OWNER) as u8
    }

    fn owner(self) -> usize {
        (self.0 & ((1 << Self::OWNER) - 1)) as usize
    }

    fn in_column(self, column: u32) -> Self {
        Self(self.0 & ((1 << Self::COLUMN_AT) - 1) | column << Self::COLUMN_AT)
    }

    fn of_server(self, server: ServerIndex) -> Self {
        let mask = ((1 << Self::SERVER) - 1) << (Self::ROW + Self::OWNER);
        Self(self.0 & !mask | u32::from(server) << (Self::ROW + Self::OWNER))
    }
}

const _: () = assert!(MAX_COLUMNS <= 1 << (u32::BITS - Place::COLUMN_AT));
const _: () = assert!((BEYOND as u32) < 1 << Place::SERVER);
const _: () = assert!(OWNERS <= 1 << Place::OWNER);

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
        let row = u8::try_from(row).unwrap_or(u8::MAX);
        let place = Place::new(server, row, owner);
        self.recent.push((begin.as_nanos(), place));
        if self.recent.len() >= MAX_RECENT {
            self.settle();
        }
    }

    /// Moves the latest exchanges to the cells.
    fn settle(&mut self) {
        let recent = core::mem::take(&mut self.recent);
        let begins = || recent.iter().map(|(begin, _)| *begin);
        if let (Some(first), Some(last)) = (begins().min(), begins().max()) {
            self.extend(first, last, self.width);
            let columns = recent.iter().map(|(begin, _)| self.column(*begin));
            let places = columns.zip(&recent);
            let places = places.map(|(column, (_, place))| (place.in_column(column), 1));
            self.insert(places.collect());
            self.fit();
        }
        self.recent = recent;
        self.recent.clear();
    }

    /// Adds all exchanges of another grid. `renumbered` returns the number that a server of the
    /// other grid has in this one.
    pub(super) fn merge(
        &mut self,
        mut other: Self,
        renumbered: impl Fn(ServerIndex) -> ServerIndex,
    ) {
        let Self {
            width: _,
            span: _,
            cells: _,
            recent: _,
        } = other;
        self.settle();
        other.settle();
        let Some((first, last)) = other.span else {
            return;
        };
        self.extend(first, last, other.width);
        let (first, last) = self.span.unwrap_or((first, last));
        other.extend(first, last, self.width);
        for (place, _) in &mut other.cells {
            *place = place.of_server(renumbered(place.server()));
        }
        self.insert(other.cells);
        self.fit();
    }

    /// Adds numbers of exchanges in any order.
    fn insert(&mut self, mut cells: Vec<Count>) {
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

    /// Extends the span to these times, and makes columns at least as wide as this and as their
    /// number demands.
    fn extend(&mut self, from: i64, until: i64, width: u32) {
        let (first, last) = self.span.unwrap_or((from, until));
        let span = (first.min(from), last.max(until));
        let mut width = self.width.max(width);
        while columns(span, width) > MAX_COLUMNS {
            width += 1;
        }
        self.replace(span, width);
    }

    /// Widens the columns until there are few enough cells.
    fn fit(&mut self) {
        let span = self.span.unwrap_or_default();
        while self.cells.len() > MAX_CELLS && columns(span, self.width) > 1 {
            self.replace(span, self.width + 1);
        }
    }

    /// Moves all cells to the columns of another span and width, of which there must be few enough.
    fn replace(&mut self, span: (i64, i64), width: u32) {
        let before = (self.span.map(|span| span.0), self.width);
        let first = before.0.unwrap_or_default() >> before.1;
        (self.span, self.width) = (Some(span), width);
        let is_same = before.0.map(|start| start >> width) == Some(span.0 >> width);
        if is_same && before.1 == width {
            return;
        }
        let start = span.0 >> width;
        for (place, _) in &mut self.cells {
            let column = first.saturating_add(place.column().into());
            let column = (column >> (width - before.1)).wrapping_sub(start);
            *place = place.in_column(column as u32);
        }
        if before.1 != width {
            // Columns stay in order; only the cells that are now in one column are mixed.
            let is_same = |one: &Count, next: &Count| one.0.column() == next.0.column();
            for column in self.cells.chunk_by_mut(is_same) {
                column.sort_unstable_by_key(|(place, _)| *place);
            }
            join(&mut self.cells);
        }
    }

    /// Returns the column of a time within the span.
    fn column(&self, begin: i64) -> u32 {
        let start = self.span.map_or(begin, |span| span.0) >> self.width;
        (begin >> self.width).wrapping_sub(start) as u32
    }

    /// Returns the raster. `service` returns the service of each server.
    pub(super) fn finish(mut self, service: impl Fn(ServerIndex) -> Option<u8>) -> Raster {
        self.settle();
        let mut cells: Vec<(u8, Place, u32)> = Vec::with_capacity(self.cells.len());
        for &(place, count) in &self.cells {
            // The server's bits are cleared, so that cells of a service follow each other.
            let place_in = |service| (service, place.of_server(0), count);
            cells.extend(service(place.server()).map(place_in));
        }
        cells.sort_unstable_by_key(|(service, place, _)| {
            u64::from(*service) << 32 | u64::from(place.0)
        });
        self.raster(&cells)
    }

    fn raster(&self, cells: &[(u8, Place, u32)]) -> Raster {
        let rows = || cells.iter().map(|(_, place, _)| place.row());
        let columns = || cells.iter().map(|(_, place, _)| place.column());
        let ends = (rows().min(), rows().max(), columns().min(), columns().max());
        let (Some(low), Some(high), Some(left), Some(right)) = ends else {
            return Raster::default();
        };
        let key = |(service, place, _): &(u8, Place, u32)| (*service, place.column(), place.row());
        let of_place = cells.chunk_by(|one, next| key(one) == key(next));
        let cell = |parts: &[(u8, Place, u32)]| {
            let (service, column, row) = parts.first().map(key)?;
            let mut counts = Counts::default();
            for (_, place, count) in parts {
                if let Some(sum) = counts.get_mut(place.owner()) {
                    *sum += u64::from(*count);
                }
            }
            let row = u16::from(row - low);
            Some(Cell(
                service,
                column - left,
                row,
                counts.iter().sum(),
                most(&counts),
            ))
        };
        let bound = |row: u32| lower_end(FIRST_ROW + row);
        let first = self.span.unwrap_or_default().0 >> self.width;
        Raster {
            start_ns: (first + i64::from(left)) << self.width,
            column_ns: 1 << self.width,
            columns: right - left + 1,
            rows_ns: (low.into()..=u32::from(high) + 1).map(bound).collect(),
            cells: of_place.filter_map(cell).collect(),
        }
    }
}

/// Returns the number of columns of this width in a span.
fn columns((first, last): (i64, i64), width: u32) -> u64 {
    (last >> width).abs_diff(first >> width) + 1
}

/// Adds up numbers of the same place, which follow each other.
fn join(cells: &mut Vec<Count>) {
    cells.dedup_by(|(next, count), (place, sum)| {
        let is_same = next == place;
        if is_same {
            *sum = sum.saturating_add(*count);
        }
        is_same
    });
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
pub(super) fn dominant(waits: &[Wait]) -> Owner {
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
