//! Plots of points over time, drawn with characters.

use std::fmt::Write as _;

/// Height of a plot, in rows.
const ROWS: usize = 12;
/// Width of the labels of the vertical axis, in columns.
const MARGIN: usize = 10;

/// A named series of points and the character that marks them.
pub(super) struct Series<'a> {
    pub(super) name: &'a str,
    pub(super) mark: char,
    /// Time in nanoseconds since the start of the plot, and value.
    pub(super) points: Vec<(u64, u64)>,
}

/// Draws series over a common time axis; `figure` formats the values. The vertical
/// axis begins at 0.
pub(super) fn plot(series: &[Series<'_>], width: usize, figure: fn(u64) -> String) -> String {
    let columns = width.saturating_sub(MARGIN + 2).max(20);
    let points = || series.iter().flat_map(|series| &series.points);
    let most = points()
        .map(|&(_, value)| value)
        .max()
        .unwrap_or_default()
        .max(1);
    let last = points().map(|&(at, _)| at).max().unwrap_or_default().max(1);
    let mut grid = vec![vec![' '; columns]; ROWS];
    let scale = |value: u64, most: u64, steps: usize| {
        let part = value as f64 / most as f64;
        ((part * (steps - 1) as f64).round() as usize).min(steps - 1)
    };
    for one in series {
        for &(at, value) in &one.points {
            let (row, column) = (
                ROWS - 1 - scale(value, most, ROWS),
                scale(at, last, columns),
            );
            if let Some(cell) = grid.get_mut(row).and_then(|row| row.get_mut(column)) {
                // Points of two series share this cell.
                let is_other = *cell != ' ' && *cell != one.mark;
                *cell = if is_other { '#' } else { one.mark };
            }
        }
    }
    let mut text = String::new();
    for (row, cells) in grid.iter().enumerate() {
        let label = match row {
            0 => figure(most),
            row if row == ROWS / 2 => figure(most - most * (ROWS / 2) as u64 / (ROWS - 1) as u64),
            row if row == ROWS - 1 => figure(0),
            _ => String::new(),
        };
        let line: String = cells.iter().collect();
        let line = format!("{label:>MARGIN$} │{line}");
        writeln!(text, "{}", line.trim_end()).expect("memory takes all");
    }
    let end = super::quantity::duration(last);
    let rule = "─".repeat(columns);
    writeln!(text, "{:MARGIN$} └{rule}", "").expect("memory takes all");
    let room = columns.saturating_sub(1);
    writeln!(text, "{:MARGIN$}  0{end:>room$}", "").expect("memory takes all");
    let names: Vec<String> = series
        .iter()
        .map(|series| format!("{} {}", series.mark, series.name))
        .collect();
    writeln!(text, "{:MARGIN$}  {}", "", names.join("   ")).expect("memory takes all");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_rises_from_corner_to_corner_and_keeps_to_the_width() {
        let points = (0..=100).map(|n| (n * 1_000_000, n * 10)).collect();
        let mark = 'o';
        let name = "client";
        let drawn = plot(&[Series { name, mark, points }], 60, |n| n.to_string());
        let lines: Vec<&str> = drawn.lines().collect();
        assert!(
            lines.iter().all(|line| line.chars().count() <= 60),
            "{drawn}"
        );
        assert!(lines[0].starts_with("      1000 │") && lines[0].ends_with('o'));
        assert!(lines[11].starts_with("         0 │o"));
        assert!(lines[13].ends_with("100 ms"));
    }

    #[test]
    fn nothing_is_drawn_from_nothing() {
        let points = Vec::new();
        let mark = 'o';
        let drawn = plot(
            &[Series {
                name: "client",
                mark,
                points,
            }],
            10,
            |n| n.to_string(),
        );
        assert_eq!(drawn.matches('o').count(), 1);
    }
}
