//! The process that carries real packets between the two hosts' TUN devices.
//!
//! One thread does it all: it reads what the hosts send, asks the [`Lane`] when to deliver,
//! and sleeps until just before the earliest due time; the rest it spends reading, for a timer
//! alone is late by tens of microseconds. A second thread writes the counters to a file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use super::delay_line::DelayLine;
use super::lane::{DropReason, Fate, Lane, LaneCounters};
use super::tun::Tun;
use super::{MTU, PathSpec, priority};
use crate::error::Error;
use crate::link::INTERFACE;
use crate::namespace::Namespace;

/// How long before a due time the emulator stops sleeping.
const SPIN: Duration = Duration::from_micros(60);

/// How many packets are read from one device before the other gets its turn.
const BATCH: usize = 64;

/// The most that one direction holds: 10 s of 50 Mbit/s, or 50 ms of 10 Gbit/s.
const HELD_LIMIT: usize = 64 << 20;

/// How often the counters are written.
const COUNTERS_EVERY: Duration = Duration::from_millis(100);

/// What an emulator is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EmulatorPlan {
    pub(crate) path: PathSpec,
    pub(crate) client_namespace: String,
    pub(crate) server_namespace: String,
    /// Where the counters go.
    pub(crate) counters: PathBuf,
}

/// What the emulated path did so far, at most 0.1 s ago.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathCounters {
    /// From the client to the server.
    pub to_server: LaneCounters,
    /// From the server to the client.
    pub to_client: LaneCounters,
    /// Whether the kernel lets the emulator run ahead of ordinary programs. Without, delays
    /// err by as much as the machine's other work keeps it waiting.
    pub is_real_time: bool,
}

/// Makes the two devices and carries packets until the process is ended.
pub(crate) fn run(plan: &EmulatorPlan) -> Result<(), Error> {
    let client = Tun::create(&Namespace::named(&plan.client_namespace), INTERFACE)?;
    let server = Tun::create(&Namespace::named(&plan.server_namespace), INTERFACE)?;
    let published = Arc::new(Mutex::new(PathCounters::default()));
    write_counters(&plan.counters, PathCounters::default())?;
    let (counters, file) = (Arc::clone(&published), plan.counters.clone());
    std::thread::spawn(move || publish(&counters, &file));
    let is_real_time = priority::ask().is_real_time;
    let (there, back) = plan.path.delays();
    let mut emulator = Emulator {
        started: Instant::now(),
        to_server: Direction::new(Lane::new(&plan.path.to_server, there, plan.path.seed)),
        to_client: Direction::new(Lane::new(&plan.path.to_client, back, !plan.path.seed)),
        buffer: vec![0; MTU as usize],
        client,
        server,
    };
    loop {
        emulator.turn();
        // The other thread holds the lock for a copy only, but must never make packets wait.
        if let Ok(mut published) = published.try_lock() {
            *published = PathCounters {
                to_server: emulator.to_server.counters,
                to_client: emulator.to_client.counters,
                is_real_time,
            };
        }
        emulator
            .rest()
            .map_err(Error::file("wait for", "/dev/net/tun"))?;
    }
}

struct Emulator {
    started: Instant,
    client: Tun,
    server: Tun,
    to_server: Direction,
    to_client: Direction,
    buffer: Vec<u8>,
}

struct Direction {
    lane: Lane,
    line: DelayLine,
    counters: LaneCounters,
}

impl Emulator {
    /// Takes in what was sent and delivers what is due, both ways.
    fn turn(&mut self) {
        self.to_server
            .admit(&self.client, self.started, &mut self.buffer);
        self.to_server.deliver(&self.server, self.started);
        self.to_client
            .admit(&self.server, self.started, &mut self.buffer);
        self.to_client.deliver(&self.client, self.started);
    }

    /// Sleeps until a host sends or the next packet is nearly due.
    fn rest(&self) -> io::Result<()> {
        let due = [&self.to_server, &self.to_client]
            .into_iter()
            .filter_map(|way| way.line.next_due())
            .min();
        let sleep = due.map(|due| {
            due.saturating_sub(self.started.elapsed())
                .saturating_sub(SPIN)
        });
        if sleep == Some(Duration::ZERO) {
            return Ok(());
        }
        let mut devices = [
            PollFd::new(&self.client, PollFlags::IN),
            PollFd::new(&self.server, PollFlags::IN),
        ];
        // ppoll(2): like epoll_pwait2(2) it takes nanoseconds, and two devices need no more.
        let timeout = sleep.and_then(|sleep| Timespec::try_from(sleep).ok());
        match poll(&mut devices, timeout.as_ref()) {
            Ok(_) => check(&devices),
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// An error if a device is gone, with its namespace or by somebody's hand: it would be ready
/// for ever and never have a packet.
fn check(devices: &[PollFd<'_>]) -> io::Result<()> {
    let gone = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
    match devices
        .iter()
        .any(|device| device.revents().intersects(gone))
    {
        true => Err(io::Error::from(io::ErrorKind::NotConnected)),
        false => Ok(()),
    }
}

impl Direction {
    fn new(lane: Lane) -> Self {
        Self {
            lane,
            line: DelayLine::new(HELD_LIMIT),
            counters: LaneCounters::default(),
        }
    }

    fn admit(&mut self, from: &Tun, started: Instant, buffer: &mut [u8]) {
        for _ in 0..BATCH {
            // A device that is down answers with an error; nothing was sent then.
            let Ok(Some(packet)) = from.receive(buffer) else {
                return;
            };
            self.counters.offered += 1;
            let fate = self.lane.admit(started.elapsed(), packet.len() as u64);
            match fate {
                Fate::Deliver(due) if self.line.push(due, packet) => {}
                Fate::Deliver(_) => self.counters.count_drop(DropReason::Overflow),
                Fate::Drop(reason) => self.counters.count_drop(reason),
            }
        }
    }

    fn deliver(&mut self, to: &Tun, started: Instant) {
        for _ in 0..BATCH {
            let Some(packet) = self.line.pop_due(started.elapsed()) else {
                return;
            };
            match to.send(&packet) {
                Ok(()) => {
                    self.counters.delivered += 1;
                    self.counters.delivered_bytes += packet.len() as u64;
                }
                Err(_) => self.counters.count_drop(DropReason::Overflow),
            }
        }
    }
}

/// Writes the counters whenever they changed, for as long as the process lives.
fn publish(counters: &Mutex<PathCounters>, file: &Path) {
    let mut written = PathCounters::default();
    loop {
        std::thread::sleep(COUNTERS_EVERY);
        let now = *counters.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk costs the counters, not the path.
        if now != written && write_counters(file, now).is_ok() {
            written = now;
        }
    }
}

/// Replaces the file at once, so that no reader sees half of it.
fn write_counters(file: &Path, counters: PathCounters) -> Result<(), Error> {
    let text = serde_json::to_string(&counters).expect("counters are numbers");
    crate::run::replace_file(file, text.as_bytes())
}
