//! The drawn client.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};

use super::diary::AskedEntry;
use super::fault::Fault;
use super::serving::{push, size};
use super::traffic::{Traffic, WireFormat};
use super::wire::{self, MessageReader, Pace, nap};
use crate::error::Error;
use crate::server::own::realtime_ns;

/// Maximum time to connect, and for one read.
const PATIENCE: Duration = Duration::from_secs(10);

/// The range of time in which connections begin, in milliseconds.
const STAGGER: u64 = 60;

/// The number that separates the draws of the client from those of the server.
const CLIENT_DRAWS: u64 = 1;

/// The plan for the process of the client.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AskingPlan {
    pub(crate) traffic: Traffic,
    pub(crate) to: SocketAddr,
    /// The file of the client's diary.
    pub(crate) diary: PathBuf,
    /// The number of the first request.
    pub(crate) first: u64,
}

/// Sends requests until the time is up, and writes the diary.
pub(crate) fn run(plan: &AskingPlan) -> Result<(), Error> {
    wire::be_punctual();
    let asked = ask_all(plan).map_err(Error::file("ask", plan.to.to_string()))?;
    let mut text = Vec::new();
    for asked in asked {
        text.extend(serde_json::to_vec(&asked).expect("a row is numbers"));
        text.push(b'\n');
    }
    std::fs::write(&plan.diary, text).map_err(Error::file("write", &plan.diary))
}

fn ask_all(plan: &AskingPlan) -> io::Result<Vec<AskedEntry>> {
    let next = AtomicU64::new(plan.first);
    let client = Client {
        plan,
        next: &next,
        end: Instant::now() + plan.traffic.talk.lasts,
        pace: plan.traffic.faults.iter().find_map(pace),
    };
    let connections = 0..u64::from(plan.traffic.talk.connections);
    thread::scope(|scope| {
        let threads: Vec<_> = connections
            .map(|number| scope.spawn(move || client.ask_in_turn(number)))
            .collect();
        let mut all = Vec::new();
        for thread in threads {
            let rows = thread.join();
            all.extend(rows.unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))?);
        }
        Ok(all)
    })
}

fn pace(fault: &Fault) -> Option<Pace> {
    match *fault {
        Fault::SlowReader { piece, pause, .. } => Some(Pace {
            piece: usize::try_from(piece).unwrap_or(usize::MAX),
            pause,
        }),
        _ => None,
    }
}

/// A connection, and the requests that go over it.
struct Opened<'a> {
    connection: &'a TcpStream,
    /// The begin and the end of connecting.
    connect_ns: (u64, u64),
    /// The number of the first request.
    first: u64,
    /// The largest number of requests.
    most: usize,
}

#[derive(Clone, Copy)]
struct Client<'a> {
    plan: &'a AskingPlan,
    /// The number of the next request.
    next: &'a AtomicU64,
    end: Instant,
    pace: Option<Pace>,
}

