//! Plain characters, for terminals whose character set is not UTF-8.

use std::borrow::Cow;

/// Returns the text in ASCII. The signs of lagtrace's own texts have a plain form, and letters from
/// outside are spelled out, so that nothing is lost.
pub(crate) fn ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match form(c) {
            _ if c.is_ascii() => plain.push(c),
            Some(form) => plain.push_str(form),
            None => plain.extend(c.escape_unicode()),
        }
    }
    Cow::Owned(plain)
}

/// Returns the plain form of a sign. Signs that are drawn in columns have one character.
fn form(sign: char) -> Option<&'static str> {
    Some(match sign {
        'µ' => "u",
        '·' | '–' | '−' | '─' | '━' => "-",
        '…' => "...",
        '×' => "x",
        '±' => "+-",
        '•' => "*",
        '→' => "->",
        '←' => "<-",
        '⇄' => "<->",
        '↑' => "^",
        '↓' => "v",
        '▶' | '›' | '╸' => ">",
        '◀' => "<",
        '✓' => "+",
        '✗' => "x",
        '│' | '┊' | '⌈' | '⌉' => "|",
        '└' => "+",
        '█' | '▉' | '▊' | '▋' | '▌' => "#",
        '▍' | '▎' | '▏' => ".",
        '≥' => ">=",
        '≤' => "<=",
        '≈' => "~",
        '¼' => "1/4",
        '½' => "1/2",
        '§' => "section ",
        '“' | '”' => "\"",
        '‘' | '’' => "'",
        '\u{a0}' | '\u{202f}' => " ",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_have_a_plain_form_and_letters_are_spelled_out() {
        for (text, plain) in [
            ("43.6 ms", "43.6 ms"),
            ("212 µs → 1 ms ± 5 …", "212 us -> 1 ms +- 5 ..."),
            ("██▌▏ · café 日", "###. - caf\\u{e9} \\u{65e5}"),
        ] {
            assert_eq!(ascii(text), plain);
        }
    }
}
