//! The process that carries real packets between the two hosts' TUN devices.
//!
//! One thread does all the work: it reads the packets that the hosts send, asks the [`Transit`] for
//! their delivery times, and sleeps until just before the earliest due time. The remaining time it
//! spends reading, because a timer alone is late by tens of microseconds. A second thread writes
//! the counters to a file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use super::counters::PathCounters;
use super::transit::Transit;
use super::tun::{Head, Tun};
use super::{INTERFACE, PathSpec, priority, tun};
use crate::error::Error;
use crate::machine::namespace::Namespace;
use crate::side::Side;

/// The time before a due time at which the emulator stops sleeping.
const SPIN: Duration = Duration::from_micros(60);

/// Maximum number of packets read from one device before the other device is read.
const BATCH: usize = 64;

/// The interval at which the counters are written.
const COUNTERS_EVERY: Duration = Duration::from_millis(100);

/// The plan for an emulator.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EmulatorPlan {
    pub(crate) path: PathSpec,
    pub(crate) client_namespace: String,
    pub(crate) server_namespace: String,
    /// The file of the counters.
    pub(crate) counters: PathBuf,
}

/// Creates the two devices and carries packets until the process is ended.
pub(crate) fn run(plan: &EmulatorPlan) -> Result<(), Error> {
    let head = if plan.path.is_offloaded() {
        Head::VirtioNet
    } else {
        Head::None
    };
    let client = Tun::create(&Namespace::named(&plan.client_namespace), INTERFACE, head)?;
    let server = Tun::create(&Namespace::named(&plan.server_namespace), INTERFACE, head)?;
    let published = Arc::new(Mutex::new(PathCounters::default()));
    write_counters(&plan.counters, PathCounters::default())?;
    let (counters, file) = (Arc::clone(&published), plan.counters.clone());
    std::thread::spawn(move || publish(&counters, &file));
    let is_real_time = priority::ask().is_real_time;
    let mut emulator = Emulator {
        begun: None,
        transit: Transit::new(&plan.path, head),
        buffer: vec![0; tun::LONGEST],
        client,
        server,
    };
    loop {
        emulator.turn();
        // The other thread holds the lock only to copy the counters, but packets must never wait
        // for it.
        if let Ok(mut published) = published.try_lock() {
            let (to_server, to_client) = emulator.transit.counters();
            *published = PathCounters {
                to_server,
                to_client,
                is_real_time,
            };
        }
        emulator
            .rest()
            .map_err(Error::file("wait for", "/dev/net/tun"))?;
    }
}

struct Emulator {
    /// The time at which the first packet arrived.
    begun: Option<Instant>,
    client: Tun,
    server: Tun,
    transit: Transit,
    buffer: Vec<u8>,
}

impl Emulator {
    /// Admits packets that were sent and delivers packets that are due, in both directions.
    fn turn(&mut self) {
        for from in [Side::Client, Side::Server] {
            self.admit(from);
            self.deliver(from);
        }
    }

    fn admit(&mut self, from: Side) {
        let device = match from {
            Side::Client => &self.client,
            Side::Server => &self.server,
        };
        for _ in 0..BATCH {
            // A device that is down returns an error, and then there is no packet.
            let Ok(Some(packet)) = device.receive(&mut self.buffer) else {
                return;
            };
            let begun = *self.begun.get_or_insert_with(Instant::now);
            self.transit.admit(from, begun.elapsed(), packet);
        }
    }

    fn deliver(&mut self, from: Side) {
        let to = match from {
            Side::Client => &self.server,
            Side::Server => &self.client,
        };
        for _ in 0..BATCH {
            let now = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
            let Some(packet) = self.transit.take_due(from, now) else {
                return;
            };
            let is_taken = to.send(&packet).is_ok();
            self.transit.count_delivery(from, &packet, is_taken);
        }
    }

    /// Sleeps until a host sends a packet or the next packet is nearly due.
    fn rest(&self) -> io::Result<()> {
        let now = self.begun.map_or(Duration::ZERO, |begun| begun.elapsed());
        let due = self.transit.next_due();
        let sleep = due.map(|due| due.saturating_sub(now).saturating_sub(SPIN));
        if sleep == Some(Duration::ZERO) {
            return Ok(());
        }
        let mut devices = [
            PollFd::new(&self.client, PollFlags::IN),
            PollFd::new(&self.server, PollFlags::IN),
        ];
        // ppoll(2) accepts a timeout in nanoseconds, like epoll_pwait2(2), and is enough for two
        // devices.
        let timeout = sleep.and_then(|sleep| Timespec::try_from(sleep).ok());
        match poll(&mut devices, timeout.as_ref()) {
            Ok(_) => check(&devices),
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns an error if a device no longer exists, because its namespace was removed or somebody
/// deleted it. Such a device would always be ready and never have a packet.
fn check(devices: &[PollFd<'_>]) -> io::Result<()> {
    let gone = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
    if devices
        .iter()
        .any(|device| device.revents().intersects(gone))
    {
        Err(io::Error::from(io::ErrorKind::NotConnected))
    } else {
        Ok(())
    }
}

/// Writes the counters whenever they have changed, as long as the process runs.
fn publish(counters: &Mutex<PathCounters>, file: &Path) {
    let mut written = PathCounters::default();
    loop {
        std::thread::sleep(COUNTERS_EVERY);
        let now = *counters.lock().unwrap_or_else(PoisonError::into_inner);
        // If the disk is full, the counters are not written, but the path continues.
        if now != written && write_counters(file, now).is_ok() {
            written = now;
        }
    }
}

/// Replaces the file atomically, so that no reader sees an incomplete file.
fn write_counters(file: &Path, counters: PathCounters) -> Result<(), Error> {
    let text = serde_json::to_string(&counters).expect("counters are numbers");
    crate::machine::file::replace_file(file, text.as_bytes())
}
