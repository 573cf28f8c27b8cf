//! System calls on sockets, reported in real time by the programs in `bpf/options.bpf.c`. No
//! privilege is needed here.

mod record;

use std::fmt;
use std::os::fd::AsFd as _;

use lagtrace_core::observed::syscall::{CallTally, SocketCall};

use super::meant::Meant;
use super::request::{Ask, CallsRequest, Reply, Request};
use super::ring::Ring;
use super::seat::Seat;
use super::{CallOptions, KernelError, MAX_GROUPS, kept};
use crate::clock::Clock;
use crate::privilege;

/// A running trace of calls; dropping this value removes the programs.
pub struct Calls {
    ring: Ring,
    programs: Seat,
    clock: Clock,
    /// The network namespace of this process.
    own: Option<u64>,
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
    /// Loads and attaches the programs in this process.
    ///
    /// # Errors
    /// Returns an error if the process lacks the privileges, the kernel has no type information or
    /// no tracepoints of system calls, or a selected process does not exist.
    pub fn start(options: CallOptions) -> Result<Self, KernelError> {
        Self::start_by(kept::way(), options)
    }

    /// Has the programs loaded and attached by the privileged half that `way` leads to. This
    /// process needs no privilege.
    ///
    /// # Errors
    /// Returns an error if the privileged half refuses or does not answer, or if the records cannot
    /// be read.
    pub fn start_by(mut way: Box<dyn Ask>, options: CallOptions) -> Result<Self, KernelError> {
        let asked = CallsRequest::of(&options);
        let is_grouped = !asked.groups.is_empty();
        let (reply, descriptors) = way.ask(Request::StartCalls(asked))?;
        // From here on, the programs are removed if anything fails.
        let programs = Seat::new(way, Request::EndCalls);
        let (Reply::Tracing { size }, [ring]) = (reply, descriptors.as_slice()) else {
            return Err(KernelError::OutOfTurn);
        };
        Ok(Self {
            ring: Ring::open(ring.as_fd(), size).map_err(KernelError::Unreadable)?,
            programs,
            clock: Clock::new(),
            own: privilege::namespace_id(std::process::id()).ok(),
            meant: Meant::new(options, is_grouped),
        })
    }

    /// Processes the available calls, in the order in which they ended on each processor. The
    /// caller pauses between two calls of this function.
    pub fn take(&mut self, visit: impl FnMut(SocketCall)) {
        self.consume(visit);
    }

    /// Detaches the programs and processes the remaining calls.
    pub fn finish(mut self, mut visit: impl FnMut(SocketCall)) -> CallTally {
        // If the privileged half has ended, the kernel has detached the programs.
        let _ = self.programs.tell(Request::DetachCalls);
        while self.consume(&mut visit) > 0 {}
        match self.programs.ask(Request::CountCalls) {
            Ok(Reply::CallCounts(tally)) => tally,
            _ => CallTally::default(),
        }
    }

    /// Processes the available calls. Returns the number of records.
    fn consume(&mut self, mut visit: impl FnMut(SocketCall)) -> usize {
        let Self {
            ring,
            clock,
            own,
            meant,
            ..
        } = self;
        ring.take(|bytes| {
            if let Some(call) = record::read(bytes, clock, *own) {
                meant.sift(call, &mut visit);
            }
        })
    }
}

impl CallsRequest {
    /// Returns the request for these options. If there are too many cgroups for the kernel, it
    /// selects none, and the calls are selected when they are read. The cgroups of a container can
    /// change between two calls of this function.
    pub fn of(options: &CallOptions) -> Self {
        let choice = &options.choice;
        let groups = choice.groups.as_ref().and_then(|groups| groups.numbers());
        Self {
            ports: choice.ports.clone(),
            pids: choice.pids.clone(),
            groups: groups
                .filter(|numbers| numbers.len() <= MAX_GROUPS)
                .unwrap_or_default(),
            has_accepts: options.has_accepts,
        }
    }
}
