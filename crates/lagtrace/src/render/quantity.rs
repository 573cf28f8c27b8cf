//! Formatting of numbers for people.

use lagtrace_core::report::digits;
pub(crate) use lagtrace_core::report::{count, counted, duration, share};

/// Returns the sum of numbers; saturates, because a document may contain numbers of any size.
pub(crate) fn total(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}

/// Formats a difference of durations with its sign.
pub(crate) fn difference(ns: i64) -> String {
    let sign = match ns {
        0 => "±",
        1.. => "+",
        _ => "−",
    };
    format!("{sign}{}", duration(ns.unsigned_abs()))
}

/// Formats an interval of signed durations by its ends.
pub(crate) fn interval(low: i64, high: i64) -> String {
    let (low, high) = (difference(low), difference(high));
    if low == high {
        low
    } else {
        format!("{low} to {high}")
    }
}

/// Formats a rate per second: `2,283/s`, `3.5/s`.
pub(crate) fn rate(per_second: f64) -> String {
    if !per_second.is_finite() || per_second < 0.0 {
        "–".to_owned()
    } else if per_second < 99.95 {
        format!("{per_second:.1}/s")
    } else {
        format!("{}/s", count(per_second.round() as u64))
    }
}

/// Formats an estimated rate, with three significant digits.
pub(crate) fn rough_rate(per_second: f64) -> String {
    if !per_second.is_finite() || per_second < 1_000.0 {
        return rate(per_second);
    }
    let unit = 10_f64.powi(per_second.log10().floor() as i32 - 2);
    rate((per_second / unit).round() * unit)
}

/// Formats a number of bytes in decimal units.
pub(crate) fn bytes(n: u64) -> String {
    let n = n as f64;
    for (unit, size) in [("B", 1.0), ("kB", 1e3), ("MB", 1e6)] {
        if n / size < 999.5 {
            return format!("{} {unit}", digits(n / size, size > 1.0));
        }
    }
    format!("{} GB", digits(n / 1e9, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_signs() {
        assert_eq!(interval(-43_100_000, 212_000), "−43.1 ms to +212 µs");
    }

    #[test]
    fn counts_and_rates_are_readable() {
        assert_eq!(
            (rate(2283.31), rate(3.46)),
            ("2,283/s".into(), "3.5/s".into())
        );
        assert_eq!(
            (bytes(96), bytes(12_340_000)),
            ("96 B".into(), "12.3 MB".into())
        );
    }
}
