//! TCP traffic over the loopback interface.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;

/// A listener on a free port of the loopback interface.
pub(crate) struct Peer {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
}

impl Peer {
    pub(crate) fn new() -> Self {
        Self::at(Ipv4Addr::LOCALHOST.into())
    }

    pub(crate) fn at(address: IpAddr) -> Self {
        let listener = TcpListener::bind((address, 0)).expect("a free port");
        let address = listener.local_addr().expect("its address");
        Self { listener, address }
    }

    /// Returns a filter for the listener's traffic.
    pub(crate) fn filter(&self) -> String {
        format!("tcp port {}", self.address.port())
    }

    /// Sends `count` messages of `len` bytes over one connection, and closes it. Each message is
    /// answered by one byte.
    pub(crate) fn talk(&self, count: usize, len: usize) {
        let message = vec![0x55; len];
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut server, _) = self.listener.accept().expect("a connection");
                let mut received = vec![0; len];
                for _ in 0..count {
                    server.read_exact(&mut received).expect("a message");
                    server.write_all(b"!").expect("an answer");
                }
                let end = server.read(&mut received).expect("the end");
                assert_eq!(end, 0);
            });
            let mut client = TcpStream::connect(self.address).expect("a connection");
            client.set_nodelay(true).expect("an option");
            for _ in 0..count {
                client.write_all(&message).expect("a message");
                client.read_exact(&mut [0]).expect("an answer");
            }
        });
    }
}
