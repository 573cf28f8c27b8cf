//! The drawn server, and the service that it asks.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::{Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::diary::Served;
use super::fault::Fault;
use super::traffic::{Traffic, WireFormat};
use super::wire::{self, Message, MessageReader, nap};
use crate::error::Error;
use crate::path::chance::Chance;
use crate::server::accept::serve_all;
use crate::server::own::realtime_ns;

/// Maximum number of connections.
const MOST_CONNECTIONS: usize = 256;

/// The size of a call to another service, and of its answer.
const CALL_SIZE: usize = 60;

/// The number that separates the draws of the server from those of the client.
pub(super) const SERVER_DRAWS: u64 = 2;

/// The plan for the process of a server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ServingPlan {
    pub(crate) traffic: Traffic,
    pub(crate) port: u16,
    /// The file of the server's diary.
    pub(crate) diary: PathBuf,
    /// The address of the service that the server asks.
    pub(crate) upstream: Option<SocketAddr>,
}

/// Serves until the process is ended.
pub(crate) fn run(plan: ServingPlan) -> Result<(), Error> {
    wire::be_punctual();
    let address = SocketAddr::from((Ipv6Addr::UNSPECIFIED, plan.port));
    let listener = TcpListener::bind(address);
    let listener = listener.map_err(Error::file("listen on", address.to_string()))?;
    let diary = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&plan.diary);
    let diary = diary.map_err(Error::file("create", &plan.diary))?;
    let workers = plan.traffic.workers.unwrap_or(u16::MAX);
    let server = DrawnServer {
        workers: Workers::new(workers),
        plan,
        diary,
    };
    serve_all(
        &listener,
        MOST_CONNECTIONS,
        Duration::ZERO,
        move |connection| {
            // An error on one connection does not affect the others.
            let _ = server.converse(connection);
        },
    );
    Ok(())
}

struct DrawnServer {
    plan: ServingPlan,
    workers: Workers,
    diary: File,
}

impl DrawnServer {
    fn converse(&self, connection: &TcpStream) -> io::Result<()> {
        let traffic = &self.plan.traffic;
        connection.set_nodelay(!traffic.server.nagle)?;
        let to = Mutex::new(connection);
        if traffic.framing == WireFormat::Greeting {
            write_to(&to, wire::GREETING)?;
        }
        let has_ended = AtomicBool::new(false);
        thread::scope(|scope| {
            if let Some(every) = traffic.server.pushes {
                let (to, has_ended) = (&to, &has_ended);
                scope.spawn(move || push(to, traffic.framing, every, has_ended));
            }
            let answered = self.answer_all(connection, &to);
            has_ended.store(true, Ordering::Relaxed);
            answered
        })
    }

    fn answer_all(&self, connection: &TcpStream, to: &Mutex<&TcpStream>) -> io::Result<()> {
        let traffic = &self.plan.traffic;
        let mut incoming = MessageReader::new(connection, traffic.framing, None);
        let mut upstream = None;
        while let Some(message) = incoming.next()? {
            if message.is_push {
                continue;
            }
            let served = self.answer(&message, to, &mut upstream)?;
            self.note(&served)?;
            if closes(traffic) {
                connection.shutdown(Shutdown::Write)?;
            }
        }
        Ok(())
    }

    fn answer(
        &self,
        message: &Message,
        to: &Mutex<&TcpStream>,
        upstream: &mut Option<Upstream>,
    ) -> io::Result<Served> {
        let traffic = &self.plan.traffic;
        let mut chance = traffic.chance(SERVER_DRAWS, message.id);
        let think = traffic.server.think.draw(&mut chance);
        let size = size(traffic.talk.response, &mut chance);
        let (extra, pause) = troubles(&traffic.faults, &mut chance);
        let parts = traffic.server.parts;
        let parts = wire::response(traffic.framing, message.id, size, parts, closes(traffic));
        let _worker = self.workers.take();
        let taken_ns = realtime_ns();
        let think_ns = nap(think);
        let extra_ns = nap(extra);
        let begun = realtime_ns();
        if let Some(address) = self.plan.upstream {
            call(upstream, address, message.id)?;
        }
        let upstream_ns = self.plan.upstream.map_or(0, |_| realtime_ns() - begun);
        let to = to.lock().unwrap_or_else(PoisonError::into_inner);
        let write_ns = realtime_ns();
        let paused_ns = wire::write(*to, &parts, pause)?;
        Ok(Served {
            id: message.id,
            first_ns: message.first_ns,
            whole_ns: message.whole_ns,
            taken_ns,
            think_ns,
            extra_ns,
            upstream_ns,
            write_ns,
            written_ns: realtime_ns(),
            paused_ns,
        })
    }

