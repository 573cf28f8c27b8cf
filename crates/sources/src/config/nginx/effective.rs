//! The value of a directive where a request ends up: its own block's, else the
//! next outer one's, else the default.

use super::directive::{
    Contexts, GROUPS, Inheritance, Known, LISTEN_OPTIONS, Needs, UPSTREAMS, Version,
};
use super::lex::Word;
use super::listen;
use super::selection::Selection;
use super::tree::{Directive, Place, Tree, blocks, lines};

/// A directive's value, or one of several lines of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Effective {
    pub(crate) directive: String,
    pub(crate) value: String,
    pub(crate) set_at: Option<Place>,
    pub(crate) scope: String,
    /// Why another value might hold, beyond what holds for all of them.
    pub(crate) doubts: Vec<String>,
}

/// A block that surrounds the request.
#[derive(Clone, Debug)]
struct Scope<'c> {
    kind: Contexts,
    /// The blocks down to this one, ` > ` between them; empty outside all.
    path: String,
    directives: &'c [Directive],
}

/// The blocks around a request, innermost last.
#[derive(Debug)]
struct Chain<'c> {
    tree: &'c Tree,
    scopes: Vec<Scope<'c>>,
    selection: &'c Selection<'c>,
    version: Option<Version>,
}

/// All effective values for a request, in the order of the tables.
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
    found.extend(chain.upstream());
    found
}

/// The blocks down to the innermost that was chosen.
pub(crate) fn scope_path(server: &Directive, locations: &[&Directive]) -> String {
    let mut path = format!("http > {}", server_label(server));
    for location in locations {
        path += &format!(" > location {}", location.arguments());
    }
    path
}

