//! The server block that answers a request.

use std::collections::HashMap;
use std::net::IpAddr;

use lagtrace_core::observed::event::Note;

use super::Request;
use super::listen::{Address, ListenAddress, Port, has_option, parse};
use super::master::note;
use super::name::{self, NameMatch};
use super::tree::{Directive, Tree, blocks};

/// Properties of the host that nginx runs on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surroundings {
    /// The port of a server without `listen`.
    pub(crate) implied_port: u16,
    /// The value of `$hostname`.
    pub(crate) hostname: Option<String>,
    /// The host names in the host's `/etc/hosts`, in lower case, with their addresses.
    pub(crate) hosts: HashMap<String, Vec<IpAddr>>,
    /// True if nginx may be in another network namespace, so that its addresses are not those that
    /// clients connect to.
    pub(crate) is_other_network: bool,
}

/// Reads the text of `/etc/hosts`.
pub(crate) fn read_hosts(text: &str) -> HashMap<String, Vec<IpAddr>> {
    let mut hosts: HashMap<String, Vec<IpAddr>> = HashMap::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_ascii_whitespace();
        let Some(Ok(address)) = words.next().map(str::parse) else {
            continue;
        };
        for name in words {
            let addresses = hosts.entry(name.to_ascii_lowercase()).or_default();
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
    hosts
}

/// The server that answers a request.
#[derive(Debug)]
pub(crate) struct ChosenServer<'c> {
    pub(crate) block: &'c Directive,
    pub(crate) by: NameMatch,
    /// The server whose settings apply while the request line and the headers are read. Without TLS
    /// this is the default server of the address, because the host is not known yet.
    pub(crate) head: &'c Directive,
    /// The address at which the server was found.
    pub(crate) ip: IpAddr,
    /// All `listen` directives of this address, including those of other servers.
    pub(crate) listens: Vec<&'c Directive>,
    /// The `listen` whose options the accepting socket has; `None` if the server has no `listen`.
    pub(crate) socket: Option<&'c Directive>,
}

impl ChosenServer<'_> {
    /// Returns true if the address uses TLS.
    pub(crate) fn is_tls(&self) -> bool {
        is_tls(&self.listens)
    }
}

fn is_tls(listens: &[&Directive]) -> bool {
    listens.iter().any(|listen| has_option(listen, "ssl"))
}

/// Chooses a server by address and by name. If there is no server, the reason is added to `notes`;
/// reasons why another server might be chosen are added to `doubts`.
pub(crate) fn choose<'c>(
    tree: &'c Tree,
    surroundings: &Surroundings,
    request: &Request<'_>,
    doubts: &mut Vec<String>,
    notes: &mut Vec<Note>,
) -> Option<ChosenServer<'c>> {
    let Some(http) = tree.http() else {
        let text = "the configuration has no http block";
        notes.push(note("nginx-no-server", text));
        return None;
    };
    let servers: Vec<&Directive> = http.blocks("server").collect();
    let resolve = |name: &str| surroundings.hosts.get(name).cloned().unwrap_or_default();
    let port = Port::collect(&servers, request.port, surroundings.implied_port, &resolve);
    for listen in port.unresolved.iter().take(4) {
        doubts.push(format!(
            "`listen {}` at {} is a name that could not be resolved here",
            listen.arguments(),
            tree.show(listen.at)
        ));
    }
    let Some(address) = address(&port, surroundings, request, doubts) else {
        let text = why_none(tree, &servers, request.port);
        notes.push(note("nginx-no-server", text));
        return None;
    };
    let hostname = surroundings.hostname.as_deref();
    let named = name::choose(&servers, address, request.host, hostname);
    doubts.extend(named.doubts);
    let block = *servers.get(named.server)?;
    let default = *servers.get(address.default_server)?;
    Some(ChosenServer {
        block,
        by: named.by,
        head: if is_tls(&address.listens) {
            block
        } else {
            default
        },
        ip: address.ip,
        listens: address.listens.clone(),
        socket: port.socket(address),
    })
}

/// Returns the address of this port that accepts the connection.
fn address<'p, 'c>(
    port: &'p Port<'c>,
    surroundings: &Surroundings,
    request: &Request<'_>,
    doubts: &mut Vec<String>,
) -> Option<&'p Address<'c>> {
    let asked = request.local_addr.and_then(|ip| port.address(ip));
    if request.local_addr.is_some() && !surroundings.is_other_network {
        return asked;
    }
    if port.addresses.len() > 1 {
        let shown = port.addresses.iter().take(4);
        let shown: Vec<String> = shown.map(|address| address.ip.to_string()).collect();
        doubts.push(format!(
            "the address the connection arrives at is not known, and nginx listens on several ({})",
            shown.join(", ")
        ));
    }
    let mut all = port.addresses.iter();
    asked
        .or_else(|| all.find(|known| known.ip.is_unspecified()))
        .or_else(|| port.addresses.first())
}

/// Explains why no server listens on a port.
fn why_none(tree: &Tree, servers: &[&Directive], port: u16) -> String {
    let in_stream = blocks(&tree.main, "stream")
        .flat_map(|stream| stream.blocks("server"))
        .any(|server| {
            let found = Port::collect(&[server], port, 0, &|_| Vec::new());
            !found.addresses.is_empty()
        });
    if in_stream {
        return format!("port {port} belongs to a stream server, which does not handle HTTP");
    }
    let mut ports: Vec<u16> = servers
        .iter()
        .flat_map(|server| server.lines("listen"))
        .filter_map(|listen| match parse(listen) {
            ListenAddress::Inet { ports, .. } => Some(*ports.start()),
            ListenAddress::Other | ListenAddress::Invalid => None,
        })
        .collect();
    ports.sort_unstable();
    ports.dedup();
    let shown: Vec<String> = ports.iter().take(10).map(u16::to_string).collect();
    format!(
        "no server of the configuration listens on port {port} at this address; it has ports {}",
        shown.join(", ")
    )
}
