//! Options of a command line.

/// Returns the value of an option, the last one if it is given several times: `--workers 2`,
/// `--workers=2`, `-w 2` or `-w2`.
pub(super) fn value<'a>(arguments: &'a [String], names: &[&str]) -> Option<&'a str> {
    let mut found = None;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--" {
            break;
        }
        for name in names {
            match argument.strip_prefix(name) {
                Some("") => found = rest.clone().next().map(String::as_str).or(found),
                Some(joined) if name.starts_with("--") => {
                    found = joined.strip_prefix('=').or(found);
                }
                Some(joined) => found = Some(joined.strip_prefix('=').unwrap_or(joined)),
                None => {}
            }
        }
    }
    found
}

/// Returns true if an argument is given.
pub(super) fn has(arguments: &[String], argument: &str) -> bool {
    arguments.iter().any(|given| given == argument)
}

/// Returns the arguments in a variable, as a shell splits simple words.
pub(super) fn split(text: &str) -> Vec<String> {
    let words = text.split_ascii_whitespace();
    words
        .map(|word| word.trim_matches(['"', '\'']).to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_form_of_an_option_counts() {
        let of = |text: &str| {
            let arguments = split(text);
            value(&arguments, &["--workers", "-w"]).map(str::to_owned)
        };
        for (text, expected) in [
            ("gunicorn -w 2 app:app", Some("2")),
            ("gunicorn -w2 app:app", Some("2")),
            ("gunicorn --workers=3 -w 4 app:app", Some("4")),
            ("gunicorn --workers 3", Some("3")),
            ("gunicorn --worker-class gthread", None),
            ("gunicorn --workersX=3", None),
            ("gunicorn -w", None),
            ("gunicorn app -- -w 9", None),
        ] {
            assert_eq!(of(text).as_deref(), expected, "{text}");
        }
    }
}
