//! A watch: has the eBPF programs attached, and processes their records. No privilege is needed
//! here.
//!
//! In sampling periods (in names: looks), a sample of the connections is observed in detail (see
//! `sampling`).

mod inbox;
mod quota;
mod record;
mod sampling;
mod steal;
mod tally;

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use lagtrace_core::decode::{Decoder, Packet};
use lagtrace_core::observed::event::PointId;
use lagtrace_core::observed::kernel_span::WatchTally;
use lagtrace_core::observed::passage::PassagePoint;
use lagtrace_core::observed::segment::{Segment, SentBy, TcpFlags};
use lagtrace_core::observed::time::Timestamp;
use nix::sys::socket::{setsockopt, sockopt};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use self::inbox::Inbox;
use self::quota::Quotas;
use self::record::{Terms, Told, is_of_socket, read};
use self::sampling::Sampling;
use self::steal::Steal;
use self::tally::{latency, sampled_share, tally};
use super::hooks::Hooks;
use super::request::{Ask, Reply, Request, Sample, WatchCounts, WatchRequest};
use super::ring::Ring;
use super::seat::Seat;
use super::{KernelError, Sighting, Standing, WatchOptions, kept};
use crate::clock::Clock;
use crate::socket::cgroup;

/// Maximum number of namespaces that are distinguished. All further namespaces count as one.
const MAX_POINTS: usize = 1024;
/// Number of bytes for which a record counts as one more.
const LONG_RECORD: usize = 16 * 1024;

/// A running watch; dropping this value removes the programs.
pub struct Watch {
    ring: Ring,
    inbox: Inbox,
    programs: RefCell<Counted>,
    /// The connections that the programs watch.
    asked: WatchRequest,
    /// Descriptions of the data that is missing because this kernel lacks tracepoints.
    missing: Vec<String>,
    /// A socket with timestamping enabled: while such a socket exists, the kernel stamps arriving
    /// segments.
    stamps: Option<OwnedFd>,
    clock: Clock,
    decoder: Decoder,
    number: u64,
    records: RecordCounts,
    /// Time when watching ended. Detaching the programs one after the other takes time, in which
    /// only part of the traffic is seen.
    ended: Option<Timestamp>,
    /// The namespaces in the order in which they were first seen. A namespace's index is the number
    /// of its observation point.
    namespaces: Vec<u32>,
    sampling: Sampling,
    quotas: Quotas,
    steal: Steal,
}

/// Numbers of the records that were read.
#[derive(Default)]
struct RecordCounts {
    /// The number by which the sample is judged: a long record counts as several.
    load: u64,
    /// Number of exchanges among the records.
    turns: u64,
}

/// The programs, with their latest counts.
struct Counted {
    seat: Seat,
    counts: WatchCounts,
}

impl Counted {
    /// Returns the counts so far. If the privileged half does not answer, these are the latest
    /// ones.
    fn counts(&mut self) -> &WatchCounts {
        if let Ok(Reply::WatchCounts(counts)) = self.seat.ask(Request::CountWatch) {
            self.counts = counts;
        }
        &self.counts
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("missing", &self.missing)
            .finish_non_exhaustive()
    }
}

impl Watch {
    /// Has the programs loaded and attached by the keeper of this process; without one, does it
    /// here.
    ///
    /// # Errors
    /// Returns an error if the process lacks the privileges, the kernel has no type information, or
    /// the kernel rejects a program that is needed.
    pub fn start(options: &WatchOptions) -> Result<Self, KernelError> {
        Self::start_by(kept::way(), options)
    }

