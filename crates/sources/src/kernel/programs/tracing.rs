//! The programs that report system calls on sockets (`bpf/options.bpf.c`).

use lagtrace_core::observed::syscall::CallTally;
use libbpf_rs::{Link, MapCore as _, MapFlags, Object, ObjectBuilder, ProgramMut};

use super::object::{configure, refused};
use super::tracepoint::Tracepoints;
use super::{counts, exists, has_types, missing, pid_namespace};
use crate::kernel::request::CallsRequest;
use crate::kernel::{KernelError, MAX_GROUPS, MAX_PIDS, MAX_PORTS};

/// The programs, built from `bpf/options.bpf.c` by `scripts/build-bpf`.
const OBJECT: &[u8] = include_bytes!("../../../bpf/options.bpf.o");

/// The attached programs.
pub(super) struct Tracing {
    object: Object,
    /// Links of the programs. A program is detached when its link is dropped.
    links: Vec<Link>,
}

impl Tracing {
    /// Loads and attaches the programs.
    pub(super) fn start(asked: &CallsRequest) -> Result<Self, KernelError> {
        has_types()?;
        check(asked)?;
        let tracepoints = Tracepoints::open()?;
        // Keeps the library from printing: its messages are in the errors.
        libbpf_rs::set_print(None);
        let object = load(asked)?;
        for pid in &asked.pids {
            add(&object, "pids", &pid.to_ne_bytes())?;
        }
        for number in &asked.groups {
            add(&object, "groups", &number.to_ne_bytes())?;
        }
        let links = object
            .progs_mut()
            .filter(|program| asked.has_accepts || !is_of_accept(program))
            .map(|program| tracepoints.attach(&program))
            .collect::<Result<_, _>>()?;
        Ok(Self { object, links })
    }

    /// Returns the loaded programs with their maps.
    pub(super) fn object(&self) -> &Object {
        &self.object
    }

    /// Leaves out a process, which has ended.
    pub(super) fn forget(&mut self, pid: u32) {
        if let Some(pids) = self.object.maps().find(|map| map.name() == "pids") {
            // Another process is not in the map.
            pids.delete(&pid.to_ne_bytes()).unwrap_or_default();
        }
    }

    /// Detaches the programs.
    pub(super) fn detach(&mut self) {
        self.links.clear();
    }

    /// Returns all counts so far.
    pub(super) fn counts(&self) -> CallTally {
        counts::of_calls(&self.object)
    }
}

/// Returns true for the programs of `accept` and `accept4`.
fn is_of_accept(program: &ProgramMut<'_>) -> bool {
    program.section().to_string_lossy().contains("_accept")
}

fn check(asked: &CallsRequest) -> Result<(), KernelError> {
    if asked.ports.len() > MAX_PORTS {
        return Err(KernelError::TooManyPorts(asked.ports.len()));
    }
    if asked.pids.len() > MAX_PIDS {
        return Err(KernelError::TooManyProcesses(asked.pids.len()));
    }
    if asked.groups.len() > MAX_GROUPS {
        return Err(KernelError::TooManyGroups(asked.groups.len()));
    }
    asked.pids.iter().try_for_each(|&pid| exists(pid))
}

fn load(asked: &CallsRequest) -> Result<Object, KernelError> {
    let mut open = ObjectBuilder::default()
        .open_memory(OBJECT)
        .map_err(|error| refused("reading its own programs", &error))?;
    configure(&mut open, &config(asked))?;
    open.load().map_err(|error| refused("the programs", &error))
}

/// Builds `struct call_config` of `bpf/options.h`.
fn config(asked: &CallsRequest) -> Vec<u8> {
    let mut ports = [0; MAX_PORTS];
    for (place, &port) in ports.iter_mut().zip(&asked.ports) {
        *place = port;
    }
    let count = u32::try_from(asked.ports.len()).unwrap_or_default();
    let mut bytes: Vec<u8> = ports.iter().flat_map(|port| port.to_ne_bytes()).collect();
    bytes.extend(count.to_ne_bytes());
    bytes.push(u8::from(!asked.pids.is_empty()));
    bytes.push(u8::from(!asked.groups.is_empty()));
    bytes.extend([0; 2]);
    bytes.extend(pid_namespace().to_ne_bytes());
    bytes
}

fn add(object: &Object, name: &str, key: &[u8]) -> Result<(), KernelError> {
    let map = object.maps().find(|map| map.name() == name);
    let map = map.ok_or_else(|| missing(name))?;
    map.update(key, &[1], MapFlags::ANY)
        .map_err(|error| refused(name, &error))
}
