//! The confusion matrix: the cause found first, by the expected cause.
//!
//! Causes have long names, so columns are labelled with letters. If a row's cause also has a
//! column, the row begins with that column's letter; a legend below explains the other letters.

use lagtrace_core::registry::Id;

use crate::lab::score::case::Kind;
use crate::lab::score::sum::Confused;
use crate::render::page::{Page, Tone, length};
use crate::render::table::{Align, Cell, Table, cell, dim, plain};

/// The letter of the column for diagnoses without a finding.
const NOTHING: &str = "–";

/// A row: the kind of case, and the expected cause, if any.
type Row<'a> = (Kind, Option<&'a str>);

/// A column: its letter, and the cause found, if any.
type Column<'a> = (String, Option<&'a str>);

/// Writes the matrix, in several parts if it is wider than the page.
pub(super) fn write(page: &mut Page, confusion: &[Confused]) {
    let mut columns: Vec<_> = confusion
        .iter()
        .map(|one| one.found.map(Id::as_str))
        .collect();
    // The column without a finding comes last.
    columns.sort_unstable_by_key(|found| (found.is_none(), *found));
    columns.dedup();
    let mut rows: Vec<Row<'_>> = confusion
        .iter()
        .map(|c| (c.kind, c.expected.map(Id::as_str)))
        .collect();
    rows.sort_unstable();
    rows.dedup();
    let keyed: Vec<_> = columns
        .iter()
        .enumerate()
        .map(|(n, &found)| (key(n, found), found))
        .collect();
    page.heading("First finding, by expected cause");
    let label = rows.iter().map(|row| length(&name(*row))).max();
    // The room for the columns: the width without the indent, the gaps, and the letters and names
    // of the rows.
    let room = page
        .width()
        .saturating_sub(2 + 2 + 2 + label.unwrap_or_default());
    for part in parts(&keyed, confusion, room) {
        page.table(2, &table(&rows, part, &keyed, confusion));
    }
    legend(page, &rows, &keyed);
}

/// Splits the columns into parts that fit into `room`, each with at least one column.
fn parts<'k, 'a>(
    mut columns: &'k [Column<'a>],
    confusion: &[Confused],
    room: usize,
) -> Vec<&'k [Column<'a>]> {
    let width = |(key, found): &Column<'_>| {
        let own = confusion
            .iter()
            .filter(|c| c.found.map(Id::as_str) == *found);
        let digits = own.map(|c| c.count.to_string().len()).max();
        2 + digits.unwrap_or_default().max(length(key))
    };
    let mut parts = Vec::new();
    while !columns.is_empty() {
        let mut used = 0;
        let fits = columns.iter().take_while(|column| {
            used += width(column);
            used <= room
        });
        let (part, rest) = columns.split_at(fits.count().max(1));
        parts.push(part);
        columns = rest;
    }
    parts
}

fn table(
    rows: &[Row<'_>],
    part: &[Column<'_>],
    all: &[Column<'_>],
    confusion: &[Confused],
) -> Table {
    let mut columns = vec![(Align::Left, ""), (Align::Name, "expected")];
    columns.extend(part.iter().map(|(key, _)| (Align::Right, &**key)));
    let mut table = Table::new(&columns);
    for &row in rows {
        let count = |found: Option<&str>| {
            let is_it = |c: &&Confused| {
                (c.kind, c.expected.map(Id::as_str), c.found.map(Id::as_str))
                    == (row.0, row.1, found)
            };
            confusion.iter().filter(is_it).map(|c| c.count).sum()
        };
        if part.iter().all(|&(_, found)| count(found) == 0) {
            continue;
        }
        let own = all
            .iter()
            .find(|(_, found)| found.is_some() && *found == row.1);
        let mut cells = vec![
            dim(own.map_or("", |(key, _)| key)),
            match row.0 {
                Kind::Known => plain(name(row)),
                Kind::Hidden | Kind::Healthy => dim(name(row)),
            },
        ];
        cells.extend(
            part.iter()
                .map(|&(_, found)| number(count(found), row, found)),
        );
        table.row(cells);
    }
    table
}

fn number(count: usize, (kind, expected): Row<'_>, found: Option<&str>) -> Cell {
    let is_right = match kind {
        Kind::Known => found == expected,
        // A finding may correctly name the visible effect of a hidden fault. Untrue findings are in
        // the list of wrong diagnoses.
        Kind::Hidden if found.is_some() => return plain_or_dot(count),
        Kind::Hidden | Kind::Healthy => found.is_none(),
    };
    match count {
        0 => dim("·"),
        _ if is_right => cell(Tone::Good, count.to_string()),
        _ => cell(Tone::Bad, count.to_string()),
    }
}

fn plain_or_dot(count: usize) -> Cell {
    match count {
        0 => dim("·"),
        _ => plain(count.to_string()),
    }
}

fn name((kind, expected): Row<'_>) -> String {
    match (kind, expected) {
        (Kind::Hidden, Some(cause)) => format!("{cause} (hidden)"),
        (_, Some(cause)) => cause.to_owned(),
        (_, None) => "healthy".to_owned(),
    }
}

/// Writes the legend of the letters that no row explains.
fn legend(page: &mut Page, rows: &[Row<'_>], keyed: &[Column<'_>]) {
    let is_row = |found: &Option<&str>| rows.iter().any(|(_, expected)| expected == found);
    let others = keyed
        .iter()
        .filter(|(_, found)| found.is_none() || !is_row(found));
    let told: Vec<_> = others
        .map(|(key, found)| format!("{key} {}", found.unwrap_or("nothing")))
        .collect();
    if !told.is_empty() {
        page.paragraph(2, Tone::Dim, &told.join(" · "));
    }
}

/// Returns the letter of column `n`: `a` to `z`, then `aa` and so on; [`NOTHING`] if there is no
/// finding.
fn key(n: usize, found: Option<&str>) -> String {
    let letter = |n: usize| char::from(b'a' + (n % 26) as u8);
    match (found, n) {
        (None, _) => NOTHING.to_owned(),
        (Some(_), 0..26) => letter(n).to_string(),
        (Some(_), _) => [letter(n / 26 - 1), letter(n)].iter().collect(),
    }
}