    /// Has the programs loaded and attached by the privileged half that `way` leads to. This
    /// process needs no privilege.
    ///
    /// # Errors
    /// Returns an error if the privileged half refuses or does not answer, or if the records cannot
    /// be read.
    pub fn start_by(mut way: Box<dyn Ask>, options: &WatchOptions) -> Result<Self, KernelError> {
        let asked = WatchRequest::of(options)?;
        let sampling = Sampling::new(Instant::now());
        let (reply, descriptors) = way.ask(Request::StartWatch(asked.clone()))?;
        // From here on, the programs are removed if anything fails.
        let seat = Seat::new(way, Request::EndWatch);
        let (Reply::Watching { lacking, size }, [ring]) = (reply, descriptors.as_slice()) else {
            return Err(KernelError::OutOfTurn);
        };
        let ring = Ring::open(ring.as_fd(), size).map_err(KernelError::Unreadable)?;
        let mut watch = Self {
            ring,
            inbox: Inbox::default(),
            programs: RefCell::new(Counted {
                seat,
                counts: WatchCounts::default(),
            }),
            asked,
            missing: lacking.what_is_missing(),
            stamps: None,
            clock: Clock::new(),
            decoder: Decoder::new(),
            number: 0,
            records: RecordCounts::default(),
            ended: None,
            namespaces: Vec::new(),
            sampling,
            quotas: Quotas::default(),
            steal: Steal::new(),
        };
        watch.apply()?;
        Ok(watch)
    }

