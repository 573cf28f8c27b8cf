//! The server and the location that answer one request.

use std::net::IpAddr;

use lagtrace_core::event::Note;

use super::Request;
use super::listen::Port;
use super::location::{self, Found, passes_on};
use super::master::note;
use super::name::{self, NameChoice, NameMatch};
use super::rewrite;
use super::tree::{Directive, Tree, blocks};
use super::uri;

/// What must be known of the host that nginx runs on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surroundings {
    /// The port of a server without `listen`.
    pub(crate) implied_port: u16,
    /// What `$hostname` stands for.
    pub(crate) hostname: Option<String>,
    /// The text of its `/etc/hosts`.
    pub(crate) hosts: String,
    /// Whether its addresses may not be those that clients use.
    pub(crate) is_other_network: bool,
}

impl Surroundings {
    /// The addresses of a name in `/etc/hosts`.
    fn resolve(&self, name: &str) -> Vec<IpAddr> {
        let lines = self.hosts.lines();
        lines
            .filter_map(|line| {
                let line = line.split('#').next()?;
                let mut words = line.split_ascii_whitespace();
                let address = words.next()?.parse().ok()?;
                words
                    .any(|word| word.eq_ignore_ascii_case(name))
                    .then_some(address)
            })
            .collect()
    }
}

/// Who answers.
#[derive(Debug, Default)]
pub(crate) struct Selection<'c> {
    pub(crate) http: Option<&'c Directive>,
    pub(crate) server: Option<ChosenServer<'c>>,
    /// The location and those it is nested in, outermost first.
    pub(crate) locations: Vec<&'c Directive>,
    /// Why another server might answer.
    pub(crate) server_doubts: Vec<String>,
    /// Why another location might answer, given the server.
    pub(crate) location_doubts: Vec<String>,
    pub(crate) notes: Vec<Note>,
}

/// The server that answers.
#[derive(Debug)]
pub(crate) struct ChosenServer<'c> {
    pub(crate) block: &'c Directive,
    pub(crate) by: NameMatch,
    /// The address it was found at.
    pub(crate) ip: IpAddr,
    /// The `listen` whose options the accepting socket has; `None` for the
    /// port implied by having no `listen`.
    pub(crate) socket: Option<&'c Directive>,
}

/// Selects as nginx would.
pub(crate) fn select<'c>(
    tree: &'c Tree,
    surroundings: &Surroundings,
    request: &Request<'_>,
) -> Selection<'c> {
    let mut selection = Selection {
        http: tree.http(),
        ..Selection::default()
    };
    let Some(http) = selection.http else {
        let text = "the configuration has no http block";
        selection.notes.push(note("nginx-no-server", text));
        return selection;
    };
    let servers: Vec<&Directive> = http.blocks("server").collect();
    selection.choose_server(tree, &servers, surroundings, request);
    if let Some(server) = &selection.server {
        let server = server.block;
        selection.choose_location(tree, server, request);
    }
    selection
}

