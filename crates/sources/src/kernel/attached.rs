//! Loads and attaches the eBPF programs, and processes their records.
//!
//! In sampling periods (in names: looks), a sample of the connections is observed in detail (see
//! `sampling`).

mod object;
mod quota;
mod record;
mod sampling;
mod settings;
mod steal;
mod tally;

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use lagtrace_core::decode::{Decoder, Packet};
use lagtrace_core::observed::event::PointId;
use lagtrace_core::observed::kernel_span::WatchTally;
use lagtrace_core::observed::time::Timestamp;
use libbpf_rs::{Link, MapCore as _, MapFlags, Object, RingBuffer, RingBufferBuilder};
use nix::sys::socket::{setsockopt, sockopt};

use self::object::{
    Attached, OPEN_TURNS, Wanted, attached, close_open_turns, of_look, what_is_missing,
};
pub(super) use self::object::{configure, refused};
use self::quota::Quotas;
use self::record::{Told, is_turn, read};
use self::sampling::Sampling;
use self::settings::config;
use self::steal::Steal;
use self::tally::tally;
use super::{KernelError, Sighting, Standing, WatchOptions};
use crate::clock::Clock;

/// Maximum number of namespaces that are distinguished. All further namespaces count as one.
const MAX_POINTS: usize = 1024;
/// The file with the kernel's type information (BTF).
pub(super) const TYPES: &str = "/sys/kernel/btf/vmlinux";
/// Maximum number of records processed in one call, so that the caller's other work is not delayed.
const BATCH: usize = 16_384;

/// The programs running in the kernel; dropping this value removes them.
pub struct Watch {
    ring: RingBuffer<'static>,
    inbox: Rc<RefCell<Inbox>>,
    programs: Programs,
    /// A socket with timestamping enabled: while such a socket exists, the kernel stamps arriving
    /// segments.
    stamps: Option<UdpSocket>,
    clock: Clock,
    decoder: Decoder,
    number: u64,
    /// Number of exchanges among the records.
    turns: u64,
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

/// The attached programs.
struct Programs {
    object: Object,
    /// Links of the programs, which detach when they are dropped.
    links: Vec<Link>,
    /// Links of the programs that report segments and threads while the sample is looked at.
    of_look: Vec<Link>,
    /// The times at which reading and writing are observed.
    wanted: Wanted,
    /// Tracepoints that are not used.
    lacking: Vec<String>,
    /// Descriptions of the data that is missing without these tracepoints.
    missing: Vec<String>,
}

/// Records in order of arrival, concatenated, with their lengths.
#[derive(Default)]
struct Inbox {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
}

impl Inbox {
    /// Returns the bytes of each record.
    fn records(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        self.lengths.iter().map(move |&length| {
            let (record, behind) = rest.split_at_checked(length).unwrap_or_default();
            rest = behind;
            record
        })
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("missing", &self.programs.missing)
            .finish_non_exhaustive()
    }
}

impl Watch {
    /// Loads and attaches the programs.
    ///
    /// # Errors
    /// Returns an error if the process lacks the privileges, the kernel has no type information, or
    /// the kernel rejects a program that is needed.
    pub fn start(options: &WatchOptions) -> Result<Self, KernelError> {
        if !Path::new(TYPES).exists() {
            return Err(KernelError::NoTypes(TYPES.into()));
        }
        let is_for_ports_alone =
            !options.ports.is_empty() && options.pid.is_none() && options.cgroup.is_none();
        let wanted = if is_for_ports_alone && options.slow_from.is_none() {
            Wanted::InLooks
        } else {
            Wanted::Always
        };
        let Attached {
            object,
            links,
            missing,
        } = attached(&config(options)?, &options.without, wanted)?;
        // Without a port, the reads and writes determine the watched connections, so their
        // tracepoints are needed. The iterator is optional: it only adds the last requests.
        let needed: Vec<&str> = missing
            .iter()
            .map(String::as_str)
            .filter(|name| *name != OPEN_TURNS)
            .collect();
        if options.ports.is_empty() && !needed.is_empty() {
            let source = io::ErrorKind::NotFound.into();
            return Err(KernelError::Refused {
                program: needed.join(", "),
                source,
            });
        }
        let lacking = missing;
        let missing = lacking.iter().map(|name| what_is_missing(name)).collect();
        let inbox = Rc::new(RefCell::new(Inbox::default()));
        let ring = ring(&object, Rc::clone(&inbox))?;
        let slow_from = options
            .slow_from
            .map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let mut watch = Self {
            ring,
            inbox,
            programs: Programs {
                object,
                links,
                of_look: Vec::new(),
                wanted,
                lacking,
                missing,
            },
            stamps: None,
            clock: Clock::new(),
            decoder: Decoder::new(),
            number: 0,
            turns: 0,
            ended: None,
            namespaces: Vec::new(),
            sampling: Sampling::new(slow_from, Instant::now()),
            quotas: Quotas::default(),
            steal: Steal::new(),
        };
        watch.apply()?;
        Ok(watch)
    }

