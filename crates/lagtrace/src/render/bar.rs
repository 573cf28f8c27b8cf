//! Bars of block characters.

const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// Returns a bar that fills `part` (0 to 1) of `width` columns. For any positive part, it is at
/// least one eighth of a column long.
pub(super) fn share(part: f64, width: usize) -> String {
    if part.is_nan() || part <= 0.0 {
        return String::new();
    }
    let eighths = ((part.min(1.0) * width as f64 * 8.0).round() as usize).max(1);
    let mut bar = "█".repeat(eighths / 8);
    bar.push_str(EIGHTHS.get(eighths % 8).copied().unwrap_or_default());
    bar
}

/// Returns a bar from `start` to `end` (0 to 1) on a scale of `width` columns, at
/// least one column long.
pub(super) fn span(start: f64, end: f64, width: usize) -> String {
    let column = |at: f64| (at.clamp(0.0, 1.0) * width as f64).round() as usize;
    let from = column(start).min(width.saturating_sub(1));
    let to = column(end).max(from + 1);
    let piece = if column(end) > from { "█" } else { "▏" };
    format!("{}{}", " ".repeat(from), piece.repeat(to - from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_to_scale() {
        assert_eq!(share(0.5, 10), "█████");
        assert_eq!(share(0.000_1, 10), "▏");
        assert_eq!(
            (share(0.0, 10), share(f64::NAN, 10)),
            (String::new(), String::new())
        );
        assert_eq!(span(0.2, 0.6, 10), "  ████");
        assert_eq!(span(0.999, 1.0, 10), "         █");
        assert_eq!(span(0.31, 0.32, 10), "   ▏");
    }
}
