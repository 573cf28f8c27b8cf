//! Configuration of nginx, as its running workers resolve it for one request.
//!
//! Input: any process of an nginx ([`Master::find`]) and a [`Request`]. Output: the server and
//! location that answer the request, and the effective value of every directive that affects
//! latency ([`Resolved`]). The files are read as nginx sees them, and no part of nginx is run.
//!
//! The rules are those of nginx 1.22. Where a default changed between releases, the default of the
//! running release is reported.

mod build;
mod directive;
mod effective;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod include;
mod invocation;
mod lex;
mod linked;
mod listen;
mod location;
mod lua;
mod master;
mod name;
mod parse;
mod pattern;
mod resolved;
mod rewrite;
mod selection;
mod server;
mod table;
#[cfg(test)]
pub(super) mod tests;
mod tree;
mod uri;

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::time::SystemTime;

use lagtrace_core::observed::event::Note;

pub use build::Build;
pub use directive::Version;
pub use invocation::Invocation;
pub use location::LocationPattern;
pub use master::{Master, Worker};
pub use name::NameMatch;
pub use resolved::{Change, LocationBlock, NewerFile, Resolved, ServerBlock, Setting};

use super::files::{Files, Root};
use super::process::{START_RESOLUTION, shares_namespace_with_us};
use super::{Certainty, Error};
use crate::privilege::message::ProcessLink;
use effective::{Effective, effective, scope_path};
use master::note;
use selection::{Selection, select};
use server::{Surroundings, read_hosts};
use tree::{ConfigurationFile, Place, Tree};

/// Maximum number of bytes read from `/etc/hosts`.
const MAX_HOSTS: usize = 256 << 10;

/// A client's request. The method is assumed to be `GET`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'r> {
    /// The server address that the connection arrives at; `None` if the address is unknown, for
    /// example because of NAT.
    pub local_addr: Option<IpAddr>,
    /// The server port of the connection.
    pub port: u16,
    /// The `Host` header; empty if none is sent.
    pub host: &'r str,
    /// The request's target: path and query, or a whole URL.
    pub uri: &'r str,
}

/// Returns the configuration that a running nginx has for one request.
///
/// # Errors
/// Returns an error if the main configuration file cannot be read.
pub fn resolve(master: &Master, request: &Request<'_>) -> Result<Resolved, Error> {
    Ok(Configuration::read(master)?.resolve(request))
}

/// Returns the names of the directives that are resolved.
pub fn directives() -> impl Iterator<Item = String> {
    let plain = table::GROUPS.iter().flat_map(|(_, group)| group.iter());
    let options = table::LISTEN_OPTIONS.iter();
    plain
        .map(|known| known.name.to_owned())
        .chain(options.map(|(option, _)| format!("listen {option}")))
        .chain([linked::ZONES.to_owned()])
}

/// The configuration of a running nginx, which can be resolved for several requests.
#[derive(Debug)]
pub struct Configuration {
    tree: Tree,
    surroundings: Surroundings,
    version: Option<Version>,
    /// Start time of the workers, against which the times of the files are compared.
    loaded: Option<SystemTime>,
    notes: Vec<Note>,
}

impl Configuration {
    /// Reads the files of a running nginx.
    ///
    /// # Errors
    /// Returns an error if the main configuration file cannot be read. Included files that cannot
    /// be read become notes.
    pub fn read(master: &Master) -> Result<Self, Error> {
        let globals = master.invocation.globals.as_deref();
        let tree = include::read(&master.root, &master.conf, globals).map_err(|source| {
            Error::Unreadable {
                path: master.conf.clone(),
                source,
            }
        })?;
        let mut notes = master.notes.clone();
        let retiring = master.workers.iter().filter(|worker| worker.is_retiring);
        let retiring = retiring.count();
        if retiring > 0 {
            notes.push(note(
                "nginx-retiring-workers",
                format!("{retiring} workers still serve old connections with a configuration from before the last reload"),
            ));
        }
        Ok(Self {
            tree,
            surroundings: Surroundings {
                implied_port: master.implied_port(),
                hostname: master.hostname(),
                hosts: hosts_of(&master.root),
                is_other_network: shares_namespace_with_us(master.pid, ProcessLink::Net)
                    == Some(false),
            },
            version: master.build.version,
            loaded: master.loaded(),
            notes,
        })
    }

