//! A worker on io_uring: like the epoll engine, with fewer system calls per request.
//!
//! The kernel reads responses before this thread runs again, so all responses of a batch have the
//! same timestamp. Requests are submitted together; the timestamps of their sends are spread evenly
//! between two clock readings, one before and one after the submission.

mod answers;
mod pace;
mod pool;
mod queue;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::mpsc::SyncSender;

use core::time::Duration;

use lagtrace_core::observed::event::RequestFailure;
use lagtrace_core::observed::experiment::Experiment;
use lagtrace_core::observed::time::Timestamp;
use rustix::net::sockopt;

use super::LoadError;
use super::driver::{Command, Driver, Slot};
use super::engine::{
    BATCH_LEN, LaneSockets, MAX_TIME_WAITS, Stops, WorkerReport, hand_over, thread_cpu,
};
use super::meter::LagMeter;
use super::plan::{Lane, Plan};
use super::record::Batch;
use crate::clock::Clock;
use pace::{FIRST_PACE, SendPace};
use queue::Answer;

pub(super) use queue::Queue;

/// Maximum number of sends that share two clock readings.
const SENDS: usize = 32;
/// Maximum length of a request that is assumed to fit completely into a socket's empty buffer.
const SHORT_REQUEST: usize = 2 * 1024;

/// A worker and its sockets.
pub(super) struct RingEngine<'a> {
    // First: the kernel must be done with everything below before it goes.
    queue: Queue,
    driver: Driver,
    clock: Clock,
    lanes: Vec<LaneSockets>,
    sockets: Vec<Option<Socket>>,
    /// Requests to be sent, by socket and generation.
    unsent: Vec<(Slot, u32)>,
    /// Time at which a kernel timer ends any wait.
    alarm: Option<Timestamp>,
    answers: Vec<Answer>,
    generation: u32,
    closes_by_fin: u32,
    batches: SyncSender<Batch>,
    stops: Stops<'a>,
    pace: SendPace,
    woken: Timestamp,
    turn: LagMeter,
}

#[derive(Debug)]
struct Socket {
    fd: OwnedFd,
    /// Number that distinguishes completions of this socket from those of earlier sockets in the
    /// slot.
    generation: u32,
    is_connected: bool,
    /// True if a long request is still being sent.
    is_sending: bool,
}

/// Kinds of operations submitted to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Connect,
    Receive,
    Send,
    Cancel,
    Alarm,
}

impl Asked {
    const ALL: [Self; 5] = [
        Self::Connect,
        Self::Receive,
        Self::Send,
        Self::Cancel,
        Self::Alarm,
    ];

    /// Returns the token of an operation on one socket: 16 bits of kind, 16 of slot, 32 of
    /// generation.
    fn token(self, slot: Slot, generation: u32) -> u64 {
        (self as u64) << 48 | (slot as u64 & 0xffff) << 32 | u64::from(generation)
    }

    fn of(token: u64) -> (Option<Self>, Slot, u32) {
        let kind = Self::ALL.get((token >> 48) as usize).copied();
        (kind, (token >> 32 & 0xffff) as Slot, token as u32)
    }
}

/// Returns the rings for this thread, if the kernel supports them and `plan` uses persistent
/// connections in clear text with one request at a time. All other plans run on epoll.
pub(super) fn queue(plan: &Plan, connections: usize) -> Option<Queue> {
    let is_plain = |lane: &Lane| {
        let opens = matches!(
            lane.experiment,
            Some(Experiment::FreshConnection | Experiment::ConnectionClose)
        );
        !opens && !lane.target.url.is_tls()
    };
    let suits = plan.uses_rings
        && !plan.stamps
        && !plan.keeps_cookies
        && plan.at_once == 1
        && !plan.http2
        && plan.lanes.iter().all(is_plain);
    suits.then(|| Queue::new(connections).ok()).flatten()
}

