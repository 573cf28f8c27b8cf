//! The programs that are configured when they are started, and the settings that explain findings.

use std::path::{Path, PathBuf};

use super::super::by_line::Setting;
use super::Launch;
use super::options;

/// The file that gunicorn reads in its working directory without being told.
pub(crate) const USUAL_FILE: &str = "./gunicorn.conf.py";

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// gunicorn, a Python server with workers.
    Gunicorn,
    /// uvicorn, an asynchronous Python server.
    Uvicorn,
    /// waitress, a Python server with threads.
    Waitress,
    /// uWSGI.
    Uwsgi,
    /// A program in Node.js.
    Node,
    /// A program in Java.
    Java,
    /// A program in Go.
    Go,
}

/// An option: its names on the command line, its variable, its name in the file, and its default.
struct Known {
    names: &'static [&'static str],
    variable: Option<&'static str>,
    default: Option<&'static str>,
}

const fn option(names: &'static [&'static str], default: &'static str) -> Known {
    Known {
        names,
        variable: None,
        default: Some(default),
    }
}

/// gunicorn's options (`gunicorn/config.py`).
const GUNICORN: &[Known] = &[
    Known {
        names: &["--workers", "-w"],
        variable: Some("WEB_CONCURRENCY"),
        default: Some("1"),
    },
    option(&["--threads"], "1"),
    option(&["--worker-class", "-k"], "sync"),
    option(&["--keep-alive"], "2"),
    option(&["--backlog"], "2048"),
];
/// uvicorn's options (`uvicorn/main.py`).
const UVICORN: &[Known] = &[
    option(&["--timeout-keep-alive"], "5"),
    option(&["--backlog"], "2048"),
    Known {
        names: &["--limit-concurrency"],
        variable: None,
        default: None,
    },
];
/// waitress's options (`waitress/adjustments.py`).
const WAITRESS: &[Known] = &[option(&["--threads"], "4"), option(&["--backlog"], "1024")];
/// uWSGI's options (`core/uwsgi.c`).
const UWSGI: &[Known] = &[
    option(&["--processes", "--workers", "-p"], "1"),
    option(&["--threads"], "1"),
    option(&["--listen", "-l"], "100"),
];
/// Node's options (`src/node_options.cc`, libuv's `src/threadpool.c`).
const NODE: &[Known] = &[
    Known {
        names: &["UV_THREADPOOL_SIZE"],
        variable: Some("UV_THREADPOOL_SIZE"),
        default: Some("4"),
    },
    option(&["--max-http-header-size"], "16384"),
];
/// Options of the Java virtual machine that choose a collector or the number of processors.
const JAVA: [&str; 3] = [
    "-XX:+UseSerialGC",
    "-XX:+UseParallelGC",
    "-XX:ActiveProcessorCount",
];
/// Variables of the Go runtime (package `runtime`).
const GO: [&str; 2] = ["GOMAXPROCS", "GOGC"];

impl Server {
    /// Returns the program of a command line. An interpreter's program is the script or module that
    /// it runs.
    pub(super) fn of(arguments: &[String]) -> Option<Self> {
        let first = base(arguments.first()?);
        if !first.starts_with("python") && !first.starts_with("pypy") {
            return Self::named(first);
        }
        let mut rest = arguments.iter().skip(1);
        let script = loop {
            let argument = rest.next()?;
            match argument.as_str() {
                "-m" => break rest.next()?,
                "-c" => return None,
                // These take the next argument.
                "-W" | "-X" => drop(rest.next()),
                option if option.starts_with('-') => {}
                _ => break argument,
            }
        };
        Self::named(base(script)).filter(|server| !matches!(server, Self::Node | Self::Java))
    }

