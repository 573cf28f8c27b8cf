//! The server and the location that answer one request.

use lagtrace_core::observed::event::Note;

use super::Request;
use super::location::{self, Found, passes_on};
use super::master::note;
use super::rewrite::{self, Fallback};
use super::server::{ChosenServer, Surroundings, choose};
use super::tree::{Directive, Tree};
use super::uri;

/// Maximum number of index files checked for one directory.
const MAX_INDEXES: usize = 16;

/// The server and the location that answer a request.
#[derive(Debug, Default)]
pub(crate) struct Selection<'c> {
    pub(crate) http: Option<&'c Directive>,
    pub(crate) server: Option<ChosenServer<'c>>,
    /// The location and the locations that it is nested in, outermost first.
    pub(crate) locations: Vec<&'c Directive>,
    /// Reasons why another server might answer.
    pub(crate) server_doubts: Vec<String>,
    /// Reasons why another location of this server might answer.
    pub(crate) location_doubts: Vec<String>,
    pub(crate) notes: Vec<Note>,
}

/// Selects server and location as nginx would.
pub(crate) fn select<'c>(
    tree: &'c Tree,
    surroundings: &Surroundings,
    request: &Request<'_>,
) -> Selection<'c> {
    let mut selection = Selection {
        http: tree.http(),
        ..Selection::default()
    };
    selection.server = choose(
        tree,
        surroundings,
        request,
        &mut selection.server_doubts,
        &mut selection.notes,
    );
    if let Some(server) = &selection.server {
        let (block, head) = (server.block, server.head);
        if let Some(uri) = selection.normal_uri(head, request.uri) {
            selection.choose_location(tree, block, &uri);
        }
    }
    selection
}

impl<'c> Selection<'c> {
    fn choose_location(&mut self, tree: &'c Tree, server: &'c Directive, uri: &[u8]) {
        let before = rewrite::follow(tree, server.inner(), uri);
        self.location_doubts.extend(before.doubts);
        if let Some(answer) = before.answer {
            let text = format!(
                "`{}` at {} answers for the whole server; no location is searched",
                answer.name,
                tree.show(answer.at)
            );
            self.notes.push(note("nginx-server-answers", text));
            return;
        }
        let Found {
            path,
            adds_slash,
            doubts,
        } = location::find(server.inner(), uri);
        self.location_doubts.extend(doubts);
        if adds_slash {
            let text = "nginx redirects the client to the same URI with a slash at its end";
            self.notes.push(note("nginx-adds-slash", text));
        }
        self.locations = path;
        let location = self.locations.last().copied();
        self.look_inside(tree, server, location, uri);
    }

    /// Returns the URI that locations are matched against; `None` if nginx rejects the request.
    fn normal_uri(&mut self, head: &Directive, uri: &str) -> Option<Vec<u8>> {
        let around = self.http.into_iter();
        let merges = head
            .lines("merge_slashes")
            .chain(around.flat_map(|http| http.lines("merge_slashes")))
            .next()
            .is_none_or(|line| line.args.first().is_none_or(|word| *word != *"off"));
        let normal = uri::normalise(uri.as_bytes(), merges);
        if normal.is_err() {
            let text = format!("nginx answers 400 to the URI {uri:?}");
            self.notes.push(note("nginx-bad-uri", text));
        }
        normal.ok()
    }

    /// Collects the reasons why another location may answer the request.
    fn look_inside(
        &mut self,
        tree: &Tree,
        server: &'c Directive,
        location: Option<&'c Directive>,
        uri: &[u8],
    ) {
        let block = location.unwrap_or(server);
        if block.lines("internal").next().is_some() {
            let text = "the location is internal: a request from outside is answered 404";
            self.notes.push(note("nginx-internal-location", text));
            return;
        }
        let inside = location.map(|location| rewrite::follow(tree, location.inner(), uri));
        let inside = inside.unwrap_or_default();
        let mut doubts = inside.doubts;
        if inside.answer.is_none() {
            doubts.extend(self.files_elsewhere(tree, server, block, uri));
        }
        if !doubts.is_empty() {
            let text = "the request may be redirected inside nginx, which was not followed";
            self.notes.push(note("nginx-redirects-inside", text));
        }
        self.location_doubts.extend(doubts);
    }

    /// Returns the other locations that `try_files` and `index` may lead to.
    fn files_elsewhere(
        &self,
        tree: &Tree,
        server: &Directive,
        block: &Directive,
        uri: &[u8],
    ) -> Vec<String> {
        let mut doubts = Vec::new();
        let try_files = block.lines("try_files").next();
        if let Some(line) = try_files {
            let leads_to = match rewrite::fallback(line) {
                Fallback::Status => None,
                Fallback::Uri(target) => self.elsewhere(tree, server, &target),
                Fallback::Unknown => Some("a place that was not followed".into()),
            };
            doubts.extend(leads_to.map(|place| {
                let line = tree.show(line.at);
                format!("if it finds no file, `try_files` at {line} leads to {place}")
            }));
        }
        let mut directory = uri.to_vec();
        if try_files.is_some_and(rewrite::tries_directories) && !uri.ends_with(b"/") {
            directory.push(b'/');
        }
        if directory.ends_with(b"/") && !passes_on(block) {
            doubts.extend(self.index_elsewhere(tree, server, &directory));
        }
        doubts
    }

    /// Returns the index files of a directory that another location would serve after an internal
    /// redirect.
    fn index_elsewhere(&self, tree: &Tree, server: &Directive, directory: &[u8]) -> Vec<String> {
        let outward = self.locations.iter().rev().copied();
        let mut blocks = outward.chain([server]).chain(self.http);
        let names = match blocks.find_map(|block| block.lines("index").next()) {
            Some(line) => line.args.iter().map(|word| word.to_vec()).collect(),
            None => vec![b"index.html".to_vec()],
        };
        let targets = names.iter().take(MAX_INDEXES);
        targets
            .filter_map(|name| {
                let target = [directory, name].concat();
                let place = self.elsewhere(tree, server, &target)?;
                let target = String::from_utf8_lossy(&target);
                Some(format!("if {target} exists, it is served by {place}"))
            })
            .collect()
    }

    /// Returns the location that answers `uri`, unless it is the selected one.
    fn elsewhere(&self, tree: &Tree, server: &Directive, uri: &[u8]) -> Option<String> {
        let here = self.locations.last().map(|location| location.at);
        match location::find(server.inner(), uri).path.last() {
            Some(other) if Some(other.at) == here => None,
            Some(other) => Some(format!(
                "location {} at {}",
                other.arguments(),
                tree.show(other.at)
            )),
            None => here.map(|_| "the server itself, outside its locations".into()),
        }
    }
}