impl<'a> RingEngine<'a> {
    /// Creates a worker that carries out `driver`'s part of `plan` on this thread.
    pub(super) fn new(
        queue: Queue,
        plan: &Plan,
        driver: Driver,
        clock: Clock,
        batches: SyncSender<Batch>,
        stops: Stops<'a>,
    ) -> Result<Self, LoadError> {
        Ok(Self {
            queue,
            lanes: LaneSockets::of(plan, &driver)?,
            sockets: (0..driver.len()).map(|_| None).collect(),
            unsent: Vec::new(),
            alarm: None,
            answers: Vec::new(),
            generation: 0,
            closes_by_fin: 0,
            pace: SendPace { usual: FIRST_PACE },
            woken: clock.now(),
            turn: LagMeter::default(),
            driver,
            clock,
            batches,
            stops,
        })
    }

    /// Runs to the end and passes all records to the collector.
    pub(super) fn run(mut self) -> io::Result<WorkerReport> {
        let (begun, cpu_before) = (self.clock.now(), thread_cpu());
        let mut now = begun;
        self.driver.begin(now);
        self.carry_out(now)?;
        while !self.driver.is_done(now) {
            self.send_all(now)?;
            self.wait(now)?;
            self.woken = self.clock.now();
            self.react()?;
            now = self.clock.now();
            if self.tick(now)? {
                now = self.clock.now();
            }
        }
        self.driver.finish(now);
        hand_over(&mut self.driver, &self.batches);
        Ok(WorkerReport {
            cpu: thread_cpu().saturating_sub(cpu_before),
            wall: now.since(begun),
            last_start: self.driver.last_start(),
            start_lag: self.driver.lag().clone(),
            turn: self.turn.clone(),
        })
    }

    /// Waits until a completion arrives or the driver has something to do. A kernel timer for the
    /// driver's periodic check makes a separate timer unnecessary for most waits.
    fn wait(&mut self, now: Timestamp) -> io::Result<()> {
        let (wake, check) = (self.driver.next_wake(now), self.driver.next_check());
        if wake < check {
            return self.queue.wait_at_most(wake.since(self.clock.now()));
        }
        if self.alarm.is_none_or(|alarm| alarm > check) {
            let token = Asked::Alarm.token(0, 0);
            self.queue.set_alarm(check.since(now), token)?;
            self.alarm = Some(check);
        }
        self.queue.wait()
    }

    /// Performs the driver's due work; returns true if this may have taken a while.
    fn tick(&mut self, now: Timestamp) -> io::Result<bool> {
        let is_check = self.driver.tick(now);
        self.carry_out(now)?;
        if is_check {
            self.stops.heed(&mut self.driver, now);
        }
        let is_full = self.driver.batch().records.len() >= BATCH_LEN;
        if is_check || is_full {
            hand_over(&mut self.driver, &self.batches);
        }
        Ok(is_check || is_full)
    }

    /// Carries out the driver's commands in order, except sends, which are submitted together.
    fn carry_out(&mut self, now: Timestamp) -> io::Result<()> {
        while let Some(command) = self.driver.next_command() {
            match command {
                Command::Send(slot) => self.prepare_send(slot, now),
                Command::Connect(slot) => self.connect(slot, now)?,
                Command::Close(slot) => self.close(slot)?,
            }
        }
        Ok(())
    }

    fn prepare_send(&mut self, slot: Slot, now: Timestamp) {
        match self.sockets.get(slot) {
            // It was answered before all of it was sent: a new request would be taken for the end
            // of the old one.
            Some(Some(socket)) if socket.is_sending => {
                self.driver.failed(slot, now, RequestFailure::Closed);
            }
            Some(Some(socket)) => self.unsent.push((slot, socket.generation)),
            _ => {}
        }
    }

