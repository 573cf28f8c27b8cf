//! Small servers on the loopback, some of them faulty.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::lab::until;

/// A server that ends when it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

/// The behaviour of a server on its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// The server answers each request with these bytes.
    Answers(&'static [u8]),
    /// The server answers with these bytes after a pause of this length.
    AnswersAfter(Duration, &'static [u8]),
    /// The server answers this number of requests after a pause of this length, and later ones at
    /// once, with these bytes.
    AnswersLateAtFirst(u64, Duration, &'static [u8]),
    /// The server sends the first part of its response at once and the second part after this
    /// pause, with Nagle's algorithm on.
    AnswersApart(Duration, [&'static [u8]; 2]),
    /// The server takes this time for each request, one after the other, so other requests wait.
    AnswersInTurn(Duration, &'static [u8]),
    /// The server passes each request on to the server at this address and then its answer back.
    /// Other threads than those that receive the requests call that server.
    PassesOn(SocketAddr),
    /// The thread that receives a request calls these servers, one after the other, and then answers
    /// with these bytes.
    Calls([SocketAddr; 2], &'static [u8]),
    /// The server closes each connection as soon as it has accepted it.
    ClosesAtOnce,
    /// The server reads and never answers.
    NeverAnswers,
}

/// A server with a complete and healthy response.
pub(crate) const OK: Manner = Manner::Answers(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");

impl Server {
    /// Starts a server on a free port of 127.0.0.1.
    pub(crate) fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let answered = Arc::new(AtomicU64::new(0));
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&answered));
        let thread = thread::spawn(move || accept(&listener, manner, &stopped, &count));
        Self {
            address,
            stop,
            answered,
            thread: Some(thread),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/page", self.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Waits until the server has answered this number of further requests.
    #[track_caller]
    pub(crate) fn answers(&self, count: u64) {
        let answered = || self.answered.load(Ordering::Relaxed);
        let enough = answered() + count;
        until("requests are answered", || answered() >= enough);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The connection wakes the thread that waits in `accept`.
        TcpStream::connect(self.address).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// The state that all connections of a server share.
struct Shared {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    /// Number of requests that were answered late, or were to be.
    late: AtomicU64,
    turn: Mutex<()>,
    /// The connections to an upstream that are not in use.
    idle: Mutex<Vec<TcpStream>>,
}

fn accept(
    listener: &TcpListener,
    manner: Manner,
    stop: &Arc<AtomicBool>,
    answered: &Arc<AtomicU64>,
) {
    let shared = Arc::new(Shared {
        stop: Arc::clone(stop),
        answered: Arc::clone(answered),
        late: AtomicU64::new(0),
        turn: Mutex::new(()),
        idle: Mutex::default(),
    });
    for stream in listener.incoming().flatten() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let shared = Arc::clone(&shared);
        match manner {
            Manner::ClosesAtOnce => drop(stream),
            Manner::PassesOn(upstream) => drop(thread::spawn(move || {
                pass_on(stream, upstream, &shared);
            })),
            _ => drop(thread::spawn(move || {
                serve(stream, manner, &shared);
            })),
        }
    }
}

/// Passes requests on to `upstream`, each by another thread than the one that received it.
fn pass_on(mut stream: TcpStream, upstream: SocketAddr, shared: &Arc<Shared>) {
    let mut buffer = [0; 4096];
    stream.set_nodelay(true).ok();
    stream
        .set_read_timeout(Some(Duration::from_millis(200)))
        .ok();
    while !shared.stop.load(Ordering::Relaxed) {
        let request = match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => buffer[..length].to_vec(),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(_) => return,
        };
        let (to_answer, answers) = mpsc::channel();
        let of_caller = Arc::clone(shared);
        thread::spawn(move || to_answer.send(call(upstream, &request, &of_caller)));
        match answers.recv() {
            Ok(Ok(answer)) if stream.write_all(&answer).is_ok() => {}
            _ => return,
        }
        shared.answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns the answer of `upstream`. Connections are kept open and used again.
fn call(upstream: SocketAddr, request: &[u8], shared: &Shared) -> std::io::Result<Vec<u8>> {
    let idle = shared.idle.lock().unwrap().pop();
    let mut called = match idle {
        Some(stream) => stream,
        None => TcpStream::connect(upstream)?,
    };
    let mut buffer = [0; 4096];
    called.write_all(request)?;
    let length = called.read(&mut buffer)?;
    shared.idle.lock().unwrap().push(called);
    Ok(buffer[..length].to_vec())
}

/// Returns the length of the server's answer, on a connection of its own.
fn ask(server: SocketAddr, request: &[u8]) -> std::io::Result<usize> {
    let mut stream = TcpStream::connect(server)?;
    stream.write_all(request)?;
    stream.read(&mut [0; 4096])
}

fn serve(mut stream: TcpStream, manner: Manner, shared: &Shared) {
    let mut buffer = [0; 4096];
    let is_apart = matches!(manner, Manner::AnswersApart(..));
    stream.set_nodelay(!is_apart).ok();
    stream
        .set_read_timeout(Some(Duration::from_millis(200)))
        .ok();
    while !shared.stop.load(Ordering::Relaxed) {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                let answer = match manner {
                    Manner::Answers(bytes) => bytes,
                    Manner::AnswersAfter(delay, bytes) => {
                        thread::sleep(delay);
                        bytes
                    }
                    Manner::AnswersLateAtFirst(times, delay, bytes) => {
                        if shared.late.fetch_add(1, Ordering::Relaxed) < times {
                            thread::sleep(delay);
                        }
                        bytes
                    }
                    Manner::AnswersApart(pause, [first, last]) => {
                        if stream.write_all(first).is_err() {
                            return;
                        }
                        thread::sleep(pause);
                        last
                    }
                    Manner::AnswersInTurn(work, bytes) => {
                        let _mine = shared.turn.lock().unwrap();
                        thread::sleep(work);
                        bytes
                    }
                    Manner::Calls(upstreams, bytes) => {
                        let called = upstreams.map(|at| ask(at, &buffer[..length]));
                        if called.iter().any(Result::is_err) {
                            return;
                        }
                        bytes
                    }
                    Manner::PassesOn(_) | Manner::ClosesAtOnce | Manner::NeverAnswers => continue,
                };
                if stream.write_all(answer).is_err() {
                    return;
                }
                shared.answered.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
