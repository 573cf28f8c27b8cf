//! Wrapping of words to lines.

use crate::render::escape::escape;

use super::{Tone, length};

/// The words of a line.
pub(super) type Words = Vec<(Tone, String)>;

/// Wraps words to lines of `room` columns; returns at least one line. If `most` is given, there
/// are at most `most` lines, and words wider than a line are broken.
pub(super) fn lines(spans: &[(Tone, &str)], room: usize, most: Option<usize>) -> Vec<Words> {
    let mut lines = vec![Words::new()];
    let mut column = 0;
    for (tone, text) in spans {
        let text = escape(text);
        let words = text.split(' ').filter(|word| !word.is_empty());
        for word in words.flat_map(|word| parts(word, room, most.is_some())) {
            if column > 0 && column + 1 + length(&word) > room {
                lines.push(Words::new());
                column = 0;
            }
            column += length(&word) + usize::from(column > 0);
            lines.last_mut().expect("one at least").push((*tone, word));
        }
    }
    let cut = most.unwrap_or(usize::MAX);
    if lines.len() > cut {
        lines.truncate(cut);
        if let Some(line) = lines.last_mut() {
            end(line, room);
        }
    }
    lines
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

/// Ends a line with `…`, and removes the words that do not fit into `room` columns.
fn end(line: &mut Words, room: usize) {
    let wide = |line: &Words| line.iter().map(|(_, word)| length(word) + 1).sum::<usize>();
    while line.len() > 1 && wide(line) > room {
        line.pop();
    }
    if let Some((_, last)) = line.last_mut() {
        if length(last) >= room {
            last.pop();
        }
        last.push('…');
    }
}
