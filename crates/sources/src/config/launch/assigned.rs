//! Assignments of a Python file whose values are literals: `workers = 4`.
//!
//! The file is not executed. A value that would have to be computed is unknown.

use std::path::Path;

use lagtrace_core::observed::event::SourceLocation;

/// An assignment at the top level of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assignment {
    pub(super) name: String,
    /// The literal; `None` if the value is computed.
    pub(super) value: Option<String>,
    pub(super) at: SourceLocation,
    pub(super) is_newer: bool,
}

/// Returns the assignments, in the order of the file.
pub(super) fn assignments(text: &str, path: &Path, is_newer: bool) -> Vec<Assignment> {
    let found = (1..).zip(text.lines()).filter_map(|(number, line)| {
        let (name, value) = line.split_once('=')?;
        let name = name.trim_end();
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        // A comparison or an indented line assigns nothing at the top level.
        if name.is_empty() || !is_name || value.starts_with('=') {
            return None;
        }
        let at = SourceLocation {
            file: path.display().to_string(),
            line: number,
        };
        Some(Assignment {
            name: name.to_owned(),
            value: literal(value.trim()),
            at,
            is_newer,
        })
    });
    found.collect()
}

/// Returns the value of a whole number or of a string without escapes.
fn literal(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| ['"', '\''].contains(c));
    if let Some(quote) = quote {
        let (value, rest) = text.get(1..)?.split_once(quote)?;
        let is_plain = !value.contains('\\');
        return (is_plain && is_comment(rest)).then(|| value.to_owned());
    }
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (value, rest) = text.split_at(end);
    (!value.is_empty() && is_comment(rest)).then(|| value.to_owned())
}

fn is_comment(rest: &str) -> bool {
    let rest = rest.trim_start();
    rest.is_empty() || rest.starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_read_and_nothing_is_computed() {
        let text = "import multiprocessing\n\
                    workers = multiprocessing.cpu_count() * 2 + 1\n\
                    threads=4  # per worker\n\
                    worker_class = \"gthread\"\n\
                    backlog == 3\n\
                    \x20   keepalive = 9\n\
                    timeout = 2 + 3\n\
                    bind = 'a' 'b'\n";
        let found = assignments(text, Path::new("/srv/gunicorn.conf.py"), false);
        let found: Vec<(&str, Option<&str>, u32)> = found
            .iter()
            .map(|of| (of.name.as_str(), of.value.as_deref(), of.at.line))
            .collect();
        assert_eq!(
            found,
            [
                ("workers", None, 2),
                ("threads", Some("4"), 3),
                ("worker_class", Some("gthread"), 4),
                ("timeout", None, 7),
                ("bind", None, 8),
            ]
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text: String) {
            assignments(&text, Path::new("/x"), true);
        }
    }
}
