//! What can go wrong in the lab. Each variant names the operation and what it was done to.

use std::io;
use std::path::PathBuf;

/// An error of the lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Namespaces, TUN devices and packet filters are for root alone.
    #[error("the lab makes network namespaces, which needs root")]
    NeedsRoot,

    /// This root may not do what root usually may: that of a container, mostly.
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
        /// The Debian package that brings it.
        package: &'static str,
    },

    /// A program that a load runs is not installed.
    #[error("`{program}` is not installed")]
    MissingProgram {
        /// The program's name.
        program: String,
        /// The Debian package that brings it.
        package: String,
    },

    /// What is to show a scenario's fault does not show it.
    #[error("`{scenario}` ({service}) is not recorded: {reason}")]
    NotShown {
        /// The scenario.
        scenario: String,
        /// The service, or the host.
        service: String,
        /// What was counted in place of what.
        reason: String,
    },

    /// No scenario of this name.
    #[error("no scenario is called `{name}`")]
    UnknownScenario {
        /// The name that was asked for.
        name: String,
        /// The names there are.
        known: Vec<&'static str>,
    },

    /// The scenario's text is not what a scenario looks like.
    #[error("cannot read scenario `{origin}`")]
    ScenarioSyntax {
        /// Where the text came from.
        origin: String,
        /// What the reader says, with line and column.
        source: Box<toml::de::Error>,
    },

    /// The scenario reads, but makes no sense.
    #[error("scenario `{origin}`: {reason}")]
    ScenarioSense {
        /// Where the text came from.
        origin: String,
        /// What does not fit.
        reason: String,
    },

    /// No service of this name in the scenario.
    #[error("scenario `{scenario}` has no service `{service}`")]
    UnknownService {
        /// The scenario.
        scenario: String,
        /// The name that was asked for.
        service: String,
    },

    /// No lab of this name is running.
    #[error("no lab runs under the name `{name}`")]
    NoSuchRun {
        /// A run's id or a scenario's name.
        name: String,
    },

    /// A file operation failed.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// What was tried: `read`, `write`, `create`, …
        operation: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },

    /// A program could not be started.
    #[error("cannot start `{program}`")]
    Start {
        /// The program.
        program: String,
        /// Why it failed.
        source: io::Error,
    },

    /// A program ended in failure.
    #[error("`{command}` failed: {message}")]
    Command {
        /// The program with its arguments.
        command: String,
        /// Its exit code or signal, and what it wrote to stderr.
        message: String,
    },

    /// Something could not be done inside a host.
    #[error("cannot {operation} in the namespace `{namespace}`")]
    Namespace {
        /// What was tried.
        operation: &'static str,
        /// The namespace's name.
        namespace: String,
        /// Why it failed.
        source: io::Error,
    },

    /// A server did not begin to listen.
    #[error("service `{service}` does not listen on port {port} after {waited_ms} ms: {log}")]
    NotListening {
        /// The service's name.
        service: String,
        /// The port.
        port: u16,
        /// How long was waited, in milliseconds.
        waited_ms: u64,
        /// The end of what the server wrote to its log.
        log: String,
    },

    /// The process that keeps the lab could not bring it up, or is gone.
    #[error("bringing up `{scenario}` failed: {message}")]
    Keeper {
        /// The scenario.
        scenario: String,
        /// What the process said, its causes included.
        message: String,
    },

    /// A recording did not begin or did not end well.
    #[error("cannot record on {host}: {message}")]
    Recording {
        /// Which host's end.
        host: String,
        /// What tcpdump said.
        message: String,
    },

    /// A line of a log that the lab's own server wrote does not read.
    #[error("cannot read line {line} of {}", path.display())]
    BadLog {
        /// The log.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What the reader says.
        source: serde_json::Error,
    },
}

impl Error {
    /// What the user can do about it, where there is something.
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
            _ => None,
        }
    }

    /// The message with every cause below it, on one line.
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

    /// For `map_err`: a file operation that failed.
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

/// What the user may have meant: the scenarios that share a word with the name.
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