    /// Submits the prepared requests; the time is `now`.
    fn send_all(&mut self, now: Timestamp) -> io::Result<()> {
        let unsent = core::mem::take(&mut self.unsent);
        let mut before = now;
        for some in unsent.chunks(SENDS) {
            for &(slot, generation) in some {
                self.send(slot, generation)?;
            }
            let (mut each, mut after) = (Duration::ZERO, before);
            // A single send begins when the wait does.
            if unsent.len() > 1 {
                self.queue.submit()?;
                after = self.clock.now();
                each = self.pace.of(after.since(before), some.len());
            }
            for (number, &(slot, generation)) in (0_u32..).zip(some) {
                if self.is_current(slot, generation) {
                    self.driver.sent(slot, before + each * number);
                }
            }
            before = after;
        }
        self.turn.note(before.since(self.woken));
        self.unsent = unsent;
        self.unsent.clear();
        Ok(())
    }

    fn send(&mut self, slot: Slot, generation: u32) -> io::Result<()> {
        let lane = self.driver.lane_of(slot);
        let (Some(Some(socket)), Some(lane)) = (self.sockets.get_mut(slot), self.lanes.get(lane))
        else {
            return Ok(());
        };
        if socket.generation != generation {
            return Ok(());
        }
        let part = usize::from(self.driver.part_to_send(slot));
        let Some(request) = lane.requests.get(part) else {
            return Ok(());
        };
        let is_short = request.len() <= SHORT_REQUEST;
        socket.is_sending = !is_short;
        let token = Asked::Send.token(slot, generation);
        // SAFETY: requests are never changed and live longer than the queue.
        #[allow(unsafe_code)]
        unsafe {
            self.queue.send(slot, request, is_short, token)
        }
    }

    fn connect(&mut self, slot: Slot, now: Timestamp) -> io::Result<()> {
        let Some(lane) = self.lanes.get(self.driver.lane_of(slot)) else {
            return Ok(());
        };
        let fd = match lane.plan.connect() {
            Ok(fd) => fd,
            Err(failure) => {
                self.driver.failed(slot, now, failure);
                return Ok(());
            }
        };
        self.generation = self.generation.wrapping_add(1);
        let generation = self.generation;
        let token = Asked::Connect.token(slot, generation);
        self.queue.await_writable(fd.as_fd(), token)?;
        if let Some(place) = self.sockets.get_mut(slot) {
            *place = Some(Socket {
                fd,
                generation,
                is_connected: false,
                is_sending: false,
            });
        }
        Ok(())
    }

    fn close(&mut self, slot: Slot) -> io::Result<()> {
        let Some(socket) = self.sockets.get_mut(slot).and_then(Option::take) else {
            return Ok(());
        };
        self.closes_by_fin = self.closes_by_fin.saturating_add(1);
        if self.closes_by_fin > MAX_TIME_WAITS {
            // An RST after the whole response harms nobody and frees the port.
            let _ = sockopt::set_socket_linger(&socket.fd, Some(Duration::ZERO));
        }
        // The kernel holds the socket for as long as an operation on it is pending.
        let asked = if socket.is_connected {
            [
                Some(Asked::Receive),
                socket.is_sending.then_some(Asked::Send),
            ]
        } else {
            [Some(Asked::Connect), None]
        };
        let own = Asked::Cancel.token(slot, socket.generation);
        for asked in asked.into_iter().flatten() {
            self.queue
                .cancel(asked.token(slot, socket.generation), own)?;
        }
        if socket.is_connected {
            self.queue.set_file(slot, None)
        } else {
            Ok(())
        }
    }

    /// Reports an event to the driver and carries out the driver's commands.
    fn report(&mut self, now: Timestamp, tell: impl FnOnce(&mut Driver)) -> io::Result<()> {
        tell(&mut self.driver);
        self.carry_out(now)
    }

    fn is_current(&self, slot: Slot, generation: u32) -> bool {
        current(&self.sockets, slot, generation).is_some()
    }
}

/// Returns the socket in this slot, unless it was replaced since `generation`.
fn current(sockets: &[Option<Socket>], slot: Slot, generation: u32) -> Option<&Socket> {
    let socket = sockets.get(slot)?.as_ref()?;
    (socket.generation == generation).then_some(socket)
}
