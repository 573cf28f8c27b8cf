//! Escaping of strings from outside, which could deceive a terminal or its reader.

use std::borrow::Cow;

/// Maximum number of characters shown of a string; the rest is cut.
const LONGEST: usize = 2_000;

/// Escapes the characters of `text` that a terminal would interpret or hide: control characters
/// (C0, DEL, C1), line and paragraph separators, and characters that reorder or hide text.
/// Backslashes are not escaped, so the result is for reading only and cannot be converted back.
pub(super) fn escape(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST && !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len().min(LONGEST));
    for (at, c) in text.chars().enumerate() {
        if at == LONGEST {
            safe.push('…');
            break;
        }
        match c {
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            c if is_unsafe(c) => safe.extend(c.escape_unicode()),
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00ad}'                  // soft hyphen: hidden
            | '\u{061c}'                // bidirectional mark
            | '\u{115f}'..='\u{1160}'   // fillers: blank
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'   // zero width, bidirectional marks
            | '\u{2028}'..='\u{202e}'   // separators, embeddings, overrides
            | '\u{2060}'..='\u{206f}'   // invisible operators, isolates
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}' // tags, variation selectors
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_spelled_out() {
        for (hostile, shown) in [
            ("GET /\u{1b}]0;owned\u{7}", r"GET /\u{1b}]0;owned\u{7}"),
            ("a\r\nb\tc", r"a\r\nb\tc"),
            ("\u{9b}2J", r"\u{9b}2J"),
            ("x\u{202e}gnp.exe", r"x\u{202e}gnp.exe"),
            ("µ – café 日本", "µ – café 日本"),
        ] {
            assert_eq!(escape(hostile), shown);
        }
    }

    #[test]
    fn long_strings_are_cut() {
        assert_eq!(escape(&"é".repeat(90_000)).chars().count(), LONGEST + 1);
    }
}
