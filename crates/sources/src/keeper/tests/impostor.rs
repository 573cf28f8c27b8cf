//! A connection of the worker that has the address and port of another client. It leads to no
//! process of that client's server.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::thread;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{Asked, end, has_root, holder, of_servers, serving};
use crate::privilege::message::Reply;
use crate::socket::foreign::OwnFlow;

/// An address of the host, and one at which nobody is.
const OWN: [u8; 4] = [10, 97, 1, 1];
const NOBODY: [u8; 4] = [10, 97, 2, 2];

/// Runs `work` in a thread in a new network namespace, which has only a loopback device.
fn in_new_namespace(work: impl FnOnce() + Send) {
    if !has_root() {
        return;
    }
    let name = format!("ltkeeper-{}", std::process::id());
    let ip = |line: &str| {
        let status = Command::new("ip").args(line.split(' ')).status();
        assert!(status.expect("ip runs").success(), "{line}");
    };
    ip(&format!("netns add {name}"));
    ip(&format!("-n {name} link set lo up"));
    ip(&format!("-n {name} addr add 10.97.1.1/32 dev lo"));
    ip(&format!("-n {name} route add 10.97.2.0/24 dev lo"));
    let file = std::fs::File::open(format!("/run/netns/{name}")).expect("it exists");
    let outcome = thread::scope(|scope| {
        let visitor = scope.spawn(|| {
            move_into_link_name_space(
                std::os::fd::AsFd::as_fd(&file),
                Some(LinkNameSpaceType::Network),
            )
            .expect("root may enter");
            work();
        });
        visitor.join()
    });
    ip(&format!("netns del {name}"));
    outcome.expect("the work succeeds");
}

/// Begins to open a connection from an address that another connection has.
fn opening(local: SocketAddr, remote: SocketAddr) -> (TcpStream, OwnFlow) {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)
        .expect("one");
    sockopt::set_socket_reuseaddr(&socket, true).expect("an option");
    rustix::net::bind(&socket, &local).expect("the port can be shared");
    let begun = rustix::net::connect(&socket, &remote);
    assert_eq!(begun, Err(Errno::INPROGRESS));
    let (local, remote) = (local.into(), remote.into());
    (TcpStream::from(socket), OwnFlow { local, remote })
}

/// Connects from a port that can be shared.
fn connected(remote: SocketAddr) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).expect("one");
    sockopt::set_socket_reuseaddr(&socket, true).expect("an option");
    rustix::net::bind(&socket, &SocketAddr::from((OWN, 0))).expect("a free port");
    rustix::net::connect(&socket, &remote).expect("a listener");
    TcpStream::from(socket)
}

#[test]
fn the_address_of_another_client_leads_to_no_server() {
    in_new_namespace(|| {
        let listener = TcpListener::bind(SocketAddr::from((OWN, 0))).expect("a port");
        let address = listener.local_addr().expect("bound");
        let victim = connected(address);
        let (accepted, _) = listener.accept().expect("it is connected");
        let server = holder(accepted.into(), &[]);
        let local = victim.local_addr().expect("bound");
        let named = 80;
        let (_opening, flow) = opening(local, SocketAddr::from((NOBODY, named)));
        let asked: Asked = of_servers(&[named]);
        asked.is_refused(&serving(address.into(), Some(flow)));
        // By its own connection, the victim may find the server.
        let own = OwnFlow::of(&victim).expect("connected");
        let asked_by_victim = of_servers(&[address.port()]);
        let (reply, _) = asked_by_victim.ask(&serving(address.into(), Some(own)));
        let Reply::Processes(found) = reply else {
            panic!("{reply:?}");
        };
        assert!(
            found.iter().any(|(pid, _)| *pid == server.id()),
            "{found:?}"
        );
        end(server);
        asked.end();
        asked_by_victim.end();
    });
}
