//! The calls on sockets one by one, to be drawn.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use super::MAX_SOCKETS;
use crate::observed::flow::Endpoint;
use crate::observed::syscall::SocketOption;
use crate::observed::syscall::{Accepted, CalledSocket, Request, SocketCall};
use crate::observed::time::Timestamp;
use crate::report::{PicturedCall, PicturedSocket};

/// Maximum number of calls that are kept, on all sockets together: the earliest.
const MAX_CALLS: usize = 4096;

/// The calls on sockets, in the order in which the kernel reported them.
#[derive(Clone, Debug, Default)]
pub(super) struct CallLog {
    sockets: Vec<Logged>,
    /// The latest socket of each network namespace and inode.
    latest: BTreeMap<(Option<u64>, u64), usize>,
    /// Number of calls that are kept.
    kept: usize,
}

/// The calls on one socket.
#[derive(Clone, Debug)]
struct Logged {
    local: Option<Endpoint>,
    remote: Option<Endpoint>,
    program: String,
    pid: u32,
    calls: Vec<(Timestamp, PicturedCall)>,
    left_out: u64,
}

impl CallLog {
    pub(super) fn add_call(&mut self, call: &SocketCall, socket: &CalledSocket) {
        let key = (socket.namespace, socket.inode);
        // The inode may have been another socket's before.
        let is_new = matches!(call.request, Request::Accept(_));
        let known = self.latest.get(&key).filter(|_| !is_new).copied();
        let is_full = self.sockets.len() >= MAX_SOCKETS || self.kept >= MAX_CALLS;
        let place = match known {
            Some(place) => place,
            None if is_full => {
                self.latest.remove(&key);
                return;
            }
            None => {
                self.sockets.push(Logged::of(call));
                self.sockets.len() - 1
            }
        };
        self.latest.insert(key, place);
        let Some(logged) = self.sockets.get_mut(place) else {
            return;
        };
        logged.local = socket.local.or(logged.local);
        logged.remote = socket.remote.or(logged.remote);
        if self.kept < MAX_CALLS && logged.calls.len() < PicturedSocket::MAX_CALLS {
            logged.calls.push((call.since(), pictured(call)));
            self.kept += 1;
        } else {
            logged.left_out += 1;
        }
    }

    /// Returns the sockets at an end of a service's connections and the services' listeners, in the
    /// order of their first calls. If there are many, those with the most calls are kept: a socket
    /// that was only opened shows the least. `is_service` tells whether an address is that of a
    /// service.
    pub(super) fn pictured(&self, is_service: impl Fn(&Endpoint) -> bool) -> Vec<PicturedSocket> {
        let is_of_service = |socket: &&Logged| {
            let mut ends = [socket.local, socket.remote].into_iter().flatten();
            ends.any(|end| is_service(&end))
        };
        let mut sockets: Vec<&Logged> = self.sockets.iter().filter(is_of_service).collect();
        sockets.sort_by_key(|socket| socket.start());
        sockets.sort_by_key(|socket| Reverse(socket.calls.len()));
        sockets.truncate(PicturedSocket::MAX);
        sockets.sort_by_key(|socket| socket.start());
        sockets.into_iter().map(Logged::pictured).collect()
    }
}

impl Logged {
    fn of(call: &SocketCall) -> Self {
        Self {
            local: None,
            remote: None,
            program: call.caller.name.clone(),
            pid: call.caller.pid,
            calls: Vec::new(),
            left_out: 0,
        }
    }

    /// Returns the time of the first call.
    fn start(&self) -> Timestamp {
        let times = self.calls.iter().map(|(at, _)| *at);
        times.min().unwrap_or_default()
    }

    fn pictured(&self) -> PicturedSocket {
        let start = self.start();
        let calls = self.calls.iter().map(|(at, call)| PicturedCall {
            at_ns: at.nanos_since(start),
            ..call.clone()
        });
        let mut calls: Vec<PicturedCall> = calls.collect();
        // The processors of a host report their calls separately.
        calls.sort_by_key(|call| call.at_ns);
        let text = |end: Option<Endpoint>| end.map(|end| end.to_string());
        PicturedSocket {
            program: self.program.clone(),
            pid: self.pid,
            local: text(self.local),
            remote: text(self.remote),
            start_ns: start.as_nanos(),
            calls,
            left_out: self.left_out,
        }
    }
}

fn pictured(call: &SocketCall) -> PicturedCall {
    let is_option = matches!(call.request, Request::SetOption { .. });
    let error = || match call.error() {
        Some((name, _)) => name.to_owned(),
        None => format!("errno {}", call.result.unsigned_abs()),
    };
    PicturedCall {
        at_ns: 0,
        call: call.name().to_owned(),
        option: is_option.then(|| call.subject()),
        value: match &call.request {
            Request::Accept(accepted) => inherited(accepted),
            _ => call.value(),
        },
        sent: call.sent,
        error: call.has_failed().then(error),
    }
}

/// Returns the names of the options that an accepted connection has from its listener.
fn inherited(accepted: &Accepted) -> String {
    let options = [
        SocketOption::NoDelay,
        SocketOption::Cork,
        SocketOption::SendBuffer,
        SocketOption::ReceiveBuffer,
    ];
    let passed_on = options.into_iter().filter(|it| it.is_inherited(accepted));
    passed_on
        .map(SocketOption::name)
        .collect::<Vec<_>>()
        .join(", ")
}
