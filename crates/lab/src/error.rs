//! Errors of the lab. Each variant names the operation and its object.

use std::io;
use std::path::PathBuf;

/// An error of the lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The user is not root. Namespaces, TUN devices and packet filters need root.
    #[error("the lab makes network namespaces, which needs root")]
    NeedsRoot,

    /// The user is root but lacks capabilities that root usually has, typically in a container.
    #[error("the lab makes network namespaces, for which this root lacks {missing}")]
    NeedsCapabilities {
        /// The capabilities' names.
        missing: String,
    },

    /// A program that the scenario needs is not installed.
    #[error("`{tool}` is not installed")]
    MissingTool {
        /// The program's name.
        tool: &'static str,
        /// The Debian package that contains the program.
        package: &'static str,
    },

    /// A program that a load runs is not installed.
    #[error("`{program}` is not installed")]
    MissingProgram {
        /// The program's name.
        program: String,
        /// The Debian package that contains the program.
        package: String,
    },

    /// The witness of a scenario's fault did not confirm the fault.
    #[error("`{scenario}` ({service}) is not recorded: {reason}")]
    NotShown {
        /// The scenario.
        scenario: String,
        /// The service, or the host.
        service: String,
        /// The actual and the expected counts.
        reason: String,
    },

    /// There is no scenario with this name.
    #[error("no scenario is called `{name}`")]
    UnknownScenario {
        /// The requested name.
        name: String,
        /// The known names.
        known: Vec<&'static str>,
    },

    /// The scenario's text cannot be parsed.
    #[error("cannot read scenario `{origin}`")]
    ScenarioSyntax {
        /// The origin of the text.
        origin: String,
        /// The parser's message, with line and column.
        source: Box<toml::de::Error>,
    },

    /// The scenario's text can be parsed, but the scenario is invalid.
    #[error("scenario `{origin}`: {reason}")]
    ScenarioSense {
        /// The origin of the text.
        origin: String,
        /// The reason.
        reason: String,
    },

    /// The scenario has no service with this name.
    #[error("scenario `{scenario}` has no service `{service}`")]
    UnknownService {
        /// The scenario.
        scenario: String,
        /// The requested name.
        service: String,
    },

    /// No lab with this name is running.
    #[error("no lab runs under the name `{name}`")]
    NoSuchRun {
        /// A run's id or a scenario's name.
        name: String,
    },

    /// A file operation failed.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// The operation: `read`, `write`, `create`, …
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },

    /// A program could not be started.
    #[error("cannot start `{program}`")]
    Start {
        /// The program.
        program: String,
        /// The cause.
        source: io::Error,
    },

    /// A program failed.
    #[error("`{command}` failed: {message}")]
    Command {
        /// The program with its arguments.
        command: String,
        /// The exit code or signal, and its stderr.
        message: String,
    },

    /// An operation inside a host failed.
    #[error("cannot {operation} in the namespace `{namespace}`")]
    Namespace {
        /// The operation.
        operation: &'static str,
        /// The namespace's name.
        namespace: String,
        /// The cause.
        source: io::Error,
    },

    /// A server did not start to listen.
    #[error("service `{service}` does not listen on port {port} after {waited_ms} ms: {log}")]
    NotListening {
        /// The service's name.
        service: String,
        /// The port.
        port: u16,
        /// The time waited, in milliseconds.
        waited_ms: u64,
        /// The end of the server's log.
        log: String,
    },

    /// The process that keeps the lab could not bring the lab up, or no longer exists.
    #[error("bringing up `{scenario}` failed: {message}")]
    Keeper {
        /// The scenario.
        scenario: String,
        /// The process's message, including its causes.
        message: String,
    },

    /// A recording did not start or end properly.
    #[error("cannot record on {host}: {message}")]
    Recording {
        /// The host.
        host: String,
        /// The message of tcpdump.
        message: String,
    },

    /// A line in the log of a built-in server cannot be parsed.
    #[error("cannot read line {line} of {}", path.display())]
    BadLog {
        /// The log.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The parser's message.
        source: serde_json::Error,
    },
}

impl Error {
    /// Returns advice for the user, if there is any.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NeedsRoot => Some("run it with sudo".to_owned()),
            Self::NeedsCapabilities { .. } => Some(
                "run it on the machine itself, or start the container with these capabilities"
                    .to_owned(),
            ),
            Self::MissingTool { package, .. } => {
                Some(format!("install it: apt-get install {package}"))
            }
            Self::MissingProgram { package, .. } => {
                Some(format!("install it: apt-get install {package}"))
            }
            Self::UnknownScenario { name, known } => Some(near(name, known)),
            Self::NoSuchRun { .. } => Some("`lagtrace-lab list` shows the running labs".to_owned()),
            _ => None,
        }
    }

    /// Returns the message and all its causes, on one line.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut below = std::error::Error::source(self);
        while let Some(cause) = below {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            below = cause.source();
        }
        text
    }

    /// Returns a function for `map_err` that converts an I/O error to that of a file operation.
    pub(crate) fn file(
        operation: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File {
            operation,
            path,
            source,
        }
    }
}

/// Suggests the scenarios whose names have a word in common with this one.
fn near(name: &str, known: &[&str]) -> String {
    let words: Vec<_> = name.split('-').filter(|word| word.len() > 2).collect();
    let shares = |known: &&&str| known.split('-').any(|word| words.contains(&word));
    let near: Vec<_> = known.iter().filter(shares).take(5).copied().collect();
    let all = "`lagtrace-lab list` lists all";
    if near.is_empty() {
        all.to_owned()
    } else {
        format!("did you mean {}? {all}", near.join(", "))
    }
}
