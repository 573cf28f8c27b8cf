//! The position of an example: its packet numbers in a capture file, else its time.

use lagtrace_core::report::Exemplar;

/// Returns the column title for the [`place`] of these examples.
pub(super) fn title<'a>(examples: impl IntoIterator<Item = &'a Exemplar>) -> &'static str {
    let mut examples = examples.into_iter();
    if examples.any(|example| example.first_packet.is_some()) {
        "packets"
    } else {
        "at (UTC)"
    }
}

/// Returns the numbers of the example's first and last packet, or else its start time.
pub(super) fn place(example: &Exemplar) -> String {
    match (example.first_packet, example.last_packet) {
        (Some(first), Some(last)) => format!("{first}–{last}"),
        _ => time(example.start_ns),
    }
}

/// Formats the time of day in UTC, in milliseconds: `02:46:58.123`.
pub(super) fn time(ns: i64) -> String {
    written(ns, "%H:%M:%S%.3f")
}

/// Formats date and time in UTC, in microseconds, as defined by RFC 3339.
pub(super) fn instant(ns: i64) -> String {
    written(ns, "%Y-%m-%dT%H:%M:%S%.6fZ")
}

/// Returns a time of RFC 3339 without the fraction of its second, as a person reads it: `2026-11-22
/// 03:18:26 UTC`.
pub(super) fn second(started: &str) -> String {
    let Some((date, time)) = started.split_once('T') else {
        return started.to_owned();
    };
    let time = time.trim_end_matches('Z');
    let (second, _) = time.split_once('.').unwrap_or((time, ""));
    format!("{date} {second} UTC")
}

/// Formats a time; returns an empty string if it is out of the calendar's range.
fn written(ns: i64, form: &str) -> String {
    let at = jiff::Timestamp::from_nanosecond(ns.into());
    at.map_or_else(|_| String::new(), |at| at.strftime(form).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_of_utc() {
        let ns = 1_700_000_000_123_456_789;
        assert_eq!(time(ns), "22:13:20.123");
        assert_eq!(instant(ns), "2023-11-14T22:13:20.123456Z");
        assert_eq!(
            second("2023-11-14T22:13:20.123456789Z"),
            "2023-11-14 22:13:20 UTC"
        );
        assert_eq!(second("2023-11-14T22:13:20Z"), "2023-11-14 22:13:20 UTC");
        assert_eq!(second(""), "");
    }
}