impl Client<'_> {
    /// Returns the number of the next request; `None` if there are enough.
    fn number(&self) -> Option<u64> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let is_one_of_them = id - self.plan.first < u64::from(self.plan.traffic.talk.most);
        let is_wanted = is_one_of_them && Instant::now() < self.end;
        is_wanted.then_some(id)
    }

    /// Sends requests one after the other, over one connection or over one each.
    fn ask_in_turn(self, number: u64) -> io::Result<Vec<AskedEntry>> {
        let traffic = &self.plan.traffic;
        let mut chance = traffic.chance(CLIENT_DRAWS, u64::MAX - 1 - number);
        thread::sleep(Duration::from_millis(chance.draw() % STAGGER));
        let mut rows = Vec::new();
        let is_fresh = traffic.talk.is_fresh || traffic.faults.contains(&Fault::Closes);
        while let Some(id) = self.number() {
            if is_fresh {
                nap(traffic.client.think.draw(&mut chance));
            }
            let begun = realtime_ns();
            let connection = self.connect()?;
            let opened = Opened {
                connection: &connection,
                connect_ns: (begun, realtime_ns()),
                first: id,
                most: if is_fresh { 1 } else { usize::MAX },
            };
            self.use_up(&opened, &mut rows)?;
        }
        Ok(rows)
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(self.plan.to), Type::STREAM, None)?;
        for fault in &self.plan.traffic.faults {
            if let Fault::SlowReader { buffer, .. } = fault {
                socket.set_recv_buffer_size(usize::try_from(*buffer).unwrap_or(usize::MAX))?;
            }
        }
        socket.connect_timeout(&self.plan.to.into(), PATIENCE)?;
        let connection = TcpStream::from(socket);
        connection.set_nodelay(!self.plan.traffic.client.nagle)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        Ok(connection)
    }

    /// Sends the requests of a connection, and pushes beside them.
    fn use_up(&self, opened: &Opened<'_>, rows: &mut Vec<AskedEntry>) -> io::Result<()> {
        let traffic = &self.plan.traffic;
        let to = Mutex::new(opened.connection);
        let has_ended = AtomicBool::new(false);
        thread::scope(|scope| {
            if let Some(every) = traffic.client.pushes {
                let (to, has_ended) = (&to, &has_ended);
                scope.spawn(move || push(to, traffic.framing, every, has_ended));
            }
            let done = self.converse(opened, &to, rows);
            has_ended.store(true, Ordering::Relaxed);
            done
        })
    }

    fn converse(
        &self,
        opened: &Opened<'_>,
        to: &Mutex<&TcpStream>,
        rows: &mut Vec<AskedEntry>,
    ) -> io::Result<()> {
        let traffic = &self.plan.traffic;
        let mut incoming = MessageReader::new(opened.connection, traffic.framing, self.pace);
        if traffic.framing == WireFormat::Greeting {
            incoming.next()?;
        }
        let later = std::iter::from_fn(|| self.number());
        let mut connect_ns = Some(opened.connect_ns);
        let ids = std::iter::once(opened.first).chain(later);
        for id in ids.take(opened.most) {
            rows.push(self.ask(id, connect_ns.take(), to, &mut incoming)?);
        }
        Ok(())
    }

    fn ask(
        &self,
        id: u64,
        connect_ns: Option<(u64, u64)>,
        to: &Mutex<&TcpStream>,
        incoming: &mut MessageReader<&TcpStream>,
    ) -> io::Result<AskedEntry> {
        let traffic = &self.plan.traffic;
        let mut chance = traffic.chance(CLIENT_DRAWS, id);
        let size = size(traffic.talk.request, &mut chance);
        let pause = traffic.faults.iter().find_map(|fault| match *fault {
            Fault::SlowSender { share, pause } if chance.strikes(share) => Some(pause),
            _ => None,
        });
        let parts = wire::request(traffic.framing, id, size, traffic.client.parts);
        let idle_ns = if connect_ns.is_none() {
            nap(traffic.client.think.draw(&mut chance))
        } else {
            0
        };
        let unread = incoming.unread_ns;
        let mut asked = AskedEntry {
            id,
            connect_ns,
            idle_ns,
            ..AskedEntry::default()
        };
        {
            let to = to
                .lock()
                .map_err(|_| io::Error::other("a thread panicked"))?;
            asked.send_ns = realtime_ns();
            asked.paused_ns = wire::write(*to, &parts, pause)?;
            asked.sent_ns = realtime_ns();
        }
        let answer = loop {
            let message = incoming.next()?.ok_or(io::ErrorKind::UnexpectedEof)?;
            if !message.is_push {
                break message;
            }
        };
        asked.first_ns = answer.first_ns;
        asked.last_ns = answer.whole_ns;
        asked.unread_ns = incoming.unread_ns - unread;
        asked.bytes = answer.bytes;
        Ok(asked)
    }
}