    /// Returns descriptions of the data that is missing because this kernel lacks tracepoints.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Processes the available records, exchanges and passages first. The caller pauses between two calls.
    ///
    /// An exchange is reported when the next request on its connection arrives, shortly after the
    /// segment of that request. The analysis completes the exchange at that segment, so the report
    /// of the exchange must come first.
    pub fn take(&mut self, visit: impl FnMut(Sighting<'_>)) {
        self.consume(visit);
        self.adjust();
    }

    /// Processes the available records. Returns their number.
    fn consume(&mut self, mut visit: impl FnMut(Sighting<'_>)) -> usize {
        let mut inbox = std::mem::take(&mut self.inbox);
        let count = self.ring.take(|record| inbox.add(record));
        let (turns, others): (Vec<_>, Vec<_>) =
            inbox.records().partition(|bytes| is_of_socket(bytes));
        for bytes in turns.into_iter().chain(others) {
            self.tell(bytes, &mut visit);
        }
        inbox.clear();
        self.inbox = inbox;
        count
    }

    /// Decodes one record and passes the result to `visit`.
    fn tell(&mut self, bytes: &[u8], visit: &mut impl FnMut(Sighting<'_>)) {
        self.number += 1;
        self.records.load += 1 + (bytes.len() / LONG_RECORD) as u64;
        match read(bytes, self.number, &self.clock) {
            Some(Told::Segment {
                record,
                is_own,
                namespace,
                terms,
            }) => {
                if self.ended.is_some_and(|ended| record.at > Some(ended)) {
                    return;
                }
                let point = point_of(&mut self.namespaces, namespace);
                let mut packet = self.decoder.packet(&record, point);
                if let Packet::Tcp(segment, _) = &mut packet {
                    segment.ip.sent_by = SentBy::of_own(is_own);
                    offered(segment, terms);
                }
                visit(Sighting::Packet(&packet));
            }
            Some(Told::Opening(opening)) => {
                let point = point_of(&mut self.namespaces, opening.namespace);
                let segments = opening.segments(self.number, point);
                self.number += 2;
                for segment in segments {
                    visit(Sighting::Packet(&Packet::Tcp(segment, b"")));
                }
            }
            Some(Told::Passage(passage)) => {
                if let PassagePoint::Read(caller) = &passage.gate {
                    self.quotas.meet(caller.program.pid);
                }
                visit(Sighting::Passage(&passage));
            }
            Some(Told::Turn(turn)) => {
                self.records.turns += 1;
                if let Some(program) = &turn.program {
                    self.quotas.meet(program.pid);
                }
                visit(Sighting::Turn(&turn));
            }
            None => {}
        }
    }

    /// Detaches the programs and processes the remaining records.
    pub fn finish(mut self, mut visit: impl FnMut(Sighting<'_>)) -> Standing {
        self.ended = Some(self.clock.now());
        // If the privileged half has ended, the kernel has detached the programs.
        let _ = self.programs.get_mut().seat.tell(Request::DetachWatch);
        while self.consume(&mut visit) > 0 {}
        self.standing()
    }

    /// Adjusts the sample to the number of records that can be processed.
    fn adjust(&mut self) {
        let programs = self.programs.get_mut();
        let slow = || {
            let latency = latency(programs.counts());
            latency.quantile(0.99).unwrap_or_default()
        };
        if self.sampling.judge(self.records.load, Instant::now(), slow) {
            // If the kernel refuses, the programs keep their old settings.
            let _ = self.apply();
        }
    }

    /// Applies the current sample to the programs.
    fn apply(&mut self) -> Result<(), KernelError> {
        let sampling = &self.sampling;
        let is_on = sampling.is_on;
        if is_on && self.stamps.is_none() {
            self.stamps = stamping().ok();
        }
        let sample = Sample {
            mask: sampling.mask,
            look: if is_on { sampling.looks } else { 0 },
            is_whole: !sampling.has_pauses,
        };
        self.programs.get_mut().seat.tell(Request::Sample(sample))?;
        if !is_on {
            self.stamps = None;
        }
        Ok(())
    }

    /// Returns the state so far.
    pub fn standing(&self) -> Standing {
        let mut programs = self.programs.borrow_mut();
        let counts = programs.counts();
        let tally = tally(counts);
        let is_whole = !self.sampling.had_pauses;
        Standing {
            records: self.number,
            tally: WatchTally {
                sampled_share: sampled_share(counts, self.records.turns, is_whole),
                unread_tls_handshakes: if self.asked.keeps_payload {
                    0
                } else {
                    counts.tls_handshakes
                },
                throttling: self.quotas.since(),
                stolen: self.steal.since(),
                sees_handshakes: self.asked.is_for_ports_alone() && is_whole,
                ..tally
            },
        }
    }
}

impl WatchRequest {
    /// Returns true if the ports alone select the connections, and not also the processes that use
    /// them.
    pub(super) fn is_for_ports_alone(&self) -> bool {
        !self.ports.is_empty() && self.pid.is_none() && self.cgroup.is_none()
    }

    /// Returns the request for these options. A privileged half can compare it with the one that it
    /// gets.
    ///
    /// # Errors
    /// Returns an error if the cgroup does not exist.
    pub fn of(options: &WatchOptions) -> Result<Self, KernelError> {
        let is_without = |name: &str| options.without.iter().any(|other| other == name);
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // The kernel's namespace numbers have 32 bits (`struct ns_common`).
        let number = |inode| u32::try_from(inode).unwrap_or(u32::MAX);
        Ok(Self {
            ports: options.ports.clone(),
            pid: options.pid,
            cgroup: options.cgroup.as_deref().map(numbered).transpose()?,
            namespace: options.namespace.map(number),
            keeps_payload: options.keeps_payload,
            slow_from: options.slow_from.map(nanos),
            without: Hooks::of(is_without),
        })
    }
}

fn numbered(path: &Path) -> Result<u64, KernelError> {
    let number = cgroup::number_of(&path.to_string_lossy());
    number.ok_or_else(|| KernelError::NoCgroup {
        path: path.to_owned(),
    })
}

/// Adds the options that the segment's sender offered in the handshake. A segment of the handshake
/// has its own, and those of a connection that is not known yet are not either.
fn offered(segment: &mut Segment, terms: Terms) {
    if terms.mss > 0 && !segment.flags.contains(TcpFlags::SYN) {
        segment.options.mss = Some(terms.mss);
        segment.options.window_scale = Some(terms.window_scale);
    }
}

/// Opens a socket that makes the kernel stamp all arriving packets (`net/core/sock.c:
/// sock_enable_timestamp()`). The socket has no address and receives nothing.
fn stamping() -> io::Result<OwnedFd> {
    let socket = socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    Ok(socket)
}

/// Returns the observation point of a namespace. Equal addresses in two namespaces belong to
/// different connections.
fn point_of(namespaces: &mut Vec<u32>, namespace: u32) -> PointId {
    let known = namespaces.iter().position(|&known| known == namespace);
    let place = known.unwrap_or(namespaces.len());
    if known.is_none() && place < MAX_POINTS {
        namespaces.push(namespace);
    }
    PointId(u16::try_from(place).unwrap_or(u16::MAX))
}
