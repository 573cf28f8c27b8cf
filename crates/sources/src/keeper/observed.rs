//! The limits of eBPF programs: the connections and system calls that they may observe for the
//! worker.

use super::servers::Servers;
use crate::kernel::{CallOptions, CallsRequest, Request, WatchOptions, WatchRequest};
use crate::socket::cgroup::{Group, Groups};
use crate::socket::survey::Choice;

/// The connections and system calls that eBPF programs may observe for the worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Observed {
    /// Nothing.
    #[default]
    Nothing,
    /// Connections and system calls that the command line names.
    Named {
        /// The connections that may be watched. Their network namespace is that of the scope.
        watch: Option<Box<WatchOptions>>,
        /// The system calls that may be reported.
        calls: Option<ObservedCalls>,
    },
    /// The servers of the named ports, once the keeper has found them: the times of requests
    /// without any payload, and the system calls on the ports' sockets.
    Servers,
}

/// The sockets and processes whose system calls may be reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedCalls {
    /// Ports of the sockets; if empty, all ports.
    pub ports: Vec<u16>,
    /// The calling processes; if empty, all processes.
    pub pids: Vec<u32>,
    /// The control groups of the calling processes; if empty, all groups.
    pub groups: Vec<Group>,
    /// True if accepted connections may be reported too.
    pub has_accepts: bool,
}

impl Observed {
    /// Returns true if a request observes no more than this. `is_place` tells whether a watch of a
    /// network namespace is one of the namespace that the command line names, if it names one.
    pub(super) fn allows(
        &self,
        request: &Request,
        servers: &Servers,
        is_place: impl Fn(Option<u32>) -> bool,
    ) -> bool {
        match (self, request) {
            (Self::Nothing, _) => false,
            (Self::Servers, Request::StartWatch(asked)) => servers.are_watched(asked),
            (Self::Servers, Request::StartCalls(asked)) => servers.are_traced(asked),
            (Self::Named { watch, .. }, Request::StartWatch(asked)) => {
                let is_named = |named: &WatchOptions| is_watch(asked, named);
                watch.as_deref().is_some_and(is_named) && is_place(asked.namespace)
            }
            (Self::Named { calls, .. }, Request::StartCalls(asked)) => {
                calls.as_ref().is_some_and(|named| are_calls(asked, named))
            }
            // These concern what an allowed request has started.
            (
                Self::Named { .. } | Self::Servers,
                Request::Sample(_)
                | Request::DetachWatch
                | Request::CountWatch
                | Request::EndWatch
                | Request::DetachCalls
                | Request::CountCalls
                | Request::EndCalls,
            ) => true,
        }
    }
}

/// Returns true if a watch is the named one, in any network namespace.
fn is_watch(asked: &WatchRequest, named: &WatchOptions) -> bool {
    let Ok(named) = WatchRequest::of(named) else {
        return false;
    };
    let meant = WatchRequest {
        namespace: asked.namespace,
        keeps_payload: asked.keeps_payload && named.keeps_payload,
        // These leave the choice of connections as it is.
        slow_from: asked.slow_from,
        without: asked.without,
        ..named
    };
    *asked == meant
}

/// Returns true if a trace of calls is the named one.
fn are_calls(asked: &CallsRequest, named: &ObservedCalls) -> bool {
    asked.ports == named.ports
        && asked.pids == named.pids
        && (named.has_accepts || !asked.has_accepts)
        && are_groups(&asked.groups, &named.groups)
}

/// Returns true if these are the numbers of named groups.
fn are_groups(asked: &[u64], named: &[Group]) -> bool {
    if named.is_empty() {
        return asked.is_empty();
    }
    let Ok(groups) = Groups::find(named) else {
        return false;
    };
    let choice = Choice {
        groups: Some(groups),
        ..Choice::default()
    };
    let meant = CallsRequest::of(&CallOptions {
        choice,
        ..CallOptions::default()
    });
    // Of some groups the kernel knows no number, or it would be too many: the calls of all
    // processes are reported then, and the worker selects.
    asked.is_empty() == meant.groups.is_empty()
        && asked.iter().all(|number| meant.groups.contains(number))
}
