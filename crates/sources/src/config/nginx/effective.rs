//! The effective value of a directive for a request: the value set in the innermost block that sets
//! it, or the default.

use super::directive::{Contexts, Inheritance, Known, Needs, Version};
use super::selection::Selection;
use super::server::ChosenServer;
use super::table::GROUPS;
use super::tree::{Directive, Place, Tree, blocks, lines};

/// A directive's value, or one of several lines that form it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Effective {
    pub(crate) directive: String,
    pub(crate) value: String,
    pub(crate) set_at: Option<Place>,
    pub(crate) scope: String,
    /// Reasons why another value might apply. Reasons that concern all values are not included.
    pub(crate) doubts: Vec<String>,
}

/// A block that surrounds the request.
#[derive(Clone, Debug)]
pub(crate) struct Scope<'c> {
    pub(crate) kind: Contexts,
    /// The path of blocks down to this block, separated by ` > `; empty outside all blocks.
    pub(crate) path: String,
    pub(crate) directives: &'c [Directive],
}

/// The blocks that surround the request, from the outermost to the innermost.
#[derive(Debug)]
pub(crate) struct Chain<'c> {
    pub(crate) tree: &'c Tree,
    pub(crate) scopes: Vec<Scope<'c>>,
    pub(crate) selection: &'c Selection<'c>,
    pub(crate) version: Option<Version>,
}

/// Returns all effective values for a request, in the order of the tables in `table.rs`.
pub(crate) fn effective(
    tree: &Tree,
    selection: &Selection<'_>,
    version: Option<Version>,
) -> Vec<Effective> {
    let chain = Chain {
        tree,
        scopes: scopes(tree, selection),
        selection,
        version,
    };
    let mut found = chain.listen();
    for (needs, group) in GROUPS {
        if chain.has(*needs) {
            found.extend(group.iter().flat_map(|known| chain.values(known)));
        }
    }
    found.extend(chain.zones());
    found
}

/// Returns the path of blocks down to the innermost chosen one.
pub(crate) fn scope_path(server: &Directive, locations: &[&Directive]) -> String {
    let mut path = format!("http > {}", server_label(server));
    for location in locations {
        path += &format!(" > location {}", location.arguments());
    }
    path
}

/// Returns the label of a server: its first name, or its first address if it
/// has none.
fn server_label(server: &Directive) -> String {
    let mut names = server.lines("server_name").flat_map(|line| &line.args);
    let mut listens = server.lines("listen").filter_map(|line| line.args.first());
    let named = names.find(|name| !name.is_empty());
    match (named, listens.next()) {
        (Some(name), _) => format!("server {name}"),
        (None, Some(listen)) if listen.iter().all(u8::is_ascii_digit) => {
            format!("server :{listen}")
        }
        (None, Some(listen)) => format!("server {listen}"),
        (None, None) => "server".into(),
    }
}

fn scopes<'c>(tree: &'c Tree, selection: &Selection<'c>) -> Vec<Scope<'c>> {
    let mut scopes = vec![Scope {
        kind: Contexts::MAIN,
        path: String::new(),
        directives: &tree.main,
    }];
    let mut push = |kind, path: String, block: &'c Directive| {
        scopes.push(Scope {
            kind,
            path,
            directives: block.inner(),
        });
    };
    if let Some(events) = blocks(&tree.main, "events").next() {
        push(Contexts::EVENTS, "events".into(), events);
    }
    if let Some(http) = selection.http {
        push(Contexts::HTTP, "http".into(), http);
    }
    if let Some(server) = &selection.server {
        push(
            Contexts::SERVER,
            scope_path(server.block, &[]),
            server.block,
        );
        for (depth, location) in selection.locations.iter().enumerate() {
            let path = scope_path(server.block, &selection.locations[..=depth]);
            push(Contexts::LOCATION, path, location);
        }
    }
    scopes
}

