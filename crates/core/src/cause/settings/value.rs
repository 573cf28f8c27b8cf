//! Values of nginx's directives.

use core::time::Duration;

/// Parses a duration such as `75s`, `1h30m` or `500ms`. A number without a unit is in seconds
/// (`ngx_parse_time()`).
pub(super) fn duration(text: &str) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let letters = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, next) = after.split_at(letters);
        let millis: u64 = match unit {
            "ms" => 1,
            "" | "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        let number: u64 = number.parse().ok()?;
        sum = sum.checked_add(Duration::from_millis(number.checked_mul(millis)?))?;
        rest = next;
    }
    (!text.is_empty()).then_some(sum)
}

/// Parses a size such as `16k` or `1m` into bytes (`ngx_parse_size()`).
pub(super) fn size(text: &str) -> Option<u64> {
    let (number, unit) = match text.trim_end_matches(|c: char| c.is_ascii_alphabetic()) {
        number if number.len() + 1 >= text.len() => text.split_at(number.len()),
        _ => return None,
    };
    let factor = match unit {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// Parses the rate in a zone's definition into requests per second: `rate=20r/s`, `rate=30r/m`.
pub(super) fn request_rate(definition: &str) -> Option<f64> {
    let mut words = definition.split_ascii_whitespace();
    let rate = words.find_map(|word| word.strip_prefix("rate="))?;
    let (number, per) = rate.split_once("r/")?;
    let number: f64 = number.parse().ok()?;
    match per {
        "s" => Some(number),
        "m" => Some(number / 60.0),
        _ => None,
    }
}

/// Returns the name of the zone in a limit (`zone=one burst=5`) or in a definition
/// (`zone=one:10m`).
pub(super) fn zone(text: &str) -> Option<&str> {
    let mut words = text.split_ascii_whitespace();
    let zone = words.find_map(|word| word.strip_prefix("zone="))?;
    zone.split(':').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_read_as_nginx_reads_them() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (text, expected) in [
            ("75s", seconds(75)),
            ("65", seconds(65)),
            ("0", seconds(0)),
            ("1h30m", seconds(5400)),
            ("500ms", Some(Duration::from_millis(500))),
            ("", None),
            ("soon", None),
        ] {
            assert_eq!(duration(text), expected, "{text}");
        }
        for (text, expected) in [
            ("16k", Some(16_384)),
            ("1m", Some(1 << 20)),
            ("0", Some(0)),
            ("4kb", None),
            ("two memory pages", None),
        ] {
            assert_eq!(size(text), expected, "{text}");
        }
    }

    #[test]
    fn rates_and_zones_are_read_from_their_definitions() {
        let zone_of = "$server_port zone=lab:1m rate=30r/m";
        assert_eq!(request_rate(zone_of), Some(0.5));
        assert_eq!(request_rate("$binary_remote_addr zone=one:10m"), None);
        assert_eq!(zone(zone_of), Some("lab"));
        assert_eq!(zone("zone=lab burst=5"), Some("lab"));
    }

    proptest::proptest! {
        #[test]
        fn any_value_is_read(text: String) {
            duration(&text);
            size(&text);
            request_rate(&text);
        }
    }
}
