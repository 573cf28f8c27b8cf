//! The built-in servers: one process per service, one thread per connection, plain HTTP/1.1.

mod answer;
mod nonsense;
pub(crate) mod options;
mod pacing;
mod process;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use socket2::{Domain, SockRef, Socket, Type};

use self::answer::Answer;
pub(crate) use self::answer::text;
use self::options::{Accepting, OwnServer, SocketOptions};
use self::process::Process;
use super::accept::serve_all;
use super::request::Requests;
use super::stamp::Stamp;
use super::{Server, request};
use crate::error::Error;

/// Maximum number of connections that a server serves in parallel; further ones are closed.
const MOST_CONNECTIONS: usize = 4096;

/// The idle time after which a connection is closed.
const IDLE_LIMIT: Duration = Duration::from_secs(120);

/// The default backlog of `listen(2)`.
const BACKLOG: u16 = 128;

/// The plan for the process of one service.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ServePlan {
    pub(crate) server: Server,
    pub(crate) port: u16,
    /// The file of the server's own timestamps, if it keeps any.
    pub(crate) stamps: Option<PathBuf>,
}

/// Serves until the process is ended.
pub(crate) fn run(plan: ServePlan) -> Result<(), Error> {
    // Without timer slack, so that a server sleeps for the time that it is set to.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    allow_many_files();
    let own = plan.server.as_own().unwrap_or_default();
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, plan.port));
    let listener = listen(address, &own.accepting, &own.socket)
        .map_err(Error::file("listen on", address.to_string()))?;
    let stamps = plan.stamps.map(|path| {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.map_err(Error::file("create", path))
    });
    let between_accepts = own.accepting.every;
    let service = Service {
        server: plan.server,
        answer: Answer::new(&own.response, own.socket.hold),
        process: Process::new(&own),
        own,
        stamps: stamps.transpose()?,
    };
    serve_all(
        &listener,
        MOST_CONNECTIONS,
        between_accepts,
        move |connection| {
            // An error on one connection does not affect the others.
            let _ = service.serve(connection);
        },
    );
    Ok(())
}

/// Raises the limit of open files to the number of connections, if that is permitted.
fn allow_many_files() {
    let wanted = Some(MOST_CONNECTIONS as u64 + 64);
    let limit = Rlimit {
        current: wanted,
        maximum: wanted,
    };
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Returns a listener from which accepted sockets inherit their buffer sizes, because a receive
/// buffer that is set later has no effect on the window scale.
fn listen(
    address: SocketAddr,
    accepting: &Accepting,
    options: &SocketOptions,
) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::IPV6, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    set_buffers(&socket, options)?;
    socket.bind(&address.into())?;
    socket.listen(accepting.backlog.unwrap_or(BACKLOG).into())?;
    Ok(socket.into())
}

fn set_buffers(socket: &Socket, options: &SocketOptions) -> io::Result<()> {
    let bytes = |size: crate::quantity::Size| usize::try_from(size.bytes()).ok();
    if let Some(size) = options.send_buffer.and_then(bytes) {
        socket.set_send_buffer_size(size)?;
    }
    if let Some(size) = options.receive_buffer.and_then(bytes) {
        socket.set_recv_buffer_size(size)?;
    }
    Ok(())
}

struct Service {
    server: Server,
    own: OwnServer,
    answer: Answer,
    process: Process,
    stamps: Option<File>,
}

impl Service {
    fn serve(&self, connection: &TcpStream) -> io::Result<()> {
        let idle = self.own.reading.idle.unwrap_or(IDLE_LIMIT);
        connection.set_read_timeout(Some(idle))?;
        match &self.server {
            Server::ClosesAtOnce => Ok(()),
            Server::NeverAnswers => nonsense::listen(connection),
            Server::Garbage => nonsense::answer(connection, &nonsense::GARBAGE),
            Server::TlsAlert => nonsense::answer(connection, &nonsense::TLS_ALERT),
            _ => self.converse(connection),
        }
    }

    /// Answers every request on a connection and records the times.
    fn converse(&self, connection: &TcpStream) -> io::Result<()> {
        set_options(connection, &self.own.socket)?;
        let peer = plain_address(connection.peer_addr()?);
        let mut requests = Requests::new(connection);
        for number in 1.. {
            if !requests.has_begun() && connection.peek(&mut [0])? == 0 {
                break;
            }
            let _worker = self.process.worker();
            let Some((read_ns, written_ns)) = self.exchange(connection, &mut requests)? else {
                break;
            };
            self.note(&Stamp {
                peer,
                number,
                read_ns,
                written_ns,
            })?;
            if self.own.response.framing.ends_connection() {
                thread::sleep(self.own.response.linger);
                return nonsense::close(connection);
            }
        }
        Ok(())
    }

    /// Reads one request and writes its response. Returns the time at which the request was read,
    /// and the times at which each write returned.
    fn exchange(
        &self,
        connection: &TcpStream,
        requests: &mut Requests<&TcpStream>,
    ) -> io::Result<Option<(u64, Vec<u64>)>> {
        let (reading, early) = (&self.own.reading, self.own.response.early);
        thread::sleep(reading.late);
        self.process.wait_for_tick(reading.tick);
        self.process.wait_while_stopped();
        let Some(head) = requests.head()? else {
            return Ok(None);
        };
        if head.expects && !reading.ignores_expect {
            (&mut &*connection).write_all(request::CONTINUE)?;
        }
        if !early {
            thread::sleep(reading.body_late);
            requests.body(&head)?;
        }
        let read_ns = realtime_ns();
        self.process.think(&self.own.thinking);
        let written_ns = self.answer.write(connection, &self.process)?;
        if early {
            requests.body(&head)?;
        }
        Ok(Some((read_ns, written_ns)))
    }

    /// Writes one line in a single write. The file is open for appending, so that the lines of
    /// several threads are not mixed.
    fn note(&self, stamp: &Stamp) -> io::Result<()> {
        let Some(mut file) = self.stamps.as_ref() else {
            return Ok(());
        };
        let mut line = serde_json::to_vec(stamp)?;
        line.push(b'\n');
        file.write_all(&line)
    }
}

fn set_options(connection: &TcpStream, options: &SocketOptions) -> io::Result<()> {
    connection.set_nodelay(!options.nagle)?;
    if options.hold == Some(options::Hold::Cork) {
        SockRef::from(connection).set_tcp_cork(true)?;
    }
    if let Some(size) = options.shrunk_receive_buffer {
        let size = usize::try_from(size.bytes()).unwrap_or(usize::MAX);
        SockRef::from(connection).set_recv_buffer_size(size)?;
    }
    options.pacing.map_or(Ok(()), |rate| {
        pacing::pace(connection, rate.bits_per_second() / 8)
    })
}

/// Returns the client's address in its plain form: an IPv4 client of a dual-stack socket appears as
/// `::ffff:a.b.c.d`.
fn plain_address(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4),
        v4 => v4,
    };
    SocketAddr::new(ip, address.port())
}

/// Returns the current CLOCK_REALTIME in ns since 1970, which is also the clock of a recording's
/// packets.
pub(crate) fn realtime_ns() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
