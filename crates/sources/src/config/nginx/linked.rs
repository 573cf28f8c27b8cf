//! Settings of objects that a request's blocks refer to: the listening socket, the zones of limits,
//! and the upstream.

use super::directive::Contexts;
use super::effective::{Chain, Effective, Scope, scope_path};
use super::lex::Word;
use super::listen;
use super::table::{LISTEN_OPTIONS, UPSTREAMS};
use super::tree::{Directive, lines};

impl Chain<'_> {
    /// Returns the `listen` of the accepting socket and the options given there.
    pub(crate) fn listen(&self) -> Vec<Effective> {
        let Some(server) = &self.selection.server else {
            return Vec::new();
        };
        let address = server.socket.map_or_else(
            || format!("port implied by having no listen, at {}", server.ip),
            Directive::arguments,
        );
        let mut found = vec![self.listen_line("listen".into(), address, server.socket)];
        for (option, default) in LISTEN_OPTIONS {
            found.push(self.listen_option(option, default, server.socket));
        }
        found
    }

    /// Returns an option of the `listen` that created the socket.
    fn listen_option(&self, option: &str, default: &str, listen: Option<&Directive>) -> Effective {
        let name = format!("listen {option}");
        let set = listen.and_then(|listen| Some((listen, listen::option(listen, option)?)));
        match set {
            Some((listen, value)) if value.is_empty() => {
                self.listen_line(name, "on".into(), Some(listen))
            }
            Some((listen, value)) => self.listen_line(name, value, Some(listen)),
            None => self.listen_line(name, default.into(), None),
        }
    }

    /// Returns a setting of a `listen`, which may be in another server's block.
    fn listen_line(&self, directive: String, value: String, at: Option<&Directive>) -> Effective {
        let set_at = at.map(|listen| listen.at);
        let has_line =
            |server: &&Directive| server.lines("listen").any(|line| Some(line.at) == set_at);
        let http = self.selection.http.into_iter();
        let chosen = self.selection.server.as_ref().map(|server| server.block);
        let server = http
            .flat_map(|http| http.blocks("server"))
            .find(has_line)
            .or(chosen);
        Effective {
            directive,
            value,
            set_at,
            scope: server.map_or(String::new(), |server| scope_path(server, &[])),
            doubts: self.selection.server_doubts.clone(),
        }
    }

    /// Returns the zones, which define the rates, that the effective `limit_req` refer to.
    pub(crate) fn zones(&self) -> Vec<Effective> {
        let Some(http) = self.selection.http else {
            return Vec::new();
        };
        let innermost = self.scopes.iter().rev().find_map(|scope| {
            let limits: Vec<&Directive> = lines(scope.directives, "limit_req").collect();
            (!limits.is_empty()).then_some(limits)
        });
        let used: Vec<String> = innermost.into_iter().flatten().filter_map(zone).collect();
        http.lines("limit_req_zone")
            .filter(|line| zone(line).is_some_and(|zone| used.contains(&zone)))
            .map(|line| Effective {
                directive: "limit_req_zone".into(),
                value: line.arguments(),
                set_at: Some(line.at),
                scope: "http".into(),
                doubts: Vec::new(),
            })
            .collect()
    }

    /// Returns the settings of the upstream block that the innermost block's `*_pass` refers to.
    pub(crate) fn upstream(&self) -> Vec<Effective> {
        let passing = [
            "proxy_pass",
            "fastcgi_pass",
            "uwsgi_pass",
            "scgi_pass",
            "grpc_pass",
        ];
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

/// Returns the zone of a limit (`zone=one`) or of its definition (`zone=one:10m`).
fn zone(line: &Directive) -> Option<String> {
    let zone = line.args.iter().find_map(|word| {
        let text = word.text();
        Some(text.strip_prefix("zone=")?.to_string())
    })?;
    Some(zone.split(':').next().unwrap_or(&zone).to_string())
}

/// Returns the host part of a `*_pass`, which may name an upstream.
fn upstream_name(target: &Word) -> String {
    let text = target.text();
    let host = text
        .split_once("://")
        .map_or(text.as_str(), |(_, rest)| rest);
    host.split('/').next().unwrap_or(host).to_string()
}
