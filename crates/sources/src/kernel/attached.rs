//! Loads the programs, attaches them, and takes in what they hand up.

use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use lagtrace_core::decode::{Decoder, Packet};
use lagtrace_core::event::PointId;
use lagtrace_core::histogram::Distribution;
use lagtrace_core::turn::WatchTally;
use libbpf_rs::btf::{Btf, BtfType};
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{
    Link, MapCore as _, MapFlags, Object, ObjectBuilder, OpenObject, Program, RingBuffer,
    RingBufferBuilder,
};

use super::record::{Told, read};
use super::{KernelError, MAX_PORTS, Sighting, Standing, WatchOptions};
use crate::clock::Clock;

/// The programs, built from `bpf/watch.bpf.c` by `scripts/build-bpf`.
const OBJECT: &[u8] = include_bytes!("../../bpf/watch.bpf.o");
/// Namespaces told apart; those beyond count as one.
const MAX_POINTS: usize = 1024;
/// Where the kernel describes its types.
const TYPES: &str = "/sys/kernel/btf/vmlinux";
/// Where cgroups of version 2 are.
const CGROUPS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// What can be done without, and what is not seen then.
const OPTIONAL: [(&str, &str); 3] = [
    ("sock_recv_length", "when programs read"),
    (
        "sock_send_length",
        "when programs wrote, and what was held back",
    ),
    (
        "inet_sock_set_state",
        "the last request of connections that end",
    ),
];

