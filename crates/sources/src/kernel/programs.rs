//! The privileged half: loads and attaches the eBPF programs, holds them, and reads their counts.
//!
//! It does only what a [`Request`] says, checks each request, and reads no record. It needs
//! CAP_BPF and CAP_PERFMON, and for system calls CAP_SYS_ADMIN.

mod counts;
mod object;
mod settings;
mod tracepoint;
mod tracing;
mod watching;

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use libbpf_rs::{MapCore as _, Object};

use self::tracing::Tracing;
use self::watching::Watching;
use super::KernelError;
use super::request::{Answer, Ask, CallsRequest, Reply, Request, WatchRequest};
use crate::open_files::make_room;

/// Inode number of the initial PID namespace (`PROC_PID_INIT_INO` in `linux/proc_ns.h`).
const FIRST_PID_NAMESPACE: u32 = 0xeffffffc;
/// Number of files that a watch, or a trace of calls, may need: two for each program, one for each
/// map, and some while the programs are loaded.
const MOST_FILES: usize = 80;
/// The file with the kernel's type information (BTF).
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// The programs running in the kernel: of at most one watch and one trace of system calls. Dropping
/// this value removes them.
#[derive(Default)]
pub struct Programs {
    watching: Option<Watching>,
    tracing: Option<Tracing>,
}

impl fmt::Debug for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Programs")
            .field("is_watching", &self.watching.is_some())
            .field("is_tracing", &self.tracing.is_some())
            .finish()
    }
}

impl Programs {
    /// Carries out a request.
    ///
    /// # Errors
    /// Returns an error if the request is not valid or does not fit what runs, if the process lacks
    /// the privileges, or if the kernel rejects a program that is needed.
    pub fn serve(&mut self, request: Request) -> Answer {
        match request {
            Request::StartWatch(asked) => return self.start_watch(&asked),
            Request::StartCalls(asked) => return self.start_calls(&asked),
            Request::CountWatch => return alone(Reply::WatchCounts(self.watching()?.counts())),
            Request::CountCalls => return alone(Reply::CallCounts(self.tracing()?.counts())),
            Request::Sample(sample) => self.watching()?.sample(sample)?,
            Request::DetachWatch => self.watching()?.detach(),
            Request::DetachCalls => self.tracing()?.detach(),
            Request::EndWatch => self.watching = None,
            Request::EndCalls => self.tracing = None,
        }
        alone(Reply::Done)
    }

    /// Ends what concerns a process that has ended: another one can get its number.
    pub fn forget(&mut self, pid: u32) {
        if let Some(watching) = &mut self.watching {
            watching.forget(pid);
        }
        if let Some(tracing) = &mut self.tracing {
            tracing.forget(pid);
        }
    }

    fn start_watch(&mut self, asked: &WatchRequest) -> Answer {
        if self.watching.is_some() {
            return Err(KernelError::OutOfTurn);
        }
        make_room(MOST_FILES)?;
        let watching = Watching::start(asked)?;
        let (size, ring) = ring(watching.object())?;
        let lacking = watching.lacking();
        self.watching = Some(watching);
        Ok((Reply::Watching { lacking, size }, vec![ring]))
    }

    fn start_calls(&mut self, asked: &CallsRequest) -> Answer {
        if self.tracing.is_some() {
            return Err(KernelError::OutOfTurn);
        }
        make_room(MOST_FILES)?;
        let tracing = Tracing::start(asked)?;
        let (size, ring) = ring(tracing.object())?;
        self.tracing = Some(tracing);
        Ok((Reply::Tracing { size }, vec![ring]))
    }

    fn watching(&mut self) -> Result<&mut Watching, KernelError> {
        self.watching.as_mut().ok_or(KernelError::OutOfTurn)
    }

    fn tracing(&mut self) -> Result<&mut Tracing, KernelError> {
        self.tracing.as_mut().ok_or(KernelError::OutOfTurn)
    }
}

/// The privileged half in the same process.
impl Ask for Programs {
    fn ask(&mut self, request: Request) -> Answer {
        self.serve(request)
    }
}

/// Returns an answer without a descriptor.
fn alone(reply: Reply) -> Answer {
    Ok((reply, Vec::new()))
}

/// Returns the size of the ring of records, and a descriptor of it.
fn ring(object: &Object) -> Result<(u32, OwnedFd), KernelError> {
    let map = object.maps().find(|map| map.name() == "records");
    let map = map.ok_or_else(|| missing("records"))?;
    let ring = map.as_fd().try_clone_to_owned();
    let ring = ring.map_err(|source| KernelError::Refused {
        program: "the ring of records".to_owned(),
        source,
    })?;
    Ok((map.max_entries(), ring))
}

fn missing(what: &str) -> KernelError {
    KernelError::Refused {
        program: format!("its own map `{what}`"),
        source: io::ErrorKind::NotFound.into(),
    }
}

/// Checks that the kernel has type information.
fn has_types() -> Result<(), KernelError> {
    if Path::new(TYPES).exists() {
        Ok(())
    } else {
        Err(KernelError::NoTypes(TYPES.into()))
    }
}

/// Returns the inode number of this process's PID namespace; 0 for the initial one, whose numbers the
/// kernel itself uses, and if it is not known.
fn pid_namespace() -> u32 {
    let about = fs::metadata("/proc/self/ns/pid");
    let number = about.ok().and_then(|about| u32::try_from(about.ino()).ok());
    number
        .filter(|&number| number != FIRST_PID_NAMESPACE)
        .unwrap_or_default()
}

/// Checks that a process exists.
fn exists(pid: u32) -> Result<(), KernelError> {
    if Path::new("/proc").join(pid.to_string()).exists() {
        Ok(())
    } else {
        Err(KernelError::NoProcess(pid))
    }
}
