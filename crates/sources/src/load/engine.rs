//! A worker: its sockets in an epoll instance, controlled by its [`Driver`].

mod commands;
mod heard;
mod outgoing;
mod reading;
mod watching;

use std::collections::VecDeque;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use core::time::Duration;

use lagtrace_core::observed::time::Timestamp;
use rustix::event::epoll;
use rustix::time::{ClockId, clock_gettime};

use super::LoadError;
use super::driver::Driver;
use super::lane::Slot;
use super::meter::LagMeter;
use super::plan::{Plan, Prepared};
use super::record::Batch;
use super::socket::SocketPlan;
use super::stages::Watched;
use super::wait::{NOTHING, Readiness, Waiter};
use crate::clock::Clock;
use crate::tls::secure::Secure;
use crate::tls::{TlsError, TlsPeer};
use heard::HeardUntil;
use outgoing::{Outbox, Queued};

/// Number of bytes in one read.
const READ_LEN: usize = 64 * 1024;
/// Maximum number of events returned by one wait.
const MAX_EVENTS: usize = 64;
/// Number of records that are passed on as a batch without waiting for the periodic check.
const BATCH_LEN: usize = 512;

/// Flags that end a run early.
#[derive(Debug)]
pub(super) struct Stops<'a> {
    /// True if the caller ends the run. Requests in flight may finish.
    pub(super) by_caller: &'a AtomicBool,
    /// True if the run is hopeless and ends immediately.
    pub(super) abandoned: &'a AtomicBool,
}

impl Stops<'_> {
    /// Stops a worker if one of the flags is set.
    fn heed(&self, driver: &mut Driver, now: Timestamp) {
        if self.abandoned.load(Ordering::Relaxed) {
            driver.stop(now, Duration::ZERO);
        } else if self.by_caller.load(Ordering::Relaxed) {
            driver.stop(now, Duration::MAX);
        }
    }
}

/// Passes the new records to the collector.
fn hand_over(driver: &mut Driver, batches: &SyncSender<Batch>) {
    if !driver.batch().is_empty() {
        // Fails only if the collector has ended. The records are useless then.
        let _ = batches.send(driver.take_batch());
    }
}

/// The report of a worker at its end.
#[derive(Debug)]
pub(super) struct WorkerReport {
    /// Processor time that the worker used.
    pub(super) cpu: Duration,
    /// Time that the worker ran.
    pub(super) wall: Duration,
    /// Time at which the worker sent its last request.
    pub(super) last_start: Option<Timestamp>,
    /// Delays of requests that started late although a connection was free.
    pub(super) start_lag: LagMeter,
    /// Durations of work between two waits. A read may be late by one such duration.
    pub(super) turn: LagMeter,
}

/// A worker and its sockets.
#[derive(Debug)]
pub(super) struct Engine<'a> {
    driver: Driver,
    clock: Clock,
    epoll: OwnedFd,
    lanes: Vec<LaneSockets>,
    sockets: Vec<Option<Socket>>,
    /// Connections that still have bytes to read, but will get no further event for them. Each
    /// entry has the socket's generation, and true if the peer's close follows the bytes.
    unread: Vec<(Slot, u32, bool)>,
    /// HTTP/2 connections that may have output.
    talkative: Vec<Slot>,
    buffer: Vec<u8>,
    /// The contents of `buffer`, decrypted by TLS.
    plain: Vec<u8>,
    generation: u32,
    closes_by_fin: u32,
    /// Earliest time at which kernel timestamps may be requested for another request.
    next_watch: Timestamp,
    batches: SyncSender<Batch>,
    stops: Stops<'a>,
    turn: LagMeter,
}

/// The socket settings of a lane's connections, and their requests.
#[derive(Debug)]
struct LaneSockets {
    plan: SocketPlan,
    /// The request for each URL of the plan.
    requests: Vec<Prepared>,
    /// The TLS peer, if the URL requires TLS.
    peer: Option<TlsPeer>,
    is_http2: bool,
    /// True if the kernel stamps some requests of the lane.
    has_stamps: bool,
}

impl LaneSockets {
    /// Returns the request's bytes for a part; empty if there is no such part.
    fn request(&self, part: u16) -> &[u8] {
        let request = self.requests.get(usize::from(part));
        request.map_or(&[], |request| request.bytes.as_slice())
    }

    /// Returns the bytes of the next request of a part, with these cookies, if they differ from
    /// those of other requests.
    fn own_request(&self, part: u16, cookies: Option<&str>) -> Option<Vec<u8>> {
        let request = self.requests.get(usize::from(part))?;
        let own = request.own();
        match cookies {
            Some(cookies) => {
                let bytes = own.as_deref().unwrap_or(&request.bytes);
                Some(outgoing::with_cookies(bytes, cookies))
            }
            None => own,
        }
    }

    /// Returns the settings of all lanes of `plan` for the worker with `driver`.
    fn of(plan: &Plan, driver: &Driver) -> Result<Vec<Self>, TlsError> {
        let lanes = plan.lanes.iter().enumerate().map(|(number, lane)| {
            Ok(Self {
                plan: SocketPlan::new(plan, lane, driver.connections_before(number)),
                requests: plan.requests(lane),
                peer: plan.peer(lane)?,
                is_http2: plan.protocol.http2,
                has_stamps: plan.reporting.stamps,
            })
        });
        lanes.collect()
    }
}

