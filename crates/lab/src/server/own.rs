//! Our own small servers: one process a service, one thread a connection, plain HTTP/1.1.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};

use super::request::Requests;
use super::stamp::Stamp;
use super::{PAGE, Server, Sleep};
use crate::error::Error;

/// No server serves more connections at a time; further ones are closed.
const MOST_CONNECTIONS: usize = 4096;

/// A connection on which nothing comes for so long is closed.
const IDLE_LIMIT: Duration = Duration::from_secs(120);

/// What the process of one service is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ServePlan {
    pub(crate) server: Server,
    pub(crate) port: u16,
    /// Where the server's own stamps go, if it keeps any.
    pub(crate) stamps: Option<PathBuf>,
}

/// Serves until the process is ended.
pub(crate) fn run(plan: ServePlan) -> Result<(), Error> {
    // A sleeping server means the time it says: without slack.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    allow_many_files();
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, plan.port));
    let listener =
        TcpListener::bind(address).map_err(Error::file("listen on", address.to_string()))?;
    let stamps = plan.stamps.map(|path| {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.map_err(Error::file("create", path))
    });
    let service = Arc::new(Service {
        server: plan.server,
        stamps: stamps.transpose()?,
    });
    let open = Arc::new(AtomicUsize::new(0));
    for connection in listener.incoming() {
        let Ok(connection) = connection else {
            // A client that was gone before it was accepted, or too many open files: which
            // would be so again at once.
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        if open.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (service, still_open) = (Arc::clone(&service), Arc::clone(&open));
        let serve = move || {
            // Whatever ends a connection, the next one is served.
            let _ = service.serve(connection);
            still_open.fetch_sub(1, Ordering::Relaxed);
        };
        if thread::Builder::new()
            .stack_size(128 << 10)
            .spawn(serve)
            .is_err()
        {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// As many open files as connections, where that is allowed.
fn allow_many_files() {
    let wanted = Some(MOST_CONNECTIONS as u64 + 64);
    let limit = Rlimit {
        current: wanted,
        maximum: wanted,
    };
    let _ = setrlimit(Resource::Nofile, limit);
}

struct Service {
    server: Server,
    stamps: Option<File>,
}

impl Service {
    fn serve(&self, connection: TcpStream) -> io::Result<()> {
        connection.set_read_timeout(Some(IDLE_LIMIT))?;
        match &self.server {
            Server::WriteWriteRead => {
                self.answer_all(&connection, || write_apart(&connection, "keep-alive", None))
            }
            Server::Think(Sleep { time, .. }) => {
                connection.set_nodelay(true)?;
                self.answer_all(&connection, || think(&connection, *time))
            }
            Server::Pause(Sleep { time, .. }) => {
                connection.set_nodelay(true)?;
                self.answer_all(&connection, || {
                    write_apart(&connection, "keep-alive", Some(*time))
                })
            }
            Server::Fin => answer_once(&connection, || write_apart(&connection, "close", None)),
            Server::Garbage => answer_once(&connection, || write_all(&connection, &GARBAGE)),
            Server::TlsAlert => answer_once(&connection, || write_all(&connection, &TLS_ALERT)),
            Server::NeverAnswers => read_to_end(&connection),
            Server::ClosesAtOnce
            | Server::Nginx(_)
            | Server::Haproxy(_)
            | Server::Redis(_)
            | Server::Postgres(_)
            | Server::Memcached(_)
            | Server::Nobody => Ok(()),
        }
    }

    /// Answers every request of a connection and notes when.
    fn answer_all(
        &self,
        connection: &TcpStream,
        answer: impl Fn() -> io::Result<Vec<u64>>,
    ) -> io::Result<()> {
        let peer = plain_address(connection.peer_addr()?);
        let mut requests = Requests::new(connection);
        for number in 1.. {
            if !requests.next()? {
                break;
            }
            let read_ns = realtime_ns();
            let written_ns = answer()?;
            self.note(&Stamp {
                peer,
                number,
                read_ns,
                written_ns,
            })?;
        }
        Ok(())
    }

    /// One line in one write: the file is open for appending, so lines of several threads
    /// never mix.
    fn note(&self, stamp: &Stamp) -> io::Result<()> {
        let Some(mut file) = self.stamps.as_ref() else {
            return Ok(());
        };
        let mut line = serde_json::to_vec(stamp)?;
        line.push(b'\n');
        file.write_all(&line)
    }
}

/// What a garbling server says: no byte of it belongs into a status line.
const GARBAGE: [u8; 64] = [0xA5; 64];

/// A TLS record of type alert, TLS 1.2: fatal, unexpected_message (RFC 8446 §5.1, §6).
const TLS_ALERT: [u8; 7] = [21, 3, 3, 0, 2, 2, 10];

fn header(connection: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nServer: lagtrace-lab\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: {connection}\r\n\r\n",
        PAGE.len()
    )
}

/// Header and body in a write each, with a sleep between if there is one. When each returned.
fn write_apart(
    mut to: &TcpStream,
    connection: &str,
    between: Option<Duration>,
) -> io::Result<Vec<u64>> {
    to.write_all(header(connection).as_bytes())?;
    let header_ns = realtime_ns();
    if let Some(time) = between {
        thread::sleep(time);
    }
    to.write_all(PAGE.as_bytes())?;
    Ok(vec![header_ns, realtime_ns()])
}

/// Sleeps, then answers in one write.
fn think(to: &TcpStream, time: Duration) -> io::Result<Vec<u64>> {
    thread::sleep(time);
    let mut response = header("keep-alive");
    response.push_str(PAGE);
    write_all(to, response.as_bytes())
}

fn write_all(mut to: &TcpStream, bytes: &[u8]) -> io::Result<Vec<u64>> {
    to.write_all(bytes)?;
    Ok(vec![realtime_ns()])
}

/// Answers the first request and closes, after the client has closed or said no more for a
/// moment: closing earlier would reset what is under way.
fn answer_once(
    connection: &TcpStream,
    answer: impl Fn() -> io::Result<Vec<u64>>,
) -> io::Result<()> {
    if Requests::new(connection).next()? {
        answer()?;
        connection.shutdown(std::net::Shutdown::Write)?;
        connection.set_read_timeout(Some(Duration::from_secs(2)))?;
        read_to_end(connection)?;
    }
    Ok(())
}

fn read_to_end(mut from: &TcpStream) -> io::Result<()> {
    let mut nowhere = [0; 4096];
    while from.read(&mut nowhere)? > 0 {}
    Ok(())
}

/// The address as the client knows it: an IPv4 client of a dual-stack socket is `::ffff:a.b.c.d`.
fn plain_address(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4),
        v4 => v4,
    };
    SocketAddr::new(ip, address.port())
}

fn realtime_ns() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
