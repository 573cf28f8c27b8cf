//! Formatting of numbers for people.

pub(crate) use lagtrace_core::report::{count, counted, share};

/// Returns the sum of numbers; saturates, because a document may contain numbers of any size.
pub(crate) fn total(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}

/// Formats a duration with three significant digits: `43.6 ms`, `212 µs`, `1.20 s`.
pub(crate) fn duration(ns: u64) -> String {
    let ns = ns as f64;
    // The next unit begins where three digits would round up to 1000.
    for (unit, size) in [("ns", 1.0), ("µs", 1e3), ("ms", 1e6)] {
        if ns / size < 999.5 {
            return format!("{} {unit}", digits(ns / size, size > 1.0));
        }
    }
    let seconds = ns / 1e9;
    if seconds < 599.5 {
        format!("{} s", digits(seconds, true))
    } else {
        minutes(seconds)
    }
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

/// Formats a number with three significant digits, at most two of them decimals.
fn digits(value: f64, has_fraction: bool) -> String {
    match value {
        v if v < 9.995 && has_fraction => format!("{v:.2}"),
        v if v < 99.95 && has_fraction => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

fn minutes(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    format!("{} min {} s", count(seconds / 60), seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits() {
        for (ns, text) in [
            (0, "0 ns"),
            (980, "980 ns"),
            (9_994, "9.99 µs"),
            (212_000, "212 µs"),
            (999_600, "1.00 ms"),
            (43_621_000, "43.6 ms"),
            (950_000_000, "950 ms"),
            (1_204_000_000, "1.20 s"),
            (83_000_000_000, "83.0 s"),
            (754_000_000_000, "12 min 34 s"),
        ] {
            assert_eq!(duration(ns), text);
        }
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
