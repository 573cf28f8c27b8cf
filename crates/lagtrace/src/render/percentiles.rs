//! The rows that all tables of latencies share.

use lagtrace_core::report::Figures;

use super::quantity;

/// A figure of a distribution: its name, its value, and the number of observations from which on it
/// means something.
pub(super) type Row = (&'static str, fn(&Figures) -> u64, u64);

/// The rows, in their order in tables.
pub(super) const ROWS: [Row; 8] = [
    ("min", |f| f.min, 1),
    ("mean", |f| f.mean, 1),
    ("p50", |f| f.p50, 2),
    ("p75", |f| f.p75, 4),
    ("p90", |f| f.p90, 10),
    ("p99", |f| f.p99, 100),
    ("p99.9", |f| f.p999, 1_000),
    ("max", |f| f.max, 1),
];

/// Formats the figure of a row; `None` if there are too few observations.
pub(super) fn value(figures: &Figures, (_, figure, least): Row) -> Option<String> {
    (figures.count >= least).then(|| quantity::duration(figure(figures)))
}