/// A server by its first name, or by its first address where it has none.
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
    /// Whether a group of directives says anything about this request.
    fn has(&self, needs: Needs) -> bool {
        match needs {
            Needs::Nothing => true,
            Needs::Passing(name) => self.own_lines(name).next().is_some(),
            Needs::Tls => {
                let server = self.selection.server.as_ref();
                server.is_some_and(|server| {
                    let mut listens = server.block.lines("listen");
                    listens.any(|listen| listen::has_option(listen, "ssl"))
                })
            }
        }
    }

    /// The lines of a directive in the innermost block itself.
    fn own_lines<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s Directive> {
        let innermost = self.scopes.last().map_or(&[][..], |scope| scope.directives);
        lines(innermost, name)
    }

    /// The values of one directive: one, or for a list one for each line.
    fn values(&self, known: &Known) -> Vec<Effective> {
        let depth = self.scopes.len() - 1;
        let reach = match known.inheritance {
            Inheritance::Own => depth..=depth,
            Inheritance::Single | Inheritance::List => 0..=depth,
        };
        let candidates = self.scopes[reach].iter().rev();
        let setting = candidates
            .filter(|scope| known.contexts.has(scope.kind))
            .find_map(|scope| {
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

    fn default(&self, known: &Known, doubts: Vec<String>) -> Effective {
        let scope = self.scopes.iter().rev();
        let scope = scope
            .clone()
            .find(|scope| known.contexts.has(scope.kind))
            .map_or(String::new(), |scope| scope.path.clone());
        Effective {
            directive: known.name.into(),
            value: known.default(self.version).into(),
            set_at: None,
            scope,
            doubts,
        }
    }

    /// Why another value of this directive might hold: a doubt about server or
    /// location matters only where another one sets it.
    fn doubts(&self, known: &Known) -> Vec<String> {
        let mut doubts = Vec::new();
        let inner = Contexts::SERVER.and(Contexts::LOCATION);
        if !known.contexts.has(inner) {
            return doubts;
        }
        let name = known.name;
        let in_http = |http: &Directive| http.blocks("server").any(|server| sets(server, name));
        if self.selection.http.is_some_and(in_http) {
            doubts.extend(self.selection.server_doubts.iter().cloned());
        }
        let in_server = self.selection.server.as_ref();
        if in_server.is_some_and(|server| sets(server.block, name)) {
            doubts.extend(self.selection.location_doubts.iter().cloned());
        }
        if known.contexts.has(Contexts::IF) {
            doubts.extend(self.conditions(name));
        }
        doubts
    }

    /// The `if` blocks of the location that set this directive.
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

    /// The accepting socket: its `listen` and the options that were given.
    fn listen(&self) -> Vec<Effective> {
        let Some(server) = &self.selection.server else {
            return Vec::new();
        };
        let scope = scope_path(server.block, &[]);
        let line = |directive: String, value: String, listen: Option<&Directive>| Effective {
            directive,
            value,
            set_at: listen.map(|listen| listen.at),
            scope: scope.clone(),
            doubts: self.selection.server_doubts.clone(),
        };
        let address = server.socket.map_or_else(
            || format!("port implied by having no listen, at {}", server.ip),
            Directive::arguments,
        );
        let mut found = vec![line("listen".into(), address, server.socket)];
        for (option, default) in LISTEN_OPTIONS {
            let set = server
                .socket
                .and_then(|listen| Some((listen, listen::option(listen, option)?)));
            let name = format!("listen {option}");
            found.push(match set {
                Some((listen, value)) if value.is_empty() => line(name, "on".into(), Some(listen)),
                Some((listen, value)) => line(name, value, Some(listen)),
                None => line(name, (*default).into(), None),
            });
        }
        found
    }

    /// The zones that the effective `limit_req` and `limit_conn` draw on: they
    /// hold the rate.
    fn zones(&self) -> Vec<Effective> {
        let Some(http) = self.selection.http else {
            return Vec::new();
        };
        let mut found: Vec<Effective> = Vec::new();
        for (limit, definition) in [
            ("limit_req", "limit_req_zone"),
            ("limit_conn", "limit_conn_zone"),
        ] {
            let innermost = self.scopes.iter().rev().find_map(|scope| {
                let limits: Vec<&Directive> = lines(scope.directives, limit).collect();
                (!limits.is_empty()).then_some(limits)
            });
            let used: Vec<String> = innermost.into_iter().flatten().filter_map(zone).collect();
            found.extend(
                http.lines(definition)
                    .filter(|line| zone(line).is_some_and(|zone| used.contains(&zone)))
                    .map(|line| Effective {
                        directive: definition.into(),
                        value: line.arguments(),
                        set_at: Some(line.at),
                        scope: "http".into(),
                        doubts: Vec::new(),
                    }),
            );
        }
        found
    }

    /// The upstream block that a `*_pass` of the innermost block names.
    fn upstream(&self) -> Vec<Effective> {
        let passing = ["proxy_pass", "fastcgi_pass", "uwsgi_pass", "grpc_pass"];
        let target = passing
            .into_iter()
            .find_map(|name| self.own_lines(name).next()?.args.first());
        let name = target.map(upstream_name).unwrap_or_default();
        let http = self.selection.http.into_iter();
        let upstream = http
            .flat_map(|http| http.blocks("upstream"))
            .find(|upstream| upstream.args.first().is_some_and(|arg| arg.text() == name));
        let Some(upstream) = upstream else {
            return Vec::new();
        };
        let chain = Chain {
            tree: self.tree,
            scopes: vec![Scope {
                kind: Contexts::UPSTREAM,
                path: format!("http > upstream {name}"),
                directives: upstream.inner(),
            }],
            selection: self.selection,
            version: self.version,
        };
        let values = UPSTREAMS.iter().flat_map(|known| chain.values(known));
        values
            .map(|mut value| {
                value.directive = format!("upstream {}", value.directive);
                value
            })
            .collect()
    }
}

/// Whether a block or anything inside it sets a directive.
fn sets(block: &Directive, name: &str) -> bool {
    block
        .inner()
        .iter()
        .any(|inner| (inner.block.is_none() && inner.name == *name) || sets(inner, name))
}

/// The zone of a limit (`zone=one` or, in `limit_conn`, the first word) or of
/// its definition (`zone=one:10m`).
fn zone(line: &Directive) -> Option<String> {
    let named = line.args.iter().find_map(|word| {
        let text = word.text();
        Some(text.strip_prefix("zone=")?.to_string())
    });
    let zone = named.or_else(|| line.args.first().map(Word::text))?;
    Some(zone.split(':').next().unwrap_or(&zone).to_string())
}

/// The host part of a `*_pass`, which may name an upstream.
fn upstream_name(target: &Word) -> String {
    let text = target.text();
    let host = text
        .split_once("://")
        .map_or(text.as_str(), |(_, rest)| rest);
    host.split('/').next().unwrap_or(host).to_string()
}
