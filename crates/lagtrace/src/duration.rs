//! Durations in the notation of command lines: `10s`, `5ms`, `1.5s`, `2m`.

use std::time::Duration;

/// The units; a longer suffix comes before the shorter ones that it ends with.
const UNITS: [(&str, f64); 6] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
];

/// Parses a duration. A bare number means seconds, as in ping and wrk.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let (number, factor) = UNITS
        .iter()
        .find_map(|&(unit, factor)| Some((text.strip_suffix(unit)?, factor)))
        .unwrap_or((text, 1.0));
    number
        .parse::<f64>()
        .ok()
        .filter(|_| number.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
        .and_then(|value| Duration::try_from_secs_f64(value * factor).ok())
        .ok_or_else(|| format!("`{text}` is not a duration: write it like 10s, 500ms or 2m"))
}

/// Parses a duration longer than zero.
pub(crate) fn parse_positive(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("must be longer than 0".to_owned()),
        duration => Ok(duration),
    }
}

/// Parses the duration of a load, which must be long enough for both parts of the load.
pub(crate) fn parse_load(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        short if short < Duration::from_secs(1) => Err("must be at least 1s".to_owned()),
        long if long > Duration::from_secs(24 * 3600) => Err("must be at most 24h".to_owned()),
        duration => Ok(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_understood() {
        for (text, nanos) in [
            ("10s", 10_000_000_000),
            ("5ms", 5_000_000),
            ("1.5s", 1_500_000_000),
            ("250us", 250_000),
            ("7ns", 7),
            ("2m", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("3", 3_000_000_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "s",
            "ms",
            "-1s",
            "1 s",
            "infs",
            "nan",
            "1e3s",
            "1d",
            "1e400s",
            "99999999999999999999h",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse_positive("0ms").is_err());
    }
}
