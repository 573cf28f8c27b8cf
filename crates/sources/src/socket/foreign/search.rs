//! The search for the server in all network namespaces, beginning with lagtrace's own.

use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use lagtrace_core::observed::event::Note;
use lagtrace_core::observed::flow::Endpoint;

use super::serving::serving;
use super::{OwnFlow, Search, Server, far_end, listening};
use crate::netlink::NetlinkProtocol;
use crate::privilege::{HostError, NetworkNamespace};
use crate::route::RouteSocket;
use crate::socket::diag::DiagSocket;
use crate::socket::namespaces::Namespaces;
use crate::socket::record::{SocketRecord, TcpState};

/// Maximum time in which the remote end reacts to the close of the local end. It covers a few
/// retransmissions.
const PATIENCE: Duration = Duration::from_secs(1);
/// Interval between checks of the remote end during this time. The kernel does not report changes
/// of other sockets.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Searches this host for the server of `target`. Without `connection`, the server is found by its
/// address and listener. With a live connection of this process, it is found by the connection's
/// remote end, even with NAT.
///
/// Hosts in different network namespaces can have equal addresses. They can even have connections
/// with equal ends, because the kernel chooses their ports in the same way. If several namespaces
/// contain such a connection, the local end is closed for writing. The true remote end is the one
/// whose state then changes within a second.
pub fn find_server(target: Endpoint, connection: Option<&TcpStream>) -> Search {
    let mut namespaces = Namespaces::new();
    let (server, mut refusals) = look_into(namespaces.by_ref(), target, connection);
    refusals.entering = refusals.entering.or(namespaces.refusal);
    refusals.beside(server)
}

/// Like [`find_server`], but searches only the namespace that the user has specified.
pub fn find_server_in(
    namespace: NetworkNamespace,
    target: Endpoint,
    connection: Option<&TcpStream>,
) -> Search {
    let (server, refusals) = look_into([namespace], target, connection);
    refusals.beside(server)
}

fn look_into(
    namespaces: impl IntoIterator<Item = NetworkNamespace>,
    target: Endpoint,
    connection: Option<&TcpStream>,
) -> (Option<Server>, Refusals) {
    let mut refusals = Refusals::default();
    let flow = connection.and_then(OwnFlow::of);
    let mut places = Vec::new();
    for namespace in namespaces {
        match Place::in_namespace(namespace, target, flow) {
            // No other namespace needs to be searched: in lagtrace's own namespace the ends are
            // unique, and without a connection the first match is taken.
            Ok(Some(place)) if place.namespace.is_own() || flow.is_none() => {
                places = vec![place];
                break;
            }
            Ok(place) => places.extend(place),
            Err(e) => {
                refusals.entering.get_or_insert(e);
            }
        }
    }
    let place = match connection.zip(flow) {
        Some((stream, flow)) if places.len() > 1 => {
            let noticed = that_notices(places, stream, flow);
            refusals.is_ambiguous = noticed.is_none();
            noticed
        }
        _ => places.pop(),
    };
    let server = place.map(|place| place.server(flow, &mut refusals));
    (server, refusals)
}

/// Closes the local end of `flow` for writing, and returns the place where the remote end then
/// changes its state.
fn that_notices(mut places: Vec<Place>, stream: &TcpStream, flow: OwnFlow) -> Option<Place> {
    stream.shutdown(Shutdown::Write).ok()?;
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(index) = places.iter_mut().position(|place| place.has_noticed(flow)) {
            return Some(places.swap_remove(index));
        }
        thread::sleep(LOOK_EVERY);
    }
    None
}

/// A namespace in which the target may run, and the target's sockets there.
struct Place {
    namespace: NetworkNamespace,
    diag: DiagSocket,
    /// Address of the target in this namespace.
    endpoint: Endpoint,
    /// Remote end of the connection in this namespace.
    far: Option<SocketRecord>,
}

impl Place {
    /// Examines a namespace; returns `None` if the target does not run in it.
    fn in_namespace(
        namespace: NetworkNamespace,
        target: Endpoint,
        flow: Option<OwnFlow>,
    ) -> Result<Option<Self>, HostError> {
        if target.addr.is_loopback() && !namespace.is_own() {
            return Ok(None); // each namespace has its own loopback
        }
        let mut diag = DiagSocket::open_in(&namespace)?;
        if let Some(flow) = flow {
            let far = far_end(&mut diag, flow)?;
            return Ok(far
                .filter(|far| far.state != TcpState::TimeWait)
                .map(|far| Self {
                    namespace,
                    diag,
                    endpoint: far.local,
                    far: Some(far),
                }));
        }
        let mut route = RouteSocket::from(namespace.netlink(NetlinkProtocol::Route)?);
        let is_local = route.lookup(target.addr).is_ok_and(|route| route.is_local);
        let serves = is_local && !listening(&mut diag, target)?.is_empty();
        Ok(serves.then_some(Self {
            namespace,
            diag,
            endpoint: target,
            far: None,
        }))
    }

    /// Returns true if the state of the remote end in this namespace has changed.
    fn has_noticed(&mut self, flow: OwnFlow) -> bool {
        let now = far_end(&mut self.diag, flow);
        let state = |far: &SocketRecord| (far.cookie, far.state);
        now.is_ok_and(|now| now.as_ref().map(state) != self.far.as_ref().map(state))
    }

    fn server(self, flow: Option<OwnFlow>, refusals: &mut Refusals) -> Server {
        let processes = serving(&self.namespace, self.endpoint, flow).unwrap_or_else(|refusal| {
            refusals.owners = Some(refusal);
            Vec::new()
        });
        Server {
            processes,
            namespace: self.namespace,
            endpoint: self.endpoint,
        }
    }
}

/// The operations that the kernel refused during a search: the first of each kind.
#[derive(Debug, Default)]
struct Refusals {
    entering: Option<HostError>,
    owners: Option<HostError>,
    /// True if several namespaces contain a connection with the same ends, and no server's end
    /// reacted when lagtrace closed its own end.
    is_ambiguous: bool,
}

impl Refusals {
    /// Returns the result of the search, with notes on parts that could not be examined.
    fn beside(self, server: Option<Server>) -> Search {
        let entering = self.entering.filter(|_| server.is_none()).map(|e| {
            e.note(
                "not-measured-namespaces",
                "whether the server runs in another network namespace of this host",
            )
        });
        let owners = self.owners.map(|e| {
            e.note(
                "not-measured-server-process",
                "which process serves, and its sockets' TCP_NODELAY, TCP_QUICKACK and TCP_CORK",
            )
        });
        let ambiguous = self.is_ambiguous.then(|| Note {
            id: "not-measured-which-namespace".to_owned(),
            text: "Not measured: which process serves, because several network namespaces of this \
                   host hold a connection with the same addresses and ports as ours. Select one \
                   with `--server-netns` or `--server-pid`."
                .to_owned(),
        });
        Search {
            server,
            notes: entering
                .into_iter()
                .chain(owners)
                .chain(ambiguous)
                .collect(),
        }
    }
}