    /// Returns the program of a process that wrote a title over its command line.
    pub(super) fn titled(arguments: &[String]) -> Option<Self> {
        let title = arguments.first()?;
        title.starts_with("gunicorn: ").then_some(Self::Gunicorn)
    }

    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "gunicorn" | "gunicorn3" => Self::Gunicorn,
            "uvicorn" => Self::Uvicorn,
            "waitress-serve" | "waitress" => Self::Waitress,
            "uwsgi" | "uwsgi-core" => Self::Uwsgi,
            "node" | "nodejs" => Self::Node,
            "java" => Self::Java,
            _ => return None,
        })
    }

    /// Returns the program's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gunicorn => "gunicorn",
            Self::Uvicorn => "uvicorn",
            Self::Waitress => "waitress",
            Self::Uwsgi => "uWSGI",
            Self::Node => "Node",
            Self::Java => "Java",
            Self::Go => "Go",
        }
    }

    /// Returns the configuration file that the program reads.
    pub(super) fn file(self, arguments: &[String]) -> Option<PathBuf> {
        let is_gunicorn = self == Self::Gunicorn;
        is_gunicorn.then(|| {
            let named = options::value(arguments, &["--config", "-c"]).unwrap_or(USUAL_FILE);
            Path::new(named.strip_prefix("file:").unwrap_or(named)).to_owned()
        })
    }

    /// Returns the settings that can explain a finding.
    pub(super) fn settings(self, launch: &Launch) -> Vec<Setting> {
        match self {
            Self::Gunicorn => of_options(GUNICORN, launch),
            Self::Uvicorn => of_options(UVICORN, launch),
            Self::Waitress => of_options(WAITRESS, launch),
            // An option may also be in a file, which is not read.
            Self::Uwsgi if launch.arguments.iter().any(|word| is_file(word)) => Vec::new(),
            Self::Uwsgi => of_options(UWSGI, launch),
            Self::Node => of_options(NODE, launch),
            Self::Java => of_java(launch),
            Self::Go => {
                let set = GO.into_iter().filter_map(|name| {
                    let (value, at) = launch.variable(name)?;
                    Some(setting(name, value, Some(at)))
                });
                set.collect()
            }
        }
    }
}

/// Returns the last component of a path.
fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_file(argument: &str) -> bool {
    let kinds = ["--ini", "--xml", "--yaml", "--json", "--emperor"];
    kinds.iter().any(|kind| argument.starts_with(kind)) || argument.ends_with(".ini")
}

fn setting(
    directive: &str,
    value: &str,
    at: Option<lagtrace_core::observed::event::SourceLocation>,
) -> Setting {
    Setting {
        directive: directive.to_owned(),
        value: value.to_owned(),
        at,
        ..Setting::default()
    }
}

fn of_options(options: &[Known], launch: &Launch) -> Vec<Setting> {
    let all = options
        .iter()
        .filter_map(|option| of_option(option, launch));
    all.collect()
}

/// Returns the value of an option: the command line's, else that of arguments in a variable, the
/// file's, a variable's, or the default.
fn of_option(option: &Known, launch: &Launch) -> Option<Setting> {
    let &directive = option.names.first()?;
    if let Some(value) = options::value(&launch.arguments, option.names) {
        return Some(setting(directive, value, Some(launch.command_line())));
    }
    for variable in ["GUNICORN_CMD_ARGS", "NODE_OPTIONS"] {
        let Some((text, at)) = launch.variable(variable) else {
            continue;
        };
        if let Some(value) = options::value(&options::split(text), option.names) {
            return Some(setting(directive, value, Some(at)));
        }
    }
    let name = file_name(directive);
    let mut lines = launch.assignments.iter().rev();
    if let Some(line) = lines.find(|line| line.name == name) {
        let value = line.value.as_ref()?;
        return Some(Setting {
            is_newer: Some(line.is_newer),
            ..setting(directive, value, Some(line.at.clone()))
        });
    }
    if let Some((value, at)) = option.variable.and_then(|name| launch.variable(name)) {
        return Some(setting(directive, value, Some(at)));
    }
    Some(Setting {
        doubt: launch.doubt.clone(),
        ..setting(directive, option.default?, None)
    })
}

/// Returns the name of gunicorn's option in its file.
fn file_name(directive: &str) -> String {
    match directive {
        "--keep-alive" => "keepalive".to_owned(),
        _ => directive.trim_start_matches('-').replace('-', "_"),
    }
}

fn of_java(launch: &Launch) -> Vec<Setting> {
    let mut places = vec![(launch.arguments.clone(), launch.command_line())];
    for name in ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"] {
        let variable = launch.variable(name);
        places.extend(variable.map(|(text, at)| (options::split(text), at)));
    }
    let mut found = Vec::new();
    for name in JAVA {
        let set = places.iter().find_map(|(arguments, at)| {
            let is_switch = options::has(arguments, name);
            let value = arguments
                .iter()
                .rev()
                .find_map(|argument| argument.strip_prefix(name)?.strip_prefix('='));
            let value = value.or(is_switch.then_some("on"))?;
            Some(setting(name, value, Some(at.clone())))
        });
        found.extend(set);
    }
    found
}

#[cfg(test)]
mod tests;