impl<'c> Selection<'c> {
    fn choose_server(
        &mut self,
        tree: &'c Tree,
        servers: &[&'c Directive],
        surroundings: &Surroundings,
        request: &Request<'_>,
    ) {
        let resolve = |name: &str| surroundings.resolve(name);
        let port = Port::collect(servers, request.port, surroundings.implied_port, &resolve);
        for listen in &port.unresolved {
            self.server_doubts.push(format!(
                "`listen {}` at {} is a name that could not be resolved here",
                listen.arguments(),
                tree.show(listen.at)
            ));
        }
        let known = request
            .local_addr
            .filter(|_| !surroundings.is_other_network);
        let address = match known {
            Some(ip) => port.address(ip),
            None => {
                self.doubt_address(&port);
                let any = request.local_addr.and_then(|ip| port.address(ip));
                any.or_else(|| {
                    port.addresses
                        .iter()
                        .find(|known| known.ip.is_unspecified())
                })
                .or_else(|| port.addresses.first())
            }
        };
        let Some(address) = address else {
            self.note_no_server(tree, request);
            return;
        };
        let NameChoice { server, by, doubts } = name::choose(
            servers,
            &address.servers,
            address.default_server,
            request.host,
            surroundings.hostname.as_deref(),
        );
        self.server_doubts.extend(doubts);
        self.server = servers.get(server).map(|block| ChosenServer {
            block,
            by,
            ip: address.ip,
            socket: port.socket(address),
        });
    }

    /// Without the local address, several addresses of a port are a question.
    fn doubt_address(&mut self, port: &Port<'c>) {
        if port.addresses.len() > 1 {
            let addresses: Vec<String> = port
                .addresses
                .iter()
                .map(|address| address.ip.to_string())
                .collect();
            self.server_doubts.push(format!(
                "the address the connection arrives at is not known, and nginx listens on {}",
                addresses.join(", ")
            ));
        }
    }

    fn note_no_server(&mut self, tree: &Tree, request: &Request<'_>) {
        let port = request.port;
        let in_stream = blocks(&tree.main, "stream")
            .flat_map(|stream| stream.blocks("server"))
            .any(|server| {
                let servers = [server];
                !Port::collect(&servers, port, 0, &|_| Vec::new())
                    .addresses
                    .is_empty()
            });
        let text = if in_stream {
            format!("port {port} belongs to a stream server, which knows no HTTP")
        } else {
            format!("no server of the configuration listens on port {port} at this address")
        };
        self.notes.push(note("nginx-no-server", text));
    }

    fn choose_location(&mut self, tree: &'c Tree, server: &'c Directive, request: &Request<'_>) {
        let merges = server
            .lines("merge_slashes")
            .chain(
                self.http
                    .into_iter()
                    .flat_map(|http| http.lines("merge_slashes")),
            )
            .next()
            .is_none_or(|line| line.args.first().is_none_or(|word| *word != *"off"));
        let uri = match uri::normalise(request.uri.as_bytes(), merges) {
            Ok(uri) => uri,
            Err(_) => {
                let text = format!("nginx answers 400 to the URI {:?}", request.uri);
                self.notes.push(note("nginx-bad-uri", text));
                return;
            }
        };
        let before = rewrite::follow(tree, server.inner(), &uri);
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
        } = location::find(server.inner(), &uri);
        self.location_doubts.extend(doubts);
        if adds_slash {
            let text = "nginx redirects the client to the same URI with a slash at its end";
            self.notes.push(note("nginx-adds-slash", text));
        }
        self.locations = path;
        let location = self.locations.last().copied();
        self.look_inside(tree, server, location, &uri);
    }

    /// What may still send the request elsewhere.
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
        let is_answered = inside.answer.is_some() || passes_on(block);
        if inside.answer.is_none() {
            doubts.extend(rewrite::leads_elsewhere(tree, block));
        }
        if !is_answered && uri.ends_with(b"/") {
            doubts.extend(self.index_elsewhere(tree, server, uri));
        }
        if !doubts.is_empty() {
            let text = "the request may be redirected inside nginx; that was not followed";
            self.notes.push(note("nginx-redirects-inside", text));
        }
        self.location_doubts.extend(doubts);
    }

    /// A directory's index file is served by an inner redirect, which may end
    /// in another location.
    fn index_elsewhere(&self, tree: &Tree, server: &Directive, uri: &[u8]) -> Vec<String> {
        let outward = self.locations.iter().rev().copied();
        let blocks = outward.chain([server]).chain(self.http);
        let index = blocks.flat_map(|block| block.lines("index").next()).next();
        let names = index.map_or_else(
            || vec![b"index.html".to_vec()],
            |line| line.args.iter().map(|word| word.to_vec()).collect(),
        );
        let here = self.locations.last().map(|location| location.at);
        let mut doubts = Vec::new();
        for name in names.iter().take(16) {
            let target = [uri, name.as_slice()].concat();
            let found = location::find(server.inner(), &target);
            match found.path.last() {
                Some(other) if Some(other.at) != here => doubts.push(format!(
                    "if {} exists, it is served by location {} at {}",
                    String::from_utf8_lossy(&target),
                    other.arguments(),
                    tree.show(other.at)
                )),
                _ => {}
            }
        }
        doubts
    }
}