/// Payload kept of a turn's first segment, in bytes: a request's line, and a
/// response's status.
const REQUEST_BYTES: u32 = 64;
const RESPONSE_BYTES: u32 = 16;
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
        let config = config(options)?;
        // What the library would print goes into the error instead.
        libbpf_rs::set_print(None);
        let lacking = lacking(&options.without);
        let (object, mut missing) = load(&config, &lacking).or_else(|error| {
            // One that is not needed may be what it does not take.
            load(&config, &OPTIONAL.map(|(name, _)| name)).map_err(|_| error)
        })?;
        let links = attach(&object, &mut missing)?;
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
        let tallies = self.per_processor("tallies", 0);
        let sum = |field: usize| -> u64 {
            let value = |bytes: &Vec<u8>| word(bytes, field * 8);
            tallies.iter().map(value).sum()
        };
        Standing {
            records: self.number,
            tally: WatchTally {
                latency: self.latency(),
                connections: sum(3),
                sampled_share: 1.0 / f64::from(self.sampling.mask + 1),
                lost_records: sum(2),
                lost_connections: sum(4),
                cost: self.cost(),
            },
        }
    }

    /// All turns by their length; `slot_of()` of the programs, turned round.
    fn latency(&self) -> Distribution {
        let slots = (0..LATENCY_SLOTS).map(|slot| {
            let counts = self.per_processor("latencies", slot);
            (
                slot_end(slot),
                counts.iter().map(|bytes| word(bytes, 0)).sum(),
            )
        });
        Distribution::from_buckets(slots)
    }

    fn per_processor(&self, name: &str, key: u32) -> Vec<Vec<u8>> {
        let map = self.object.maps().find(|map| map.name() == name);
        let values = map.and_then(|map| {
            map.lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY)
                .ok()
                .flatten()
        });
        values.unwrap_or_default()
    }

    /// What the programs took, if the kernel counts that
    /// (`kernel.bpf_stats_enabled`).
    fn cost(&self) -> Option<Duration> {
        let id = |program: Program<'_>| Program::id_from_fd(program.as_fd()).ok();
        let ours: Vec<u32> = self.object.progs().filter_map(id).collect();
        let programs = ProgInfoIter::default().filter(|program| ours.contains(&program.id));
        let nanos: u64 = programs.map(|program| program.run_time_ns).sum();
        (nanos > 0).then(|| Duration::from_nanos(nanos))
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

/// `LATENCY_SLOTS` of `bpf/watch.h`.
const LATENCY_SLOTS: u32 = 320;

/// The longest time that counts in a slot, in ns.
fn slot_end(slot: u32) -> u64 {
    let (exponent, step) = (slot / 8, u64::from(slot % 8));
    let end = match exponent {
        0 => step + 1,
        _ => (9 + step) << (exponent - 1),
    };
    (end << 8) - 1
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
    word.map_or(0, u64::from_ne_bytes)
}

/// `struct watch_config`.
fn config(options: &WatchOptions) -> Result<Vec<u8>, KernelError> {
    if options.ports.is_empty() && options.pid.is_none() && options.cgroup.is_none() {
        return Err(KernelError::NothingAsked);
    }
    if let Some(pid) = options.pid
        && !Path::new("/proc").join(pid.to_string()).exists()
    {
        return Err(KernelError::NoProcess(pid));
    }
    if options.ports.len() > MAX_PORTS {
        return Err(KernelError::TooManyPorts(options.ports.len()));
    }
    let mut ports = [0; MAX_PORTS];
    for (place, &port) in ports.iter_mut().zip(&options.ports) {
        *place = port;
    }
    let count = u32::try_from(options.ports.len()).unwrap_or_default();
    let cgroup = options.cgroup.as_deref().map(cgroup_id).transpose()?;
    let (request, response) = match options.keeps_payload {
        true => (REQUEST_BYTES, RESPONSE_BYTES),
        false => (0, 0),
    };
    let mut bytes: Vec<u8> = ports.iter().flat_map(|port| port.to_ne_bytes()).collect();
    bytes.extend(count.to_ne_bytes());
    bytes.extend(options.pid.unwrap_or_default().to_ne_bytes());
    bytes.extend(cgroup.unwrap_or_default().to_ne_bytes());
    bytes.extend(request.to_ne_bytes());
    bytes.extend(response.to_ne_bytes());
    Ok(bytes)
}

/// The kernel's number of a cgroup is its directory's inode.
fn cgroup_id(path: &Path) -> Result<u64, KernelError> {
    let is_mounted = CGROUPS.iter().any(|mount| path.starts_with(mount));
    let below = path.strip_prefix("/").unwrap_or(path);
    let places = match is_mounted {
        true => vec![path.to_owned()],
        false => CGROUPS.map(|mount| Path::new(mount).join(below)).to_vec(),
    };
    // The mount's own folder may be one of version 1.
    let is_group = |place: &&PathBuf| place.join("cgroup.controllers").exists();
    let found = places
        .iter()
        .filter(is_group)
        .find_map(|place| fs::metadata(place).ok());
    found
        .map(|directory| directory.ino())
        .ok_or_else(|| KernelError::NoCgroup {
            path: path.to_owned(),
        })
}

fn configure(open: &mut OpenObject, config: &[u8]) -> Result<(), KernelError> {
    let is_config = |name: &std::ffi::OsStr| name.to_string_lossy().ends_with(".rodata.config");
    for mut map in open.maps_mut() {
        if is_config(map.name())
            && let Some(place) = map
                .initial_value_mut()
                .and_then(|all| all.get_mut(..config.len()))
        {
            place.copy_from_slice(config);
            return Ok(());
        }
    }
    let source = io::Error::from(io::ErrorKind::NotFound);
    Err(KernelError::Refused {
        program: "its own settings".to_owned(),
        source,
    })
}

/// The tracepoints that this kernel does not have, or that are not wanted.
fn lacking(without: &[String]) -> Vec<&'static str> {
    let types = Btf::from_vmlinux().ok();
    let is_there = |name: &str| {
        let hook = format!("btf_trace_{name}");
        let found = types
            .as_ref()
            .map(|types| types.type_by_name::<BtfType<'_>>(&hook).is_some());
        found.unwrap_or(true) && !without.iter().any(|other| other == name)
    };
    let names = OPTIONAL.iter().map(|&(name, _)| name);
    names.filter(|name| !is_there(name)).collect()
}

/// Loads the programs but for those that `lacking` names, which come back.
fn load(config: &[u8], lacking: &[&str]) -> Result<(Object, Vec<String>), KernelError> {
    let mut open = ObjectBuilder::default()
        .open_memory(OBJECT)
        .map_err(|error| refused("reading its own programs", &error))?;
    configure(&mut open, config)?;
    for mut program in open.progs_mut() {
        if lacking.iter().any(|&name| program.name() == name) {
            program.set_autoload(false);
        }
    }
    let object = open
        .load()
        .map_err(|error| refused("the programs", &error))?;
    Ok((
        object,
        lacking.iter().map(|&name| name.to_owned()).collect(),
    ))
}

/// A tracepoint that is missing, with what is not seen without it.
fn what_is_missing(name: &str) -> String {
    match OPTIONAL.iter().find(|(other, _)| *other == name) {
        Some((_, unseen)) => format!("the tracepoint {name}: {unseen} is not seen"),
        None => format!("the tracepoint {name}"),
    }
}

/// Attaches each program; what is not needed may be missing.
fn attach(object: &Object, missing: &mut Vec<String>) -> Result<Vec<Link>, KernelError> {
    let mut links = Vec::new();
    for program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        if missing.contains(&name) {
            continue;
        }
        match program.attach() {
            Ok(link) => links.push(link),
            Err(_) if OPTIONAL.iter().any(|&(other, _)| other == name) => missing.push(name),
            Err(error) => return Err(refused(&name, &error)),
        }
    }
    Ok(links)
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

fn refused(program: &str, error: &libbpf_rs::Error) -> KernelError {
    let kind = match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => {
            return KernelError::NotPermitted(io::ErrorKind::PermissionDenied.into());
        }
        libbpf_rs::ErrorKind::NotFound => io::ErrorKind::NotFound,
        _ => io::ErrorKind::Other,
    };
    let source = io::Error::new(kind, error.to_string());
    KernelError::Refused {
        program: program.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the programs do it (`slot_of()` in `bpf/watch.bpf.c`).
    fn slot_of(latency: u64) -> u32 {
        let value = latency >> 8;
        match value {
            0..8 => u32::try_from(value).unwrap_or_default(),
            _ => {
                let exponent = value.ilog2();
                let step = u32::try_from(value >> (exponent - 3) & 7).unwrap_or_default();
                ((exponent - 2) * 8 + step).min(LATENCY_SLOTS - 1)
            }
        }
    }

    #[test]
    fn a_slots_end_is_its_longest() {
        for slot in 0..LATENCY_SLOTS - 1 {
            assert_eq!(slot_of(slot_end(slot)), slot, "{slot}");
            assert_eq!(slot_of(slot_end(slot) + 1), slot + 1, "{slot}");
        }
    }
}
