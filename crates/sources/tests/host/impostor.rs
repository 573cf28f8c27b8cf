//! A connection that seems to end at the server of another client, because it has that client's
//! address and port. The server's socket must not be touched.

use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;

use lagtrace_sources::privilege::{HostError, NetworkNamespace};
use lagtrace_sources::socket::foreign::{OwnFlow, Server as Found, find_server, find_server_in};
use lagtrace_sources::socket::option::ForeignOption;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use crate::server::{Client, Server};
use crate::world::{Pair, can_run};

/// A server of another client, and an address that NAT translates to a server of our own.
struct World {
    pair: Pair,
    other: Server,
    _own: Server,
    shown: SocketAddr,
    /// The local port that both clients have.
    port: u16,
}

impl World {
    fn new() -> Self {
        let pair = Pair::new();
        let net = &pair.net;
        let (theirs, ours) = (format!("{net}.2:9000"), format!("{net}.1:8085"));
        let other = Server::start(&theirs, Some(&pair.server.name));
        let own = Server::start(&ours, Some(&pair.client.name));
        pair.client.run("nft add table ip t");
        pair.client
            .run("nft add chain ip t out { type nat hook output priority -100 ; }");
        let rule = format!("ip daddr {net}.99 tcp dport 80 dnat to {ours}");
        pair.client.run(&format!("nft add rule ip t out {rule}"));
        let shown = format!("{net}.99:80").parse().expect("an address");
        Self {
            pair,
            other,
            _own: own,
            shown,
            port: 30_000 + u16::try_from(std::process::id() % 10_000).expect("small"),
        }
    }

    /// Returns the server at which the client's connection seems to end in the other namespace.
    fn forged(&self, client: &Client) -> Found {
        let namespace = NetworkNamespace::of(self.other.pid()).expect("root may look");
        let search = find_server_in(namespace, self.shown.into(), Some(&client.stream));
        search.server.expect("by the local end alone")
    }
}

#[test]
fn the_server_of_another_client_is_not_touched() {
    if !can_run(true, &["ip", "nft"]) {
        return;
    }
    let world = World::new();
    world.pair.client.visit(|| {
        let mut victim = Client::connect_from(world.port, world.other.address);
        let mut client = Client::connect_from(world.port, world.shown);
        let forged = world.forged(&client);
        // Nothing was sent on either connection.
        is_refused(&forged, client.flow());
        // Now their counts differ.
        victim.ask();
        is_refused(&forged, client.flow());
        is_switched(&mut client, world.shown);
        // And now they are equal again.
        client.ask();
        victim.ask_nodelay();
        is_refused(&forged, client.flow());
        assert!(!victim.ask_nodelay());
    });
}

/// The other client's address is translated to ours, so that no socket has it.
#[test]
fn the_server_of_a_translated_client_is_not_touched() {
    if !can_run(true, &["ip", "nft"]) {
        return;
    }
    let world = World::new();
    let (net, client) = (&world.pair.net, &world.pair.client);
    client.run(&format!("ip addr add {net}.5/24 dev v0"));
    client.run("nft add chain ip t post { type nat hook postrouting priority 100 ; }");
    let rule = format!(
        "ip daddr {net}.2 tcp dport 9000 snat to {net}.1:{}",
        world.port
    );
    client.run(&format!("nft add rule ip t post {rule}"));
    let nowhere = format!("{net}.98:80").parse().expect("an address");
    client.visit(|| {
        let mut victim = Client::connect(world.other.address);
        let namespace = NetworkNamespace::of(world.other.pid()).expect("root may look");
        let found = find_server_in(namespace, world.other.address.into(), None);
        let found = found.server.expect("it listens there");
        // A connection that never opens has no far end, although it has sent nothing either.
        let (opening, flow) = opening(world.port, nowhere);
        is_refused(&found, flow);
        drop(opening);
        victim.ask();
        let client = Client::connect_from(world.port, world.shown);
        is_refused(&found, client.flow());
        assert!(!victim.ask_nodelay());
    });
}

/// Checks that the option of this server's socket is not switched.
#[track_caller]
fn is_refused(server: &Found, flow: OwnFlow) {
    let (log, notes) = mpsc::channel();
    let refused = ForeignOption::set_nodelay(server, flow, log).expect_err("not the far end");
    assert!(matches!(refused, HostError::Gone { .. }), "{refused}");
    assert_eq!(notes.iter().count(), 0);
}

/// Checks that the option is switched at the true far end, behind NAT.
fn is_switched(client: &mut Client, shown: SocketAddr) {
    let found = find_server(shown.into(), Some(&client.stream));
    let found = found.server.expect("by our connection");
    let (log, _notes) = mpsc::channel();
    let option = ForeignOption::set_nodelay(&found, client.flow(), log).expect("it is ours");
    assert!(client.ask_nodelay());
    drop(option);
}

/// Begins to open a connection from this port to an address at which no host is.
fn opening(port: u16, target: SocketAddr) -> (TcpStream, OwnFlow) {
    let flags = SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None);
    let socket = socket.expect("a socket");
    sockopt::set_socket_reuseaddr(&socket, true).expect("an option");
    let own = SocketAddr::from(([0, 0, 0, 0], port));
    net::bind(&socket, &own).expect("the port can be shared");
    assert_eq!(net::connect(&socket, &target), Err(Errno::INPROGRESS));
    let stream = TcpStream::from(socket);
    let local = stream.local_addr().expect("it is bound").into();
    let remote = target.into();
    (stream, OwnFlow { local, remote })
}
