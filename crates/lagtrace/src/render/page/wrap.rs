//! Wrapping of words to lines.

use std::borrow::Cow;

use crate::render::escape::escape;

use super::{Tone, length};

/// The units that stay with their number.
const UNITS: [&str; 10] = ["ns", "µs", "us", "ms", "s", "%", "B", "kB", "MB", "GB"];

/// The words of a line.
pub(super) type Words = Vec<(Tone, String)>;

/// Wraps words to lines of `room` columns; returns at least one line. Words wider than a line are
/// broken if `breaks` is true.
pub(super) fn lines(spans: &[(Tone, Cow<'_, str>)], room: usize, breaks: bool) -> Vec<Words> {
    let mut lines = vec![Words::new()];
    let mut column = 0;
    for (tone, text) in spans {
        let text = escape(text);
        for word in together(&text).flat_map(|word| parts(word, room, breaks)) {
            if column > 0 && column + 1 + length(&word) > room {
                lines.push(Words::new());
                column = 0;
            }
            column += length(&word) + usize::from(column > 0);
            lines.last_mut().expect("one at least").push((*tone, word));
        }
    }
    lines
}

/// Returns the words of a text. A number and its unit are one word, so that no line ends between
/// them.
fn together(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text.trim_start_matches(' ');
    std::iter::from_fn(move || {
        let end = |from: usize| rest.get(from..)?.find(' ').map(|at| from + at);
        let mut stop = end(0).unwrap_or(rest.len());
        let word = rest.get(..stop)?;
        if word.ends_with(|last: char| last.is_ascii_digit()) {
            let next = end(stop + 1).unwrap_or(rest.len());
            let unit = rest.get(stop + 1..next).unwrap_or_default();
            let unit = unit.trim_end_matches(|end: char| !end.is_alphabetic() && end != '%');
            if UNITS.contains(&unit) {
                stop = next;
            }
        }
        let word = rest.get(..stop)?;
        rest = rest.get(stop..)?.trim_start_matches(' ');
        (!word.is_empty()).then_some(word)
    })
}

/// Splits a word into parts of `room` columns if it is wider and may be broken.
fn parts(word: &str, room: usize, breaks: bool) -> Vec<String> {
    if !breaks || length(word) <= room {
        return vec![word.to_owned()];
    }
    let letters: Vec<char> = word.chars().collect();
    let parts = letters.chunks(room.max(1));
    parts.map(|part| part.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_its_unit_stay_together() {
        let words: Vec<&str> = together("  took 43.6 ms (99 %), 5 s;  8 servers 3").collect();
        assert_eq!(
            words,
            ["took", "43.6 ms", "(99 %),", "5 s;", "8", "servers", "3"]
        );
        assert_eq!(together("").count() + together("   ").count(), 0);
    }
}
