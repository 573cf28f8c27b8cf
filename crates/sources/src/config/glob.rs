//! Shell patterns, matched as by `glob(3)` without flags.

/// Returns true if a path component is a pattern and not a plain name.
pub(crate) fn is_pattern(component: &[u8]) -> bool {
    component
        .iter()
        .any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// Returns true if `name`, one path component, matches `pattern` as in `fnmatch(3)` with
/// `FNM_PERIOD`: only a dot matches a leading dot.
pub(crate) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if name.first() == Some(&b'.') && !matches!(pattern, [b'.', ..] | [b'\\', b'.', ..]) {
        return false;
    }
    // On a mismatch, the last star matches one byte more, and matching resumes after the star. The
    // time is at most proportional to the product of the lengths.
    let (mut at_pattern, mut at_name) = (0, 0);
    let mut last_star: Option<(usize, usize)> = None;
    while at_name < name.len() {
        if pattern.get(at_pattern) == Some(&b'*') {
            last_star = Some((at_pattern + 1, at_name));
            at_pattern += 1;
        } else if let Some(next) = step(pattern, at_pattern, name[at_name]) {
            at_pattern = next;
            at_name += 1;
        } else if let Some((after_star, taken_to)) = last_star {
            last_star = Some((after_star, taken_to + 1));
            at_pattern = after_star;
            at_name = taken_to + 1;
        } else {
            return false;
        }
    }
    pattern[at_pattern..].iter().all(|byte| *byte == b'*')
}

/// Matches one byte and returns the next position in the pattern; `None` if the byte does not
/// match.
fn step(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    match pattern.get(at)? {
        b'?' => Some(at + 1),
        b'[' => match bracket(&pattern[at + 1..], byte) {
            Some((true, length)) => Some(at + 1 + length),
            Some((false, _)) => None,
            // An unclosed bracket is an ordinary character.
            None => (byte == b'[').then_some(at + 1),
        },
        b'\\' => (*pattern.get(at + 1)? == byte).then_some(at + 2),
        literal => (*literal == byte).then_some(at + 1),
    }
}

/// Matches `byte` against the bracket expression after its `[`. Returns whether it matches, and the
/// expression's length; `None` if the expression is not closed. Named classes (`[:alpha:]`) are not
/// supported: their characters are taken literally.
fn bracket(pattern: &[u8], byte: u8) -> Option<(bool, usize)> {
    let negated = matches!(pattern.first(), Some(b'!' | b'^'));
    let mut at = usize::from(negated);
    let first = at;
    let mut found = false;
    loop {
        let mut low = *pattern.get(at)?;
        if low == b']' && at > first {
            return Some((found != negated, at + 1));
        }
        if low == b'\\' {
            at += 1;
            low = *pattern.get(at)?;
        }
        at += 1;
        let is_range =
            pattern.get(at) == Some(&b'-') && pattern.get(at + 1).is_some_and(|b| *b != b']');
        let high = if is_range { pattern[at + 1] } else { low };
        if is_range {
            at += 2;
        }
        found |= (low..=high).contains(&byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_as_in_a_shell() {
        let table: &[(&str, &str, bool)] = &[
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf~", false),
            ("*.conf", ".hidden.conf", false),
            (".*.conf", ".hidden.conf", true),
            ("*", "anything", true),
            ("*", "", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-d", false),
            ("?.conf", "a.conf", true),
            ("?.conf", "ab.conf", false),
            ("[0-9]*", "10-x", true),
            ("[0-9]*", "x10", false),
            ("[!0-9]*", "x10", true),
            ("[^a]", "b", true),
            ("[]x]", "]", true),
            ("[ab", "[ab", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("[a-]", "-", true),
        ];
        for (pattern, name, expected) in table {
            assert_eq!(
                matches(pattern.as_bytes(), name.as_bytes()),
                *expected,
                "{pattern} against {name}"
            );
        }
    }

    #[test]
    fn many_stars_stay_cheap() {
        let pattern = b"*a".repeat(200);
        let name = vec![b'b'; 4096];
        assert!(!matches(&pattern, &name));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_answered(pattern: Vec<u8>, name: Vec<u8>) {
            matches(&pattern, &name);
        }
    }
}
