//! The options that nginx was started with. They are taken from its arguments, or from the process
//! title with which the master overwrites them.

/// The options that determine the location of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    /// The program's name, argument zero.
    pub program: String,
    /// `-c`: the main configuration file.
    pub conf: Option<String>,
    /// `-p`: the prefix that relative paths are resolved against.
    pub prefix: Option<String>,
    /// `-g`: directives that precede those of the file.
    pub globals: Option<String>,
}

/// The role of an nginx process, according to its title.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Title {
    /// The master, or an nginx without a master, with its options.
    Master(Invocation),
    /// A worker that accepts connections.
    Worker,
    /// A worker that only finishes its remaining connections after a reload.
    RetiringWorker,
    /// Another child process of nginx: cache manager or cache loader.
    Child,
    /// A process of another program.
    Other,
}

/// Options that take a value (`src/core/nginx.c`, `ngx_get_options()`).
const WITH_VALUE: [char; 5] = ['c', 'p', 'g', 's', 'e'];
/// Options that take no value.
const WITHOUT_VALUE: [char; 7] = ['q', 't', 'T', 'v', 'V', 'h', '?'];

/// Interprets a command line as in `/proc/PID/cmdline`.
pub(crate) fn title(arguments: &[Vec<u8>]) -> Title {
    let words: Vec<String> = arguments
        .iter()
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    let Some(first) = words.first() else {
        return Title::Other;
    };
    if let Some(title) = first.strip_prefix("nginx: ") {
        if let Some(command) = title.strip_prefix("master process") {
            let split = split_title(command.trim_start());
            return Title::Master(options(&split));
        }
        return match title.strip_prefix("worker process") {
            Some(rest) if rest.contains("shutting down") => Title::RetiringWorker,
            Some(_) => Title::Worker,
            None => Title::Child,
        };
    }
    let name = first.rsplit('/').next().unwrap_or(first);
    if matches!(name, "nginx" | "openresty" | "nginx-debug") {
        return Title::Master(options(&words));
    }
    Title::Other
}

/// Splits a title into arguments. nginx joins its arguments with spaces, so a value extends to the
/// next word that looks like an option.
fn split_title(command: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut in_value = false;
    for word in command.split(' ') {
        let is_first = words.is_empty();
        if !is_first && is_option(word) {
            in_value = word.len() == 2 && word.ends_with(WITH_VALUE);
            words.push(word.to_string());
            if in_value {
                words.push(String::new());
            }
        } else if let (true, Some(value)) = (in_value, words.last_mut()) {
            if !value.is_empty() {
                value.push(' ');
            }
            value.push_str(word);
        } else {
            words.push(word.to_string());
        }
    }
    words
}

/// Returns true if a word of the title can only be an option. An option that is joined to its value
/// (`-c/path`) is recognized by the first character of the value.
fn is_option(word: &str) -> bool {
    let mut letters = word.chars();
    if letters.next() != Some('-') {
        return false;
    }
    let rest = letters.as_str();
    let joined_path = rest.strip_prefix(['c', 'p', 'e']);
    (rest.len() == 1 && rest.starts_with(WITH_VALUE))
        || joined_path.is_some_and(|path| path.starts_with(['/', '.']))
        || (!rest.is_empty() && rest.chars().all(|letter| WITHOUT_VALUE.contains(&letter)))
}

/// Parses options as nginx does: several letters may share a dash, and a value is joined to its
/// letter or is the next word.
fn options(words: &[String]) -> Invocation {
    let mut words = words.iter();
    let mut found = Invocation {
        program: words.next().cloned().unwrap_or_default(),
        ..Invocation::default()
    };
    while let Some(word) = words.next() {
        let Some(letters) = word.strip_prefix('-') else {
            continue;
        };
        for (at, letter) in letters.char_indices() {
            if !WITH_VALUE.contains(&letter) {
                continue;
            }
            let joined = &letters[at + 1..];
            let value = if joined.is_empty() {
                words.next().cloned()
            } else {
                Some(joined.to_string())
            };
            match letter {
                'c' => found.conf = value,
                'p' => found.prefix = value,
                'g' => found.globals = value,
                _ => {}
            }
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(arguments: &[&str]) -> String {
        let arguments: Vec<Vec<u8>> = arguments.iter().map(|a| a.as_bytes().to_vec()).collect();
        match title(&arguments) {
            Title::Master(found) => format!(
                "{} c={} p={} g={}",
                found.program,
                found.conf.as_deref().unwrap_or("-"),
                found.prefix.as_deref().unwrap_or("-"),
                found.globals.as_deref().unwrap_or("-")
            ),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn both_forms_of_the_command_line_are_read() {
        let table: &[(&[&str], &str)] = &[
            (
                &["nginx: master process /usr/sbin/nginx -c /x/n.conf -g daemon off;"],
                "/usr/sbin/nginx c=/x/n.conf p=- g=daemon off;",
            ),
            (
                &["nginx: master process /usr/sbin/nginx -g daemon on; master_process on; -c /y"],
                "/usr/sbin/nginx c=/y p=- g=daemon on; master_process on;",
            ),
            (
                &["nginx: master process nginx -p /my dir/ -cconf/a.conf -q"],
                "nginx c=- p=/my dir/ -cconf/a.conf g=-",
            ),
            (
                &["nginx: master process nginx -p /my dir/ -c/a.conf -q"],
                "nginx c=/a.conf p=/my dir/ g=-",
            ),
            (&["nginx: master process nginx"], "nginx c=- p=- g=-"),
            (
                &[
                    "/usr/sbin/nginx",
                    "-c",
                    "a b.conf",
                    "-qp",
                    "/p",
                    "-gdaemon off;",
                ],
                "/usr/sbin/nginx c=a b.conf p=/p g=daemon off;",
            ),
            (&["nginx", "-c"], "nginx c=- p=- g=-"),
            (&["nginx: worker process"], "Worker"),
            (
                &["nginx: worker process is shutting down"],
                "RetiringWorker",
            ),
            (&["nginx: cache manager process"], "Child"),
            (&["/usr/bin/python3", "nginx"], "Other"),
            (&[""], "Other"),
            (&[], "Other"),
        ];
        for (arguments, expected) in table {
            assert_eq!(shown(arguments), *expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_title_is_read(text: String) {
            title(&[format!("nginx: master process {text}").into_bytes()]);
            title(&[b"nginx".to_vec(), text.into_bytes()]);
        }
    }
}
