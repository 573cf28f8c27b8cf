//! Advice: the changes that a claim proposes.

use crate::observed::event::ConfigurationLine;
use crate::observed::syscall::SocketOption;
use crate::report::Fix;

/// A change that removes the cause of a claim, or a measurement that says more of it. Its words are
/// for the reader: later steps find advice by what it turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Advice {
    words: Fix,
    /// The tunables that general advice turns, which a setting or a call may show to be set.
    turns: Vec<Tunable>,
    /// The line of the configuration that the advice changes.
    line: Option<Box<ConfigurationLine>>,
}

/// A setting of a program or of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tunable {
    Option(SocketOption),
    /// The length of a listener's accept queue.
    AcceptQueue,
    DeferAccept,
    /// A directive of a server's configuration, or an option of its `listen`.
    Directive(&'static str),
}

impl Advice {
    /// Returns advice that turns nothing in particular.
    pub(crate) fn new(place: impl Into<String>, change: impl Into<String>) -> Self {
        Self {
            words: Fix {
                r#where: place.into(),
                change: change.into(),
            },
            turns: Vec::new(),
            line: None,
        }
    }

    pub(crate) fn turning(mut self, tunables: impl IntoIterator<Item = Tunable>) -> Self {
        self.turns.extend(tunables);
        self
    }

    pub(crate) fn on_line(mut self, line: &ConfigurationLine) -> Self {
        self.line = Some(Box::new(line.clone()));
        self
    }

    pub(crate) fn turns(&self, tunable: Tunable) -> bool {
        self.turns.contains(&tunable)
    }

    pub(crate) fn is_on_line(&self, line: &ConfigurationLine) -> bool {
        self.line.as_deref() == Some(line)
    }

    /// Returns the words, for the report.
    pub(crate) fn into_words(self) -> Fix {
        self.words
    }
}
