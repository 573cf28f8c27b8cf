//! System calls on sockets, reported in real time by the programs in `bpf/options.bpf.c`.

mod record;
mod tracepoint;

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::path::Path;
use std::rc::Rc;

use lagtrace_core::observed::syscall::{CallTally, SocketCall};
use libbpf_rs::{
    Link, MapCore as _, MapFlags, Object, ObjectBuilder, ProgramMut, RingBuffer, RingBufferBuilder,
};

use self::tracepoint::Tracepoints;
use super::attached::{TYPES, configure, refused};
use super::meant::Meant;
use super::{CallOptions, KernelError, MAX_PIDS, MAX_PORTS};
use crate::clock::Clock;
use crate::privilege;

/// The programs, built from `bpf/options.bpf.c` by `scripts/build-bpf`.
const OBJECT: &[u8] = include_bytes!("../../bpf/options.bpf.o");
/// Maximum number of calls processed at a time, so that the caller's other work is not delayed.
const BATCH: usize = 16_384;

/// The programs running in the kernel; dropping this value removes them.
pub struct Calls {
    ring: RingBuffer<'static>,
    inbox: Rc<RefCell<Vec<SocketCall>>>,
    object: Object,
    /// Links of the programs. A program is detached when its link is dropped.
    links: Vec<Link>,
    meant: Meant,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls")
            .field("meant", &self.meant)
            .finish_non_exhaustive()
    }
}

impl Calls {
    /// Loads and attaches the programs.
    ///
    /// # Errors
    /// Returns an error if the process lacks the privileges, the kernel has no type information or
    /// no tracepoints of system calls, or a selected process does not exist.
    pub fn start(options: CallOptions) -> Result<Self, KernelError> {
        check(&options)?;
        let numbers = options
            .choice
            .groups
            .as_ref()
            .map(|groups| groups.numbers());
        let numbers = numbers.flatten().unwrap_or_default();
        let tracepoints = Tracepoints::open()?;
        // Keeps the library from printing: its messages are in the errors.
        libbpf_rs::set_print(None);
        let object = load(&options, &numbers)?;
        for pid in &options.choice.pids {
            add(&object, "pids", &pid.to_ne_bytes())?;
        }
        for number in &numbers {
            add(&object, "groups", &number.to_ne_bytes())?;
        }
        let inbox = Rc::new(RefCell::new(Vec::new()));
        let ring = ring(&object, Rc::clone(&inbox))?;
        let has_accepts = options.has_accepts;
        let links = object
            .progs_mut()
            .filter(|program| has_accepts || !is_of_accept(program))
            .map(|program| tracepoints.attach(&program))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            ring,
            inbox,
            object,
            links,
            meant: Meant::new(options, !numbers.is_empty()),
        })
    }

    /// Processes the available calls, in the order in which they ended on each processor. The
    /// caller pauses between two calls of this function.
    pub fn take(&mut self, mut visit: impl FnMut(SocketCall)) {
        self.consume(&mut visit);
    }

    /// Detaches the programs and processes the remaining calls.
    pub fn finish(mut self, mut visit: impl FnMut(SocketCall)) -> CallTally {
        self.links.clear();
        while self.consume(&mut visit) > 0 {}
        tally(&self.object)
    }

    fn consume(&mut self, mut visit: impl FnMut(SocketCall)) -> usize {
        // After an error, the inbox still contains the calls that were read before it.
        let _ = self.ring.consume_raw_n(BATCH);
        let calls = self.inbox.take();
        let count = calls.len();
        for call in calls {
            self.meant.sift(call, &mut visit);
        }
        count
    }
}

/// Returns true for the programs of `accept` and `accept4`.
fn is_of_accept(program: &ProgramMut<'_>) -> bool {
    program.section().to_string_lossy().contains("_accept")
}

fn check(options: &CallOptions) -> Result<(), KernelError> {
    let choice = &options.choice;
    if !Path::new(TYPES).exists() {
        return Err(KernelError::NoTypes(TYPES.into()));
    }
    if choice.ports.len() > MAX_PORTS {
        return Err(KernelError::TooManyPorts(choice.ports.len()));
    }
    if choice.pids.len() > MAX_PIDS {
        return Err(KernelError::TooManyProcesses(choice.pids.len()));
    }
    let is_gone = |pid: &&u32| !Path::new("/proc").join(pid.to_string()).exists();
    match choice.pids.iter().find(is_gone) {
        Some(&pid) => Err(KernelError::NoProcess(pid)),
        None => Ok(()),
    }
}

fn load(options: &CallOptions, groups: &[u64]) -> Result<Object, KernelError> {
    let mut open = ObjectBuilder::default()
        .open_memory(OBJECT)
        .map_err(|error| refused("reading its own programs", &error))?;
    configure(&mut open, &config(options, groups))?;
    open.load().map_err(|error| refused("the programs", &error))
}

/// Builds `struct call_config` of `bpf/options.h`.
fn config(options: &CallOptions, groups: &[u64]) -> Vec<u8> {
    let choice = &options.choice;
    let mut ports = [0; MAX_PORTS];
    for (place, &port) in ports.iter_mut().zip(&choice.ports) {
        *place = port;
    }
    let count = u32::try_from(choice.ports.len()).unwrap_or_default();
    let mut bytes: Vec<u8> = ports.iter().flat_map(|port| port.to_ne_bytes()).collect();
    bytes.extend(count.to_ne_bytes());
    bytes.push(u8::from(!choice.pids.is_empty()));
    bytes.push(u8::from(!groups.is_empty()));
    bytes
}

fn add(object: &Object, name: &str, key: &[u8]) -> Result<(), KernelError> {
    let map = object.maps().find(|map| map.name() == name);
    let map = map.ok_or_else(|| missing(name))?;
    map.update(key, &[1], MapFlags::ANY)
        .map_err(|error| refused(name, &error))
}

fn missing(what: &str) -> KernelError {
    KernelError::Refused {
        program: format!("its own map `{what}`"),
        source: io::ErrorKind::NotFound.into(),
    }
}

fn ring(
    object: &Object,
    inbox: Rc<RefCell<Vec<SocketCall>>>,
) -> Result<RingBuffer<'static>, KernelError> {
    let records = object.maps().find(|map| map.name() == "records");
    let records = records.ok_or_else(|| missing("records"))?;
    let clock = Clock::new();
    let own = privilege::namespace_id(std::process::id()).ok();
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&records, move |bytes: &[u8]| {
            inbox.borrow_mut().extend(record::read(bytes, &clock, own));
            0
        })
        .map_err(|error| refused("the ring of calls", &error))?;
    builder
        .build()
        .map_err(|error| refused("the ring of calls", &error))
}

/// Sums `struct call_tally` over all processors.
fn tally(object: &Object) -> CallTally {
    let map = object.maps().find(|map| map.name() == "tallies");
    let key = 0u32.to_ne_bytes();
    let values = map.and_then(|map| map.lookup_percpu(&key, MapFlags::ANY).ok().flatten());
    let mut tally = CallTally::default();
    for value in values.unwrap_or_default() {
        let word = |at: usize| {
            let word = value.get(at..at + 8).and_then(|word| word.try_into().ok());
            word.map_or(0, u64::from_ne_bytes)
        };
        tally.calls += word(0);
        tally.lost += word(8);
    }
    tally
}
