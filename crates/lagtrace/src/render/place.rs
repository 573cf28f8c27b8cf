//! Where an example is found again: in a file by its packets' numbers, else by
//! its time.

use lagtrace_core::report::Exemplar;

/// What [`place`] says of all of these.
pub(super) fn title<'a>(examples: impl IntoIterator<Item = &'a Exemplar>) -> &'static str {
    let mut examples = examples.into_iter();
    if examples.any(|example| example.first_packet.is_some()) {
        "packets"
    } else {
        "at (UTC)"
    }
}

/// Its first packet and its last one, or when it began.
pub(super) fn place(example: &Exemplar) -> String {
    match (example.first_packet, example.last_packet) {
        (Some(first), Some(last)) => format!("{first}–{last}"),
        _ => time(example.start_ns),
    }
}

/// The time of day in UTC, in milliseconds: `02:46:58.123`.
pub(super) fn time(ns: i64) -> String {
    written(ns, "%H:%M:%S%.3f")
}

/// Date and time in UTC, in microseconds, as RFC 3339 has it.
pub(super) fn instant(ns: i64) -> String {
    written(ns, "%Y-%m-%dT%H:%M:%S%.6fZ")
}

/// Nothing for what no calendar has.
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
    }
}