    /// Reads a configuration file of this host without a running nginx. A server without `listen`
    /// is assumed to have port 80.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let root = Root::of(std::process::id())?;
        let unreadable = |source| Error::Unreadable {
            path: path.to_path_buf(),
            source,
        };
        let absolute = std::path::absolute(path).map_err(unreadable)?;
        Ok(Self {
            tree: include::read(&root, &absolute, None).map_err(unreadable)?,
            surroundings: Surroundings {
                implied_port: 80,
                hosts: hosts_of(&root),
                ..Surroundings::default()
            },
            version: None,
            loaded: None,
            notes: Vec::new(),
        })
    }

    /// Returns the configuration that applies to one request.
    pub fn resolve(&self, request: &Request<'_>) -> Resolved {
        let selection = select(&self.tree, &self.surroundings, request);
        let values = effective(&self.tree, &selection, self.version);
        let newer_files = self.newer_files();
        Resolved {
            server: self.server(&selection),
            location: self.location(&selection),
            settings: values
                .into_iter()
                .map(|value| self.setting(value, &newer_files))
                .collect(),
            certainty: self.certainty(&selection, &newer_files),
            notes: self.notes(selection.notes, &newer_files),
            newer_files,
        }
    }

    fn server(&self, selection: &Selection<'_>) -> Option<ServerBlock> {
        let chosen = selection.server.as_ref()?;
        let server = chosen.block;
        let names = server.lines("server_name").flat_map(|line| &line.args);
        Some(ServerBlock {
            at: self.tree.location(server.at),
            listens: server
                .lines("listen")
                .map(|line| line.arguments())
                .collect(),
            names: names.map(|name| name.text()).collect(),
            chosen_by: chosen.by.clone(),
            certainty: Certainty::from_doubts(&selection.server_doubts),
            is_newer_than_workers: self.is_newer(Some(server.at)),
        })
    }

    fn location(&self, selection: &Selection<'_>) -> Option<LocationBlock> {
        let server = selection.server.as_ref()?.block;
        let (location, around) = selection.locations.split_last()?;
        let server_doubts = selection.server_doubts.iter();
        let doubts: Vec<String> = server_doubts
            .chain(&selection.location_doubts)
            .cloned()
            .collect();
        Some(LocationBlock {
            at: self.tree.location(location.at),
            pattern: location::pattern(location)?,
            scope: scope_path(server, around),
            certainty: Certainty::from_doubts(&doubts),
            is_newer_than_workers: self.is_newer(Some(location.at)),
        })
    }

    fn setting(&self, value: Effective, newer: &[NewerFile]) -> Setting {
        let mut doubts = value.doubts;
        if let Some(issue) = self.tree.issues.first() {
            doubts.push(format!(
                "not all of the configuration was understood: {issue}"
            ));
        }
        let is_newer_than_workers = match value.set_at {
            Some(place) => self.is_newer(Some(place)),
            None => self.loaded.map(|_| !newer.is_empty()),
        };
        Setting {
            directive: value.directive,
            value: value.value,
            set_at: value.set_at.map(|place| self.tree.location(place)),
            scope: value.scope,
            certainty: Certainty::from_doubts(&doubts),
            is_newer_than_workers,
        }
    }

    fn certainty(&self, selection: &Selection<'_>, newer: &[NewerFile]) -> Certainty {
        let mut doubts: Vec<String> = selection.server_doubts.clone();
        doubts.extend(selection.location_doubts.iter().cloned());
        doubts.extend(self.tree.issues.iter().cloned());
        doubts.extend(newer.iter().map(NewerFile::to_string));
        Certainty::from_doubts(&doubts)
    }

    fn notes(&self, of_selection: Vec<Note>, newer: &[NewerFile]) -> Vec<Note> {
        let mut notes = self.notes.clone();
        notes.extend(of_selection);
        let issues = self.tree.issues.iter();
        notes.extend(issues.map(|issue| note("nginx-configuration-incomplete", issue)));
        let files = newer.iter();
        notes.extend(files.map(|file| note("nginx-configuration-newer", file.to_string())));
        notes
    }

    fn newer_files(&self) -> Vec<NewerFile> {
        let files = self.tree.files.iter();
        files
            .filter_map(|file| {
                Some(NewerFile {
                    path: file.path.clone(),
                    change: change(file, self.loaded?)?,
                })
            })
            .collect()
    }

    /// Returns true if the file of `place` is newer than the workers; `None` if this is unknown.
    fn is_newer(&self, place: Option<Place>) -> Option<bool> {
        let file = self.tree.file(place?)?;
        Some(change(file, self.loaded?).is_some())
    }
}

/// Returns the names in `/etc/hosts` below a root directory, with their addresses.
fn hosts_of(root: &Root) -> HashMap<String, Vec<IpAddr>> {
    let hosts = root.read(Path::new("/etc/hosts"), MAX_HOSTS);
    let bytes = hosts.map(|hosts| hosts.bytes).unwrap_or_default();
    read_hosts(&String::from_utf8_lossy(&bytes))
}

/// Returns the kind of the file's change if it happened after the processes started (`loaded`);
/// otherwise `None`.
fn change(file: &ConfigurationFile, loaded: SystemTime) -> Option<Change> {
    let loaded = loaded + START_RESOLUTION;
    if file.modified.is_some_and(|at| at > loaded) {
        return Some(if file.is_directory {
            Change::Listing
        } else {
            Change::Written
        });
    }
    // A directory's `st_ctime` proves nothing, because it also changes with the permissions.
    let is_replaced = !file.is_directory && file.changed.is_some_and(|at| at > loaded);
    is_replaced.then_some(Change::PerhapsReplaced)
}
