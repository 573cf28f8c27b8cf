//! The configuration resolved for one request, and its conversion to events.

use std::fmt;
use std::path::PathBuf;

use lagtrace_core::observed::event::{
    ConfigurationLine, Event, EventBody, Note, Phase, SourceLocation, TargetId,
};
use lagtrace_core::observed::time::Timestamp;

use super::location::LocationPattern;
use super::name::NameMatch;
use crate::config::Certainty;

/// The configuration that applies to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The server block; `None` if no server listens at the address and port.
    pub server: Option<ServerBlock>,
    /// The location; `None` if only the server's settings apply.
    pub location: Option<LocationBlock>,
    /// The value of every directive that may explain a finding.
    pub settings: Vec<Setting>,
    /// The certainty that this server and location answer, and that the workers use the current
    /// contents of the files.
    pub certainty: Certainty,
    /// The files that were written or replaced after the workers started.
    pub newer_files: Vec<NewerFile>,
    /// Further notes for the reader.
    pub notes: Vec<Note>,
}

/// A server block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerBlock {
    /// Place where the block begins.
    pub at: SourceLocation,
    /// The `listen` directives as written; empty for the implied port.
    pub listens: Vec<String>,
    /// The server names as written.
    pub names: Vec<String>,
    /// The reason why this server was chosen.
    pub chosen_by: NameMatch,
    /// The certainty of the choice.
    pub certainty: Certainty,
    /// True if the block's file is newer than the workers; `None` if that is unknown.
    pub is_newer_than_workers: Option<bool>,
}

/// A location block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocationBlock {
    /// Place where the block begins.
    pub at: SourceLocation,
    /// The URIs that the location matches.
    pub pattern: LocationPattern,
    /// The path of the blocks around it, such as `http > server a.org`.
    pub scope: String,
    /// The certainty of the choice, including the choice of the server.
    pub certainty: Certainty,
    /// True if the block's file is newer than the workers; `None` if that is unknown.
    pub is_newer_than_workers: Option<bool>,
}

/// The effective value of a directive. A directive with several lines has several settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The name of the directive. Options of `listen` are prefixed: `listen backlog`.
    pub directive: String,
    /// The directive's value as written, or the default.
    pub value: String,
    /// Place where the directive is set; `None` for the default.
    pub set_at: Option<SourceLocation>,
    /// The path of the blocks around the line; for a default, of the blocks around the request.
    pub scope: String,
    /// The certainty that this value applies.
    pub certainty: Certainty,
    /// True if the file that sets the value is newer than the workers; for a default, if any file
    /// is. `None` if this is unknown.
    pub is_newer_than_workers: Option<bool>,
}

/// A file or directory that changed after the workers started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewerFile {
    /// The path as nginx names it.
    pub path: PathBuf,
    /// The kind of the change.
    pub change: Change,
}

/// The kind of change that makes a file newer than the processes that read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Only the inode changed (`st_ctime`): a file with an older content may have been renamed into
    /// place, or only the permissions or the owner may have changed.
    PerhapsReplaced,
    /// A file was added to or removed from a directory that is searched for includes.
    Listing,
    /// The content was written.
    Written,
}

impl Resolved {
    /// Returns the setting of a directive. If there are several, returns the first.
    pub fn setting(&self, directive: &str) -> Option<&Setting> {
        self.settings
            .iter()
            .find(|setting| setting.directive == directive)
    }

    /// Converts the configuration to events: first lines named after the server and the location,
    /// then the settings, then the notes.
    pub fn events(&self, at: Timestamp, phase: Phase, target: TargetId) -> Vec<Event> {
        let blocks = self.server_line(target).into_iter();
        let blocks = blocks.chain(self.location_line(target));
        let settings = self.settings.iter().map(|setting| ConfigurationLine {
            target,
            program: "nginx".into(),
            directive: setting.directive.clone(),
            value: setting.value.clone(),
            set_at: setting.set_at.clone(),
            scope: setting.scope.clone(),
            is_newer_than_process: setting.is_newer_than_workers,
            doubt: setting.certainty.doubt().map(String::from),
        });
        let notes = self.notes.iter().cloned().map(EventBody::Note);
        blocks
            .chain(settings)
            .map(EventBody::Configuration)
            .chain(notes)
            .map(|body| Event::here(at, phase, body))
            .collect()
    }

    fn server_line(&self, target: TargetId) -> Option<ConfigurationLine> {
        let server = self.server.as_ref()?;
        let names = match server.names.as_slice() {
            [] => String::new(),
            names => format!("; server_name {}", names.join(" ")),
        };
        let value = format!("listen {}{names}", server.listens.join(", "));
        Some(ConfigurationLine {
            target,
            program: "nginx".into(),
            directive: "server".into(),
            value,
            set_at: Some(server.at.clone()),
            scope: "http".into(),
            is_newer_than_process: server.is_newer_than_workers,
            doubt: server.certainty.doubt().map(String::from),
        })
    }

    fn location_line(&self, target: TargetId) -> Option<ConfigurationLine> {
        let location = self.location.as_ref()?;
        Some(ConfigurationLine {
            target,
            program: "nginx".into(),
            directive: "location".into(),
            value: location.pattern.to_string(),
            set_at: Some(location.at.clone()),
            scope: location.scope.clone(),
            is_newer_than_process: location.is_newer_than_workers,
            doubt: location.certainty.doubt().map(String::from),
        })
    }
}

impl fmt::Display for NewerFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.change {
            Change::Written => "was written",
            Change::Listing => "had files added or removed",
            Change::PerhapsReplaced => "was replaced, or its permissions changed,",
        };
        write!(
            f,
            "{} {what} after the workers started: they may run on an older configuration",
            self.path.display()
        )
    }
}
