//! Numbers and times as text for people.

use std::time::Duration;

/// Returns a duration in a suitable unit, with about three digits.
pub(crate) fn time(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    let (value, unit) = if seconds >= 1.0 {
        (seconds, "s")
    } else if seconds >= 1e-3 {
        (seconds * 1e3, "ms")
    } else {
        (seconds * 1e6, "µs")
    };
    let decimals = match value {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {unit}")
}

/// Returns a count with separators between thousands.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a rate per second.
pub(crate) fn rate(per_second: f64) -> String {
    if per_second < 10.0 {
        format!("{per_second:.1}")
    } else {
        count(per_second.round() as u64)
    }
}

/// Returns a count with its noun: `1 packet`, `2 packets`.
pub(crate) fn plural(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", count(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        for (nanos, text) in [
            (0, "0.00 µs"),
            (7_400, "7.40 µs"),
            (1_000_000, "1.00 ms"),
            (43_620_000, "43.6 ms"),
            (99_960_000, "100 ms"),
            (999_999_999, "1000 ms"),
            (1_690_000_000, "1.69 s"),
        ] {
            assert_eq!(time(Duration::from_nanos(nanos)), text);
        }
    }

    #[test]
    fn thousands_are_set_apart() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (12_340_910, "12,340,910"),
        ] {
            assert_eq!(count(number), text);
        }
        assert_eq!(
            (rate(2283.31).as_str(), rate(0.5).as_str()),
            ("2,283", "0.5")
        );
        assert_eq!(plural(1, "packet"), "1 packet");
        assert_eq!(plural(1200, "packet"), "1,200 packets");
    }
}
