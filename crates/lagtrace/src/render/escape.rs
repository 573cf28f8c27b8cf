//! Escaping of strings from outside, which could deceive a terminal or its reader.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Maximum number of characters shown of a string; the rest is cut.
const LONGEST: usize = 2_000;

/// The sequences of lagtrace's styles: the end of a style, bold, dimmed, and the colours in use
/// (ECMA-48 §8.3.117).
const COLORS: [&str; 7] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
    "\u{1b}[36m",
];

/// Escapes the characters of `text` that a terminal would interpret or hide: control characters
/// (C0, DEL, C1), line and paragraph separators, and characters that reorder or hide text.
/// Backslashes are not escaped, so the result is for reading only and cannot be converted back.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
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

/// Escapes text that is laid out already, for a terminal or a file that is shown on one. Ends of
/// lines and the colours of lagtrace's own styles stay. Views escape what comes from outside piece
/// by piece; this is the last step before the output, for what they overlook.
pub(crate) fn laid_out(text: &str) -> Cow<'_, str> {
    if is_plain(text.as_bytes()) || !text.chars().any(|c| c != '\n' && is_unsafe(c)) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let own = COLORS.iter().find(|color| rest.starts_with(**color));
        let taken = own.map_or(c.len_utf8(), |color| color.len());
        match own {
            Some(color) => safe.push_str(color),
            None if c == '\n' || !is_unsafe(c) => safe.push(c),
            None => safe.extend(c.escape_unicode()),
        }
        rest = rest.get(taken..).unwrap_or_default();
    }
    Cow::Owned(safe)
}

/// Escapes a message of several lines. Its later lines are indented, so that none of them looks
/// like a message of its own.
pub(crate) fn message(text: &str) -> String {
    let lines: Vec<_> = text.trim_end().split('\n').map(escape).collect();
    lines.join("\n  ")
}

/// Escapes JSON text, which stays the same JSON: these characters are only within its strings.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    let is_unsafe = |c: char| c != '\n' && is_unsafe(c);
    if is_plain(text.as_bytes()) || !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(safe, "\\u{unit:04x}").ok();
            }
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// Returns true for text in ASCII without control characters other than ends of lines: most text.
fn is_plain(text: &[u8]) -> bool {
    text.iter()
        .all(|&byte| byte == b'\n' || (b' '..0x7f).contains(&byte))
}

/// Returns true for a character that a terminal would interpret or hide.
pub(super) fn is_unsafe(c: char) -> bool {
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
    fn text_that_is_laid_out_keeps_its_lines_and_colours_only() {
        let own = "\u{1b}[1m\u{1b}[31mproven\u{1b}[0m\nµ – café\n";
        assert_eq!(laid_out(own), own);
        for (hostile, shown) in [
            ("a\u{1b}[8mb", r"a\u{1b}[8mb"),
            ("a\u{1b}[1;31mb", r"a\u{1b}[1;31mb"),
            ("\u{1b}\u{1b}[0m\r\n", "\\u{1b}\u{1b}[0m\\u{d}\n"),
            ("\u{9b}2J\u{202e}é", r"\u{9b}2J\u{202e}é"),
        ] {
            assert_eq!(laid_out(hostile), shown);
        }
    }

    #[test]
    fn json_stays_the_same_json() {
        let all = (0..0x11_0000_u32).filter_map(char::from_u32);
        let text: String = all
            .filter(|&c| is_unsafe(c))
            .chain("aé🦀".chars())
            .collect();
        let document = serde_json::json!({ text.clone(): [text] });
        for written in [document.to_string(), format!("{document:#}")] {
            let safe = json(&written);
            assert!(!safe.chars().any(|c| c != '\n' && is_unsafe(c)));
            let read: serde_json::Value = serde_json::from_str(&safe).expect("JSON");
            assert_eq!(read, document);
        }
    }

    #[test]
    fn later_lines_of_a_message_are_indented() {
        let shown = message("cannot read a\nerror: b\u{7}\n");
        assert_eq!(shown, "cannot read a\n  error: b\\u{7}");
    }

    #[test]
    fn long_strings_are_cut() {
        assert_eq!(escape(&"é".repeat(90_000)).chars().count(), LONGEST + 1);
    }
}