    /// Returns descriptions of the data that is missing because this kernel lacks tracepoints.
    pub fn missing(&self) -> &[String] {
        &self.programs.missing
    }

    /// Processes the available records, exchanges first. The caller pauses between two calls.
    ///
    /// An exchange is reported when the next request on its connection arrives, shortly after the
    /// segment of that request. The analysis completes the exchange at that segment, so the report
    /// of the exchange must come first.
    pub fn take(&mut self, mut visit: impl FnMut(Sighting<'_>)) {
        let _ = self.ring.consume_raw_n(BATCH);
        let inbox = self.inbox.take();
        let (turns, others): (Vec<_>, Vec<_>) = inbox.records().partition(|bytes| is_turn(bytes));
        for bytes in turns.into_iter().chain(others) {
            self.tell(bytes, &mut visit);
        }
        // The memory is kept for the next call.
        let Inbox {
            mut bytes,
            mut lengths,
        } = inbox;
        bytes.clear();
        lengths.clear();
        *self.inbox.borrow_mut() = Inbox { bytes, lengths };
        self.adjust();
    }

    /// Decodes one record and passes the result to `visit`.
    fn tell(&mut self, bytes: &[u8], visit: &mut impl FnMut(Sighting<'_>)) {
        self.number += 1;
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
                    segment.ip.is_own = is_own;
                    segment.options.mss = Some(terms.mss);
                    segment.options.window_scale = Some(terms.window_scale);
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
            Some(Told::Turn(turn)) => {
                self.turns += 1;
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
        self.programs.links.clear();
        self.programs.of_look.clear();
        close_open_turns(&self.programs.object);
        let mut before = self.number;
        loop {
            self.take(&mut visit);
            if self.number == before {
                return self.standing();
            }
            before = self.number;
        }
    }

    /// Adjusts the sample to the number of records that can be processed.
    fn adjust(&mut self) {
        let object = &self.programs.object;
        let slow = || tally(object).latency.quantile(0.99).unwrap_or_default();
        if self.sampling.judge(self.number, Instant::now(), slow) {
            // If the kernel refuses, the programs keep their old settings.
            let _ = self.apply();
        }
    }

    /// Applies the current sample to the programs.
    fn apply(&mut self) -> Result<(), KernelError> {
        if self.sampling.is_on && self.programs.of_look.is_empty() {
            self.programs.of_look = of_look(
                &self.programs.object,
                &self.programs.lacking,
                self.programs.wanted,
            )?;
            self.stamps = stamping().ok();
        }
        // The sampling period begins after all programs are attached and ends before they are
        // detached.
        self.control()?;
        if !self.sampling.is_on {
            self.programs.of_look.clear();
            self.stamps = None;
        }
        Ok(())
    }

    /// Passes the sampling parameters to the programs (`struct watch_control`).
    fn control(&self) -> Result<(), KernelError> {
        let sampling = &self.sampling;
        let look = if sampling.is_on { sampling.looks } else { 0 };
        // The clock may have been set since the last sampling period.
        let monotonic = -Clock::new().offset();
        let mut value = sampling.slow_from.to_ne_bytes().to_vec();
        value.extend(sampling.mask.to_ne_bytes());
        value.extend(look.to_ne_bytes());
        value.extend(monotonic.to_ne_bytes());
        let Some(map) = self
            .programs
            .object
            .maps()
            .find(|map| map.name() == "control")
        else {
            return Ok(());
        };
        map.update(&0u32.to_ne_bytes(), &value, MapFlags::ANY)
            .map_err(|error| refused("the sample", &error))
    }

    /// Returns the state so far.
    pub fn standing(&self) -> Standing {
        let tally = tally(&self.programs.object);
        let all = tally.latency.count().max(1);
        Standing {
            records: self.number,
            tally: WatchTally {
                sampled_share: (self.turns as f64 / all as f64).min(1.0),
                throttling: self.quotas.since(),
                stolen: self.steal.since(),
                ..tally
            },
        }
    }
}

/// Opens a socket that makes the kernel stamp all arriving packets (`net/core/sock.c:
/// sock_enable_timestamp()`). The socket receives nothing.
fn stamping() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
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

fn ring(object: &Object, inbox: Rc<RefCell<Inbox>>) -> Result<RingBuffer<'static>, KernelError> {
    let records = object
        .maps()
        .find(|map| map.name() == "records")
        .ok_or_else(|| {
            let source = io::Error::from(io::ErrorKind::NotFound);
            KernelError::Refused {
                program: "its own ring".to_owned(),
                source,
            }
        })?;
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&records, move |bytes: &[u8]| {
            let mut inbox = inbox.borrow_mut();
            inbox.bytes.extend_from_slice(bytes);
            inbox.lengths.push(bytes.len());
            0
        })
        .map_err(|error| refused("the ring of records", &error))?;
    builder
        .build()
        .map_err(|error| refused("the ring of records", &error))
}