#[derive(Debug)]
struct Socket {
    fd: OwnedFd,
    /// Number that distinguishes events of this socket from events of earlier sockets.
    generation: u32,
    is_connected: bool,
    /// Requests that are not yet completely accepted by TLS or by the kernel.
    queued: VecDeque<Queued>,
    /// Number of bytes accepted so far from the first queued request.
    taken: usize,
    /// HTTP/2 output that is not yet completely accepted.
    outbox: Outbox,
    tls: Option<Box<Secure>>,
    /// TLS bytes that the kernel has not accepted yet.
    wire: Vec<u8>,
    /// Number of unencrypted request bytes that the kernel has accepted, modulo 2^32 as in the
    /// kernel's own count.
    handed_over: u32,
    /// The request in flight, if it is stamped.
    watched: Option<Box<Watched>>,
}

impl Socket {
    /// Returns true if bytes wait for the kernel to accept them.
    fn has_unsent(&self) -> bool {
        !self.queued.is_empty() || !self.outbox.is_empty() || !self.wire.is_empty()
    }
}

impl<'a> Engine<'a> {
    /// Creates a worker that executes `driver`'s part of `plan`.
    pub(super) fn new(
        plan: &Plan,
        driver: Driver,
        clock: Clock,
        batches: SyncSender<Batch>,
        stops: Stops<'a>,
    ) -> Result<Self, LoadError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC);
        Ok(Self {
            epoll: epoll.map_err(|error| LoadError::Epoll {
                source: error.into(),
            })?,
            lanes: LaneSockets::of(plan, &driver)?,
            sockets: (0..driver.len()).map(|_| None).collect(),
            unread: Vec::new(),
            talkative: Vec::new(),
            buffer: vec![0; READ_LEN],
            plain: Vec::new(),
            generation: 0,
            closes_by_fin: 0,
            next_watch: clock.now(),
            turn: LagMeter::default(),
            driver,
            clock,
            batches,
            stops,
        })
    }

    /// Runs until the end and passes all records to the collector.
    pub(super) fn run(mut self) -> io::Result<WorkerReport> {
        // Lets sleeps end on time instead of up to 50 µs late. If this is not permitted, they end a
        // little late.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let (begun, cpu_before) = (self.clock.now(), thread_cpu());
        let mut waiter = Waiter::default();
        let mut events = [NOTHING; MAX_EVENTS];
        let (mut now, mut heard) = (begun, HeardUntil::since(begun));
        self.driver.begin(now);
        self.carry_out(now);
        while !self.driver.is_done(now) {
            let timeout = if self.unread.is_empty() {
                self.driver.next_wake(now).since(now)
            } else {
                Duration::ZERO
            };
            let told = match waiter.wait(&self.epoll, &mut events, timeout) {
                // Sockets may be ready nevertheless, above all after a stop of the process.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
                told => Some(told?),
            };
            let (asked, woken) = (now, self.clock.now());
            self.react(events.get(..told.unwrap_or(0)).unwrap_or_default());
            if let Some(count) = told {
                heard.note(asked, count, self.sockets.len());
            }
            now = self.clock.now();
            self.turn.note(now.since(woken));
            self.tick(now, heard.time());
        }
        self.driver.finish(now);
        hand_over(&mut self.driver, &self.batches);
        Ok(WorkerReport {
            cpu: thread_cpu().saturating_sub(cpu_before),
            wall: now.since(begun),
            last_start: self.driver.last_start(),
            start_lag: self.driver.lag().clone(),
            turn: self.turn,
        })
    }

    fn tick(&mut self, now: Timestamp, heard: Timestamp) {
        let is_check = self.driver.tick(now, heard);
        self.carry_out(now);
        if is_check {
            self.stops.heed(&mut self.driver, now);
        }
        if is_check || self.driver.batch().records.len() >= BATCH_LEN {
            hand_over(&mut self.driver, &self.batches);
        }
    }

    /// Handles the events on the sockets.
    fn react(&mut self, events: &[Readiness]) {
        for (slot, generation, is_ended) in core::mem::take(&mut self.unread) {
            let socket = self.sockets.get(slot).and_then(Option::as_ref);
            if socket.is_some_and(|socket| socket.generation == generation) {
                self.read(slot, is_ended);
            }
        }
        for &Readiness { events, u64: token } in events {
            let flags = epoll::EventFlags::from_bits_retain(events);
            let slot = (token >> 32) as usize;
            let Some(Some(socket)) = self.sockets.get(slot) else {
                continue;
            };
            if socket.generation != token as u32 {
                continue;
            }
            if !socket.is_connected {
                self.finish_connect(slot, flags);
                continue;
            }
            if flags.contains(epoll::EventFlags::OUT) && socket.has_unsent() {
                self.send_rest(slot);
            }
            let is_ended = flags.intersects(
                epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR,
            );
            if is_ended || flags.contains(epoll::EventFlags::IN) {
                self.read(slot, is_ended);
            }
        }
    }

    /// Reports an event to the driver and executes the driver's commands.
    fn report(&mut self, now: Timestamp, tell: impl FnOnce(&mut Driver)) {
        tell(&mut self.driver);
        self.carry_out(now);
    }
}

/// Returns the processor time of this thread.
fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
