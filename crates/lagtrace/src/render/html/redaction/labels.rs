//! The labels of originals.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::words;

/// The kind of an original.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Host,
    Client,
    Path,
    Name,
    Program,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Client => "client",
            Self::Path => "path",
            Self::Name => "name",
            Self::Program => "program",
        }
    }
}

/// The originals met so far, and their labels.
#[derive(Debug, Default)]
pub(super) struct Labels {
    labels: BTreeMap<(Kind, String), String>,
    /// The number of labels of each kind.
    counts: BTreeMap<Kind, usize>,
    /// Addresses that are only those of clients.
    clients: BTreeSet<IpAddr>,
    /// Originals to be found in any text, with their kinds.
    known: BTreeMap<String, Kind>,
    /// The lengths of these originals.
    lengths: BTreeSet<usize>,
}

impl Labels {
    fn label(&mut self, kind: Kind, original: &str) -> String {
        let key = (kind, original.to_owned());
        if let Some(label) = self.labels.get(&key) {
            return label.clone();
        }
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let label = format!("{}-{count}", kind.word());
        self.labels.insert(key, label.clone());
        label
    }

    /// Returns the number of originals.
    pub(super) fn count(&self) -> usize {
        self.labels.len() + self.known.len()
    }

    /// Says which addresses are only those of clients.
    pub(super) fn set_clients(&mut self, clients: BTreeSet<IpAddr>) {
        self.clients = clients;
    }

    /// Returns the label of an address.
    pub(super) fn address(&mut self, address: IpAddr) -> String {
        let kind = if self.clients.contains(&address) {
            Kind::Client
        } else {
            Kind::Host
        };
        self.label(kind, &address.to_string())
    }

    /// Returns the label of a hardware address.
    pub(super) fn hardware(&mut self, address: &str) -> String {
        self.label(Kind::Host, &address.to_ascii_lowercase())
    }

    /// Returns the label of a path, or the path if it says nothing.
    pub(super) fn path(&mut self, path: &str) -> String {
        if path == "/" || words::is_known_path(path) {
            path.to_owned()
        } else {
            self.label(Kind::Path, path)
        }
    }

    /// Returns the label of a host's name.
    pub(super) fn name(&mut self, name: &str) -> String {
        self.label(Kind::Name, &name.to_ascii_lowercase())
    }

    /// Returns a request with a label for all but its method. Text in its protocol that is no path
    /// is a name.
    pub(super) fn request(&mut self, request: &str) -> String {
        match request.split_once(' ') {
            Some((method, "/")) => format!("{} /", self.method(method)),
            Some((method, rest)) if rest.starts_with('/') => {
                format!("{} {}", self.method(method), self.label(Kind::Path, rest))
            }
            Some((method, "")) => self.method(method),
            Some((method, rest)) => format!("{} {}", self.method(method), self.name(rest)),
            None => self.method(request),
        }
    }

    fn method(&mut self, method: &str) -> String {
        if words::is_method(method) {
            method.to_owned()
        } else {
            self.name(method)
        }
    }

    /// Notes a file's name, to be found in any text.
    pub(super) fn file(&mut self, file: &str) {
        if !words::is_own(file) {
            self.know(file, Kind::Path);
        }
    }

    /// Notes what a request asks for, to be found in any text.
    pub(super) fn target(&mut self, target: &str) {
        let kind = if target.starts_with('/') {
            Kind::Path
        } else {
            Kind::Name
        };
        self.know(target, kind);
    }

    /// Notes the name of a host, with or without a port.
    pub(super) fn host(&mut self, target: &str) {
        let port = target.rsplit_once(':');
        let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        let name = match port {
            Some((name, port)) if is_port(port) => name,
            _ => target,
        };
        let is_address = |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        let is_address = is_address(target) || is_address(name);
        if !is_address && !words::is_own(name) && !name.contains("://") {
            self.know(name, Kind::Name);
        }
    }

    /// Notes the name of a program, which may be followed by its process id in brackets.
    pub(super) fn program(&mut self, program: &str) {
        let name = program.split('[').next().unwrap_or_default();
        if !words::is_own(name) && !words::is_known_program(name) {
            self.know(name, Kind::Program);
        }
    }

    fn know(&mut self, original: &str, kind: Kind) {
        if original.len() > 1 {
            self.known.entry(original.to_owned()).or_insert(kind);
            self.lengths.insert(original.len());
        }
    }

    /// Returns the longest known original at the beginning of a text, and its label.
    pub(super) fn known_at(&mut self, text: &str) -> Option<(usize, String)> {
        let lengths = self.lengths.iter().rev();
        let mut starts = lengths.filter_map(|&length| text.get(..length));
        let (original, kind) = starts.find_map(|start| self.known.get_key_value(start))?;
        let (original, kind) = (original.clone(), *kind);
        let label = match kind {
            Kind::Name => self.name(&original),
            kind => self.label(kind, &original),
        };
        Some((original.len(), label))
    }
}