    /// Writes one line in a single write, so that the lines of several threads are not mixed.
    fn note(&self, served: &Served) -> io::Result<()> {
        let mut line = serde_json::to_vec(served)?;
        line.push(b'\n');
        (&self.diary).write_all(&line)
    }
}

/// Draws a size from a range.
pub(super) fn size((least, most): (u32, u32), chance: &mut Chance) -> usize {
    let drawn = u64::from(least) + chance.draw() % (u64::from(most - least) + 1);
    usize::try_from(drawn).unwrap_or_default()
}

/// Returns the additional think time, and the pause within the response, of one request.
fn troubles(faults: &[Fault], chance: &mut Chance) -> (Duration, Option<Duration>) {
    let (mut think, mut within) = (Duration::ZERO, None);
    for fault in faults {
        match *fault {
            Fault::SlowThink { share, extra } if chance.strikes(share) => think = extra,
            Fault::ServerPause { share, pause } if chance.strikes(share) => within = Some(pause),
            _ => {}
        }
    }
    (think, within)
}

fn closes(traffic: &Traffic) -> bool {
    traffic.faults.contains(&Fault::Closes)
}

fn write_to(to: &Mutex<&TcpStream>, bytes: &[u8]) -> io::Result<()> {
    let mut to = *to.lock().unwrap_or_else(PoisonError::into_inner);
    to.write_all(bytes)
}

/// Sends messages that nobody asked for until the connection has ended.
pub(super) fn push(
    to: &Mutex<&TcpStream>,
    framing: WireFormat,
    every: Duration,
    has_ended: &AtomicBool,
) {
    /// Maximum time for which an ended connection waits for this thread.
    const SLICE: Duration = Duration::from_millis(10);
    let Some(message) = wire::push(framing) else {
        return;
    };
    let mut waited = Duration::ZERO;
    while !has_ended.load(Ordering::Relaxed) {
        thread::sleep(SLICE);
        waited += SLICE;
        if waited >= every {
            waited = Duration::ZERO;
            if write_to(to, &message).is_err() {
                return;
            }
        }
    }
}

/// A connection to the service that the server asks.
struct Upstream {
    connection: TcpStream,
    incoming: MessageReader<TcpStream>,
}

/// Asks the other service and waits for its answer.
fn call(upstream: &mut Option<Upstream>, address: SocketAddr, id: u64) -> io::Result<()> {
    if upstream.is_none() {
        let connection = TcpStream::connect(address)?;
        connection.set_nodelay(true)?;
        let incoming = MessageReader::new(connection.try_clone()?, WireFormat::Binary, None);
        *upstream = Some(Upstream {
            connection,
            incoming,
        });
    }
    let Some(upstream) = upstream else {
        return Ok(());
    };
    let parts = wire::request(WireFormat::Binary, id, CALL_SIZE, 1);
    wire::write(&upstream.connection, &parts, None)?;
    let answer = upstream.incoming.next()?;
    answer
        .map(|_| ())
        .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// A number of workers, of which a request needs one.
struct Workers {
    free: Mutex<u16>,
    freed: Condvar,
}

/// A worker, which is free again when this is dropped.
struct Workplace<'a>(&'a Workers);

impl Workers {
    fn new(number: u16) -> Self {
        Self {
            free: Mutex::new(number),
            freed: Condvar::new(),
        }
    }

    fn take(&self) -> Workplace<'_> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free == 0 {
            free = self
                .freed
                .wait(free)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        Workplace(self)
    }
}

impl Drop for Workplace<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}
