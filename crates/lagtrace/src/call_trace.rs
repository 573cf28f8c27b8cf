//! The trace of system calls that `diagnose` and `watch` use as evidence: who accepted a connection
//! and which options were set on it.

use std::fmt;
use std::time::Duration;

use lagtrace_core::observed::event::{Event, EventBody, Phase};
use lagtrace_core::observed::syscall::{CallTally, Request, SocketCall};
use lagtrace_sources::kernel::{CallOptions, Calls};
use lagtrace_sources::socket::survey::Choice;

use crate::clock;
use crate::failure::Failure;

/// Maximum time for which observations wait in the kernel until they are taken.
pub(crate) const TAKEN_EVERY: Duration = Duration::from_millis(20);

/// Maximum number of calls that are kept: several for each of the connections that the analysis
/// remembers.
const MOST_CALLS: usize = 1 << 14;

/// A trace that is running, or the reason why there is none.
pub(crate) struct CallTrace {
    calls: Result<Calls, String>,
    kept: Vec<SocketCall>,
}

/// The results of a trace.
#[derive(Default)]
pub(crate) struct Traced {
    pub(crate) calls: Vec<SocketCall>,
    /// Totals of the trace; `None` if nothing was traced.
    pub(crate) tally: Option<CallTally>,
    /// The reason why nothing was traced.
    pub(crate) refusal: Option<String>,
}

impl CallTrace {
    /// Starts the trace of the chosen sockets and processes. A refusal is kept for the end.
    pub(crate) fn start(choice: Choice) -> Self {
        let options = CallOptions {
            choice,
            is_any_kind: true,
            has_accepts: true,
        };
        Self {
            calls: Calls::start(options).map_err(|error| Failure::from(error).to_string()),
            kept: Vec::new(),
        }
    }

    /// Takes the calls that the kernel has reported since the last time.
    pub(crate) fn take(&mut self) {
        let Self { calls, kept } = self;
        if let Ok(calls) = calls {
            calls.take(|call| keep(kept, call));
        }
    }

    /// Ends the trace.
    pub(crate) fn finish(self) -> Traced {
        let Self { calls, mut kept } = self;
        match calls {
            Ok(calls) => {
                let tally = calls.finish(|call| keep(&mut kept, call));
                Traced {
                    calls: kept,
                    tally: Some(tally),
                    refusal: None,
                }
            }
            Err(refusal) => Traced {
                refusal: Some(refusal),
                ..Traced::default()
            },
        }
    }
}

/// Keeps a call that can be evidence. The calls of lagtrace itself say nothing about the service.
fn keep(kept: &mut Vec<SocketCall>, call: SocketCall) {
    let is_evidence = !matches!(call.request, Request::Bind(_) | Request::Shutdown(_));
    if is_evidence && call.caller.pid != std::process::id() && kept.len() < MOST_CALLS {
        kept.push(call);
    }
}

impl Traced {
    /// Returns the calls and the totals as observations.
    pub(crate) fn events(self) -> impl Iterator<Item = Event> {
        let calls = self.calls.into_iter().map(|call| {
            let at = call.at;
            Event::here(at, Phase::Baseline, EventBody::SocketCall(Box::new(call)))
        });
        let tally = self
            .tally
            .map(|tally| Event::here(clock::now(), Phase::Baseline, EventBody::Traced(tally)));
        calls.chain(tally)
    }
}

impl fmt::Debug for CallTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallTrace")
            .field("kept", &self.kept.len())
            .finish_non_exhaustive()
    }
}
