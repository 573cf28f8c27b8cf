//! Settings that the blocks of a request refer to: those of the listening socket and of the zones
//! of limits.

use super::effective::{Chain, Effective, scope_path};
use super::listen;
use super::table::LISTEN_OPTIONS;
use super::tree::{Directive, lines};

/// The directive that defines the zone of a `limit_req`, and its rate.
pub(super) const ZONES: &str = "limit_req_zone";

impl Chain<'_> {
    /// Returns the `listen` of the accepting socket, and its options.
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

    /// Returns the zones that the effective `limit_req` directives refer to. The zones define the
    /// rates.
    pub(crate) fn zones(&self) -> Vec<Effective> {
        let Some(http) = self.selection.http else {
            return Vec::new();
        };
        let innermost = self.scopes.iter().rev().find_map(|scope| {
            let limits: Vec<&Directive> = lines(scope.directives, "limit_req").collect();
            (!limits.is_empty()).then_some(limits)
        });
        let used: Vec<String> = innermost.into_iter().flatten().filter_map(zone).collect();
        http.lines(ZONES)
            .filter(|line| zone(line).is_some_and(|zone| used.contains(&zone)))
            .map(|line| Effective {
                directive: ZONES.into(),
                value: line.arguments(),
                set_at: Some(line.at),
                scope: "http".into(),
                doubts: Vec::new(),
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
