//! Loads the programs, attaches them, and takes in what they hand up.

mod object;
mod record;
mod settings;
mod tally;

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use lagtrace_core::decode::{Decoder, Packet};
use lagtrace_core::event::PointId;
use lagtrace_core::turn::WatchTally;
use libbpf_rs::{Link, MapCore as _, MapFlags, Object, RingBuffer, RingBufferBuilder};

use self::object::{Attached, attached, what_is_missing};
pub(super) use self::object::{configure, refused};
use self::record::{Told, read};
use self::settings::config;
use self::tally::tally;
use super::{KernelError, Sighting, Standing, WatchOptions};
use crate::clock::Clock;

/// Namespaces told apart; those beyond count as one.
const MAX_POINTS: usize = 1024;
/// Where the kernel describes its types.
pub(super) const TYPES: &str = "/sys/kernel/btf/vmlinux";
/// Records taken in at once, so that other things get their turn.
const BATCH: usize = 16_384;
/// More records in a second than this are more than a busy machine should
/// spend on being watched: fewer connections are looked at one by one then.
const MOST_RECORDS: f64 = 20_000.0;
/// How often that is looked at.
const ADJUSTED_EVERY: Duration = Duration::from_millis(100);
/// At least one in so many connections stays in the sample.
const LEAST_SAMPLE: u32 = 1 << 12;

/// Programs at work in the kernel. They end with this.
pub struct Watch {
    ring: RingBuffer<'static>,
    inbox: Rc<RefCell<Inbox>>,
    object: Object,
    /// Detach when they are dropped.
    _links: Vec<Link>,
    missing: Vec<String>,
    clock: Clock,
    decoder: Decoder,
    number: u64,
    /// Observation points are numbered in the order they were met.
    namespaces: Vec<u32>,
    sampling: Sampling,
}

/// Records as they came, one after the other, with each one's length.
#[derive(Default)]
struct Inbox {
    bytes: Vec<u8>,
    lengths: Vec<usize>,
}

/// How many connections are looked at one by one.
struct Sampling {
    mask: u32,
    slow_from: u64,
    adjusted: Instant,
    records: u64,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("missing", &self.missing)
            .finish_non_exhaustive()
    }
}

impl Watch {
    /// Loads and attaches the programs.
    ///
    /// # Errors
    /// Without rights, without the kernel's types, or if it refuses what is needed.
    pub fn start(options: &WatchOptions) -> Result<Self, KernelError> {
        if !Path::new(TYPES).exists() {
            return Err(KernelError::NoTypes(TYPES.into()));
        }
        let Attached {
            object,
            links,
            missing,
        } = attached(&config(options)?, &options.without)?;
        if options.ports.is_empty() && !missing.is_empty() {
            let source = io::ErrorKind::NotFound.into();
            return Err(KernelError::Refused {
                program: missing.join(", "),
                source,
            });
        }
        let missing = missing.iter().map(|name| what_is_missing(name)).collect();
        let inbox = Rc::new(RefCell::new(Inbox::default()));
        let ring = ring(&object, Rc::clone(&inbox))?;
        let slow_from = options
            .slow_from
            .map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let watch = Self {
            ring,
            inbox,
            object,
            _links: links,
            missing,
            clock: Clock::new(),
            decoder: Decoder::new(),
            number: 0,
            namespaces: Vec::new(),
            sampling: Sampling {
                mask: 0,
                slow_from,
                adjusted: Instant::now(),
                records: 0,
            },
        };
        watch.control()?;
        Ok(watch)
    }

    /// Tracepoints that this kernel does not have, with what is not seen then.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Takes in what there is now; the caller pauses between two calls.
    pub fn take(&mut self, mut visit: impl FnMut(Sighting<'_>)) {
        let _ = self.ring.consume_raw_n(BATCH);
        let inbox = self.inbox.take();
        let mut at = 0;
        for &length in &inbox.lengths {
            let bytes = inbox.bytes.get(at..at + length).unwrap_or_default();
            at += length;
            self.number += 1;
            match read(bytes, self.number, &self.clock) {
                Some(Told::Segment {
                    record,
                    is_own,
                    namespace,
                }) => {
                    let point = point_of(&mut self.namespaces, namespace);
                    let mut packet = self.decoder.packet(&record, point);
                    if let Packet::Tcp(segment, _) = &mut packet {
                        segment.ip.is_own = is_own;
                    }
                    visit(Sighting::Packet(&packet));
                }
                Some(Told::Turn(turn)) => visit(Sighting::Turn(&turn)),
                None => {}
            }
        }
        // Its memory is used again.
        let Inbox {
            mut bytes,
            mut lengths,
        } = inbox;
        bytes.clear();
        lengths.clear();
        *self.inbox.borrow_mut() = Inbox { bytes, lengths };
        self.adjust();
    }

    /// Detaches, and takes in what was left.
    pub fn finish(mut self, mut visit: impl FnMut(Sighting<'_>)) -> Standing {
        self._links.clear();
        let mut before = self.number;
        loop {
            self.take(&mut visit);
            if self.number == before {
                return self.standing();
            }
            before = self.number;
        }
    }

    /// Halves the sample while more comes than should.
    fn adjust(&mut self) {
        let passed = self.sampling.adjusted.elapsed();
        if passed < ADJUSTED_EVERY {
            return;
        }
        let came = self.number - self.sampling.records;
        self.sampling.adjusted = Instant::now();
        self.sampling.records = self.number;
        let is_much = came as f64 > MOST_RECORDS * passed.as_secs_f64();
        if is_much && self.sampling.mask < LEAST_SAMPLE {
            self.sampling.mask = self.sampling.mask * 2 + 1;
            // It stays as it was if the kernel refuses.
            let _ = self.control();
        }
    }

    /// Tells the programs what is in the sample.
    fn control(&self) -> Result<(), KernelError> {
        let mut value = [0; 16];
        value[..8].copy_from_slice(&self.sampling.slow_from.to_ne_bytes());
        value[8..12].copy_from_slice(&self.sampling.mask.to_ne_bytes());
        let Some(map) = self.object.maps().find(|map| map.name() == "control") else {
            return Ok(());
        };
        map.update(&0u32.to_ne_bytes(), &value, MapFlags::ANY)
            .map_err(|error| refused("the sample", &error))
    }

    /// What is told so far.
    pub fn standing(&self) -> Standing {
        Standing {
            records: self.number,
            tally: WatchTally {
                sampled_share: 1.0 / f64::from(self.sampling.mask + 1),
                ..tally(&self.object)
            },
        }
    }
}

/// The observation point in a namespace: what is the same connection by its
/// addresses is another one in another namespace.
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