impl Chain<'_> {
    /// Returns true if a group of directives has an effect on this request.
    fn has(&self, needs: Needs) -> bool {
        match needs {
            Needs::Nothing => true,
            Needs::Passing(name) => self.own_lines(name).next().is_some(),
            Needs::Tls => {
                let server = self.selection.server.as_ref();
                server.is_some_and(ChosenServer::is_tls)
            }
        }
    }

    /// Returns the lines of a directive in the innermost block itself.
    pub(crate) fn own_lines<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s Directive> {
        let innermost = self.scopes.last().map_or(&[][..], |scope| scope.directives);
        lines(innermost, name)
    }

    /// Returns the values of one directive: a single value, or one value per line if the directive
    /// is a list.
    pub(crate) fn values(&self, known: &Known) -> Vec<Effective> {
        let setting = self.reach(known).into_iter().find_map(|scope| {
            let found: Vec<&Directive> = lines(scope.directives, known.name).collect();
            (!found.is_empty()).then_some((scope, found))
        });
        let doubts = self.doubts(known);
        let Some((scope, found)) = setting else {
            return vec![self.default(known, doubts)];
        };
        let taken = match known.inheritance {
            Inheritance::List => found.len(),
            Inheritance::Single | Inheritance::Own => 1,
        };
        let of_line = |line: &&Directive| Effective {
            directive: known.name.into(),
            value: line.arguments(),
            set_at: Some(line.at),
            scope: scope.path.clone(),
            doubts: doubts.clone(),
        };
        found[..taken].iter().map(of_line).collect()
    }

    /// Returns the blocks that a directive may be inherited from, innermost first.
    fn reach(&self, known: &Known) -> Vec<&Scope<'_>> {
        let inward = self.scopes.iter().rev();
        let allowed = |scope: &&Scope<'_>| known.contexts.has(scope.kind);
        match known.inheritance {
            Inheritance::Single | Inheritance::List => inward.filter(allowed).collect(),
            Inheritance::Own => inward.take(1).filter(allowed).collect(),
        }
    }

    fn default(&self, known: &Known, doubts: Vec<String>) -> Effective {
        let scope = self.reach(known).first().map(|scope| scope.path.clone());
        let scope = scope.unwrap_or_default();
        Effective {
            directive: known.name.into(),
            value: known.default(self.version).into(),
            set_at: None,
            scope,
            doubts,
        }
    }

    /// Returns the reasons why another value of this directive might apply. A doubt about the
    /// server or the location matters only if another server or location sets the directive.
    fn doubts(&self, known: &Known) -> Vec<String> {
        let mut doubts = Vec::new();
        let inner = Contexts::SERVER.and(Contexts::LOCATION);
        if !known.contexts.has(inner) {
            return doubts;
        }
        let (name, selection) = (known.name, self.selection);
        let in_http = |http: &Directive| http.blocks("server").any(|server| sets(server, name));
        if !selection.server_doubts.is_empty() && selection.http.is_some_and(in_http) {
            doubts.extend(selection.server_doubts.iter().cloned());
        }
        let in_server = |server: &ChosenServer<'_>| sets(server.block, name);
        if !selection.location_doubts.is_empty() && selection.server.as_ref().is_some_and(in_server)
        {
            doubts.extend(selection.location_doubts.iter().cloned());
        }
        if known.contexts.has(Contexts::IF) {
            doubts.extend(self.conditions(name));
        }
        doubts
    }

    /// Describes the `if` blocks of the location that set this directive.
    fn conditions(&self, name: &str) -> Vec<String> {
        let Some(location) = self.selection.locations.last() else {
            return Vec::new();
        };
        let conditional = location
            .blocks("if")
            .flat_map(|condition| condition.lines(name).map(move |line| (condition, line)));
        conditional
            .map(|(condition, line)| {
                format!(
                    "`if {}` sets it to {} at {} where the condition holds",
                    condition.arguments(),
                    line.arguments(),
                    self.tree.show(line.at)
                )
            })
            .collect()
    }
}

/// Returns true if a block or anything inside it sets a directive.
fn sets(block: &Directive, name: &str) -> bool {
    block
        .inner()
        .iter()
        .any(|inner| (inner.block.is_none() && inner.name == *name) || sets(inner, name))
}
