//! Counts with their nouns, shares and durations as text.

/// Formats a number with thousands separators: `12,384`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut apart = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            apart.push(',');
        }
        apart.push(digit);
    }
    apart
}

/// Formats a count with its noun, singular or plural: `1 request`, `2,000 requests`.
pub fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// Formats a part of a total, with a noun that agrees with the total: `1 of 1 request`, `1 of 3
/// requests`.
pub(crate) fn part_of(n: u64, total: u64, one: &str, many: &str) -> String {
    format!("{} of {}", count(n), counted(total, one, many))
}

/// Formats a fraction, 0 to 1, in percent. A tiny fraction is not rounded to 0 %, and one just
/// below 1 is not rounded to 100 %.
pub fn share(part: f64) -> String {
    let percent = part * 100.0;
    match percent {
        p if !p.is_finite() => "–".to_owned(),
        p if p <= 0.0 => "0 %".to_owned(),
        p if p < 0.1 => "<0.1 %".to_owned(),
        p if p < 10.0 => format!("{p:.1} %"),
        p if (99.5..100.0).contains(&p) => format!("{:.1} %", p.min(99.9)),
        p => format!("{p:.0} %"),
    }
}

/// Formats a duration with three significant digits: `43.6 ms`, `212 µs`, `1.20 s`.
pub fn duration(ns: u64) -> String {
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

/// Formats a number with three significant digits, at most two of them decimals.
pub fn digits(value: f64, has_fraction: bool) -> String {
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
    fn one_is_singular_and_thousands_stand_apart() {
        let lookups = |n| counted(n, "lookup", "lookups");
        assert_eq!(lookups(1), "1 lookup");
        assert_eq!(lookups(12_384), "12,384 lookups");
        assert_eq!(count(1_234_567), "1,234,567");
        let part = |n, of| part_of(n, of, "lookup was", "lookups were");
        assert_eq!(part(1, 1), "1 of 1 lookup was");
        assert_eq!(part(1, 2), "1 of 2 lookups were");
    }

    #[test]
    fn shares_never_lie_at_the_ends() {
        for (part, text) in [
            (0.0, "0 %"),
            (0.000_1, "<0.1 %"),
            (0.034, "3.4 %"),
            (0.987, "99 %"),
            (0.998_7, "99.9 %"),
            (0.999_9, "99.9 %"),
            (1.0, "100 %"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(share(part), text);
        }
    }
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
    }
}
