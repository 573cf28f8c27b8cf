//! Numbers and times as text for people.

use std::time::Duration;

use lagtrace_core::report;
pub(crate) use lagtrace_core::report::count;

/// Returns a duration in a suitable unit, with three digits.
pub(crate) fn time(duration: Duration) -> String {
    report::duration(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
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
    fn rates_and_nouns_read_well() {
        assert_eq!(
            (rate(2283.31).as_str(), rate(0.5).as_str()),
            ("2,283", "0.5")
        );
        assert_eq!(plural(1, "packet"), "1 packet");
        assert_eq!(plural(1200, "packet"), "1,200 packets");
        assert_eq!(time(Duration::from_micros(43_621)), "43.6 ms");
    }
}
