//! Small servers, each of which misbehaves in one way.
#![allow(dead_code, reason = "each test uses its part")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A complete response after which the connection stays open.
pub(crate) const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A reserved port on which no program can listen.
pub(crate) struct ClosedPort {
    _socket: socket2::Socket,
    pub(crate) address: SocketAddr,
}

impl ClosedPort {
    /// Reserves a port of `ip`.
    pub(crate) fn of(ip: std::net::IpAddr) -> Self {
        let any = SocketAddr::new(ip, 0);
        let domain = socket2::Domain::for_address(any);
        let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None).expect("a socket");
        socket.bind(&any.into()).expect("a port");
        let address = socket.local_addr().expect("an address").as_socket();
        Self {
            _socket: socket,
            address: address.expect("an IP address"),
        }
    }
}

/// A listener that never accepts. Its backlog is full, so it drops SYNs.
pub(crate) struct FullBacklog {
    _listener: socket2::Socket,
    _waiting: Vec<std::io::Result<TcpStream>>,
    pub(crate) address: SocketAddr,
}

impl FullBacklog {
    /// Starts a listener on 127.0.0.1.
    pub(crate) fn start() -> Self {
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
            .expect("a socket");
        listener.bind(&any.into()).expect("a port");
        listener.listen(0).expect("listening");
        let address = listener.local_addr().expect("an address").as_socket();
        let address = address.expect("an IP address");
        let fill = |_| TcpStream::connect_timeout(&address, Duration::from_millis(100));
        Self {
            _waiting: (0..4).map(fill).collect(),
            _listener: listener,
            address,
        }
    }
}

/// A server with one thread for each connection. Dropping this value ends it.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    is_over: Arc<AtomicBool>,
    accepted: Arc<AtomicUsize>,
}

impl Server {
    /// Starts a server on 127.0.0.1 that passes every connection to `serve`.
    pub(crate) fn start(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0", serve)
    }

    /// Starts a server on `address` that passes every connection to `serve`.
    pub(crate) fn start_at(
        address: &str,
        serve: impl Fn(TcpStream) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).expect("a listener");
        let server = Self {
            address: listener.local_addr().expect("an address"),
            is_over: Arc::default(),
            accepted: Arc::default(),
        };
        let (is_over, accepted) = (server.is_over.clone(), server.accepted.clone());
        let serve = Arc::new(serve);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
                accepted.fetch_add(1, Ordering::SeqCst);
                let serve = serve.clone();
                std::thread::spawn(move || serve(stream));
            }
        });
        server
    }

    /// Returns the number of connections accepted so far.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread that waits in `accept`.
        let _ = TcpStream::connect(self.address);
    }
}

/// Reads the head of one request; `None` if the client has closed the connection.
pub(crate) fn read_request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let (mut head, mut byte) = (Vec::new(), [0; 512]);
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(len) if len > 0 && head.len() < 10_000 => head.extend_from_slice(&byte[..len]),
            _ => return None,
        }
    }
    Some(head)
}

/// Answers every request after `pause`.
pub(crate) fn answer_after(pause: Duration) -> impl Fn(TcpStream) + Send + Sync + 'static {
    answer(move || pause)
}

/// Answers every request immediately, except during the first `freeze` of each `period`. Requests
/// in that time are answered at its end. The first period begins with the first request.
pub(crate) fn freeze_for(freeze: Duration, period: Duration) -> impl Fn(TcpStream) + Send + Sync {
    let begun = std::sync::OnceLock::new();
    answer(move || {
        let now = begun.get_or_init(Instant::now).elapsed();
        let within = Duration::from_nanos((now.as_nanos() % period.as_nanos()) as u64);
        freeze.saturating_sub(within)
    })
}

fn answer(
    pause: impl Fn() -> Duration + Send + Sync + 'static,
) -> impl Fn(TcpStream) + Send + Sync {
    move |mut stream: TcpStream| {
        stream.set_nodelay(true).expect("an option");
        while read_request(&mut stream).is_some() {
            std::thread::sleep(pause());
            if stream.write_all(RESPONSE).is_err() {
                return;
            }
        }
    }
}
