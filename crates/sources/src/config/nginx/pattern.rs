//! Matching of nginx's regular expressions. nginx uses PCRE; this module uses `regex-lite`. If the
//! two dialects differ for an expression, the result is "unknown", never a guess.

use regex_lite::RegexBuilder;

/// Maximum number of bytes of a compiled expression. The expression itself has at most 4096 bytes.
const MAX_COMPILED: usize = 256 << 10;
/// Maximum number of expressions tried in one list.
pub(crate) const MAX_TRIED: usize = 2000;

/// The result of matching an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    Yes,
    No,
    /// The expression uses a feature that only PCRE has. Contains a description of the feature.
    Unknown(String),
}

/// Searches `subject` for `pattern`. As in PCRE without UTF, both are bytes: each byte becomes the
/// character with the same number, so that `.` matches one byte.
pub(crate) fn search(pattern: &[u8], subject: &[u8], is_caseless: bool) -> Match {
    if let Some(what) = foreign_construct(pattern) {
        return Match::Unknown(what.into());
    }
    if subject.contains(&b'\n') && pattern.contains(&b'$') {
        return Match::Unknown("\"$\" before a final line feed".into());
    }
    let compiled = RegexBuilder::new(&characters(pattern))
        .case_insensitive(is_caseless)
        .size_limit(MAX_COMPILED)
        .build();
    match compiled {
        Ok(regex) if regex.is_match(&characters(subject)) => Match::Yes,
        Ok(_) => Match::No,
        Err(error) => Match::Unknown(error.to_string()),
    }
}

fn characters(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// Returns a construct in the pattern that the two dialects interpret differently, if there is one.
fn foreign_construct(pattern: &[u8]) -> Option<&'static str> {
    let mut in_class = false;
    let mut at = 0;
    while let Some(byte) = pattern.get(at) {
        let next = pattern.get(at + 1);
        match (byte, next) {
            (b'\\', Some(b'v' | b'V')) => return Some("\\v"),
            (b'\\', Some(b'b' | b'B')) if pattern.get(at + 2) == Some(&b'{') => {
                return Some("a word boundary with braces");
            }
            (b'\\', _) => at += 1,
            (b'[', _) if !in_class => {
                in_class = true;
                // A `]` directly after `[` or `[^` is a member of the class.
                at += usize::from(next == Some(&b'^'));
                at += usize::from(pattern.get(at + 1) == Some(&b']'));
            }
            (b'[', Some(b':')) => at += 1,
            (b':', Some(b']')) if in_class => at += 1,
            (b']', _) => in_class = false,
            (b'*' | b'+' | b'?' | b'}', Some(b'+')) if !in_class => {
                return Some("a possessive quantifier");
            }
            (b'(', Some(b'?')) if !in_class && changes_dialect(&pattern[at + 2..]) => {
                return Some("an inline option or a recursion");
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns true if `(?` is followed by options other than `i`, `m`, `s` and `x`.
fn changes_dialect(rest: &[u8]) -> bool {
    let options = rest
        .iter()
        .take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'-');
    let is_named_group = matches!(rest, [b'P', b'<', ..]);
    !is_named_group && options.into_iter().any(|byte| !b"imsx-".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_expressions_match_as_pcre_does() {
        let table: &[(&str, &str, bool)] = &[
            (r"\.php$", "/index.php", true),
            (r"\.php$", "/index.php5", false),
            (r"^/user/(?<name>[a-z]+)$", "/user/bob", true),
            (r"^/user/(?P<name>[a-z]+)$", "/user/bob", true),
            (r"^/a\/b", "/a/b", true),
            (r"^(www|api)\.", "api.example.com", true),
            (r"\.(?:jpe?g|png)$", "/x.jpeg", true),
            (r"^/[[:alpha:]]+/\d{2,3}$", "/ab/123", true),
            (r"^/[]x]+$", "/]x", true),
            (r"^/\-\_\~\%\:\=\@\&", "/-_~%:=@&", true),
            (r"(?i)^/ABC", "/abc", true),
            (r"^/.$", "/\u{ff}", true),
        ];
        for (pattern, subject, expected) in table {
            let expected = if *expected { Match::Yes } else { Match::No };
            let subject: Vec<u8> = subject.chars().map(|c| c as u8).collect();
            assert_eq!(
                search(pattern.as_bytes(), &subject, false),
                expected,
                "{pattern}"
            );
        }
        assert_eq!(search(b"ABC", b"abc", true), Match::Yes);
    }

    #[test]
    fn what_only_pcre_knows_is_not_guessed() {
        for pattern in [
            r"^/(?!api)",
            r"(?<=a)b",
            r"^/(a)\1",
            r"a++b",
            r"a*+b",
            r"(?>ab)",
            r"(?R)",
            r"\v",
            r"\Qa.b\E",
            r"(*UTF8)a",
            r"(",
        ] {
            let found = search(pattern.as_bytes(), b"/x", false);
            assert!(matches!(found, Match::Unknown(_)), "{pattern}: {found:?}");
        }
        assert_eq!(search(b"^/[+*]+", b"/++", false), Match::Yes);
    }

    proptest::proptest! {
        #[test]
        fn any_pattern_is_answered(pattern: Vec<u8>, subject: Vec<u8>) {
            search(&pattern, &subject, true);
        }
    }
}
