//! Selection of the requested calls.
//!
//! The eBPF programs have already left out most other calls. This module checks the conditions that
//! the programs cannot check: names, full addresses, and the ports of sockets that have no ports
//! yet. Calls on such sockets wait until a later call shows the ports.

use std::collections::{HashMap, VecDeque};
use std::mem;

use lagtrace_core::observed::flow::Endpoint;
use lagtrace_core::observed::syscall::{CalledSocket, SocketCall, SocketKind};

use super::CallOptions;

/// Maximum number of calls that wait for the ports of their socket.
const MAX_WAITING: usize = 4096;
/// Maximum number of processes whose cgroup membership is remembered.
const MAX_MEMBERS: usize = 16_384;

/// A filter for calls, which are passed in one by one.
#[derive(Debug)]
pub(super) struct Meant {
    options: CallOptions,
    /// True if the kernel has already selected the calls by cgroup.
    is_grouped: bool,
    /// Processes and whether they are in a requested cgroup. Only used if the kernel has not
    /// selected the calls by cgroup.
    members: HashMap<u32, bool>,
    /// Calls on sockets without ports, in order of arrival.
    waiting: VecDeque<SocketCall>,
}

/// The result of checking a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    Meant,
    NotMeant,
    /// The socket has no ports yet.
    NotYet,
}

impl Meant {
    /// Creates a filter for these options.
    pub(super) fn new(options: CallOptions, is_grouped: bool) -> Self {
        Self {
            options,
            is_grouped,
            members: HashMap::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Passes the call to `visit` if it was requested. Earlier calls on the same socket, which have
    /// waited for its ports, are passed first.
    pub(super) fn sift(&mut self, call: SocketCall, mut visit: impl FnMut(SocketCall)) {
        if !self.is_by_meant(&call) {
            return;
        }
        match (self.judge(call.socket.as_ref()), &call.socket) {
            (Judgement::Meant, Some(socket)) => {
                self.settle(socket.inode).into_iter().for_each(&mut visit);
                visit(call);
            }
            (Judgement::Meant, None) => visit(call),
            (Judgement::NotMeant, Some(socket)) => drop(self.settle(socket.inode)),
            (Judgement::NotMeant, None) => {}
            (Judgement::NotYet, _) => self.wait(call),
        }
    }

    /// Adds a call to the waiting calls. If there are too many, the oldest is removed, because its
    /// socket has most likely been closed.
    fn wait(&mut self, call: SocketCall) {
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(call);
    }

    /// Removes and returns the waiting calls on a socket.
    fn settle(&mut self, inode: u64) -> Vec<SocketCall> {
        let is_of = |call: &SocketCall| call.socket.as_ref().is_some_and(|of| of.inode == inode);
        if !self.waiting.iter().any(is_of) {
            return Vec::new();
        }
        let all = mem::take(&mut self.waiting);
        let (settled, rest) = all.into_iter().partition::<Vec<_>, _>(is_of);
        self.waiting = rest.into();
        settled
    }

    fn is_by_meant(&mut self, call: &SocketCall) -> bool {
        let names = &self.options.choice.names;
        let is_named = names.is_empty() || names.contains(&call.caller.name);
        is_named && self.is_in_group(call.caller.pid)
    }

    fn is_in_group(&mut self, pid: u32) -> bool {
        let Some(groups) = self.options.choice.groups.as_ref() else {
            return true;
        };
        if self.is_grouped {
            return true;
        }
        if self.members.len() >= MAX_MEMBERS {
            self.members.clear();
        }
        *self
            .members
            .entry(pid)
            .or_insert_with(|| groups.has_now(pid))
    }

    fn judge(&self, socket: Option<&CalledSocket>) -> Judgement {
        let choice = &self.options.choice;
        let has_ends = !choice.ports.is_empty() || !choice.ends.is_empty();
        let Some(socket) = socket else {
            let asks =
                has_ends || choice.listening || choice.is_v6.is_some() || !self.options.is_any_kind;
            return if asks {
                Judgement::NotMeant
            } else {
                Judgement::Meant
            };
        };
        let is_ip = matches!(socket.kind, SocketKind::Tcp | SocketKind::Udp);
        if !self.is_kind(socket.kind) || (has_ends || choice.is_v6.is_some()) && !is_ip {
            return Judgement::NotMeant;
        }
        let ends = [socket.local, socket.remote];
        let is_v6 = socket.local.map_or(socket.is_v6, |end| end.addr.is_ipv6());
        if choice.is_v6.is_some_and(|asked| asked != is_v6) {
            return Judgement::NotMeant;
        }
        let is_fresh = socket.state == "UNCONN";
        if choice.listening && socket.state != "LISTEN" {
            return if is_fresh {
                Judgement::NotYet
            } else {
                Judgement::NotMeant
            };
        }
        if self.are_ends(&ends) {
            Judgement::Meant
        } else if is_fresh && socket.remote.is_none() {
            // A socket that is bound but not connected may still connect to a requested endpoint.
            Judgement::NotYet
        } else {
            Judgement::NotMeant
        }
    }

    fn is_kind(&self, kind: SocketKind) -> bool {
        let asked = self.options.choice.protocols;
        self.options.is_any_kind
            || match kind {
                SocketKind::Tcp => asked.tcp,
                SocketKind::Udp => asked.udp,
                SocketKind::Unix => asked.unix,
                SocketKind::Other => false,
            }
    }

    fn are_ends(&self, ends: &[Option<Endpoint>; 2]) -> bool {
        let choice = &self.options.choice;
        let mut ends = ends.iter().flatten();
        let is_port = |end: &Endpoint| choice.ports.contains(&end.port);
        let is_end = |end: &Endpoint| choice.ends.iter().any(|asked| asked.is(end));
        (choice.ports.is_empty() || ends.clone().any(is_port))
            && (choice.ends.is_empty() || ends.any(is_end))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lagtrace_core::observed::syscall::{Caller, Request};
    use lagtrace_core::observed::time::Timestamp;

    use super::*;
    use crate::socket::survey::{Choice, Protocols};

    fn call(inode: u64, state: &'static str, ports: (u16, u16)) -> SocketCall {
        let end = |port| (port > 0).then(|| Endpoint::new([127, 0, 0, 1].into(), port));
        SocketCall {
            at: Timestamp::from_nanos(0),
            took: Duration::ZERO,
            caller: Caller {
                name: "server".to_owned(),
                ..Caller::default()
            },
            fd: 3,
            request: Request::Listen(5),
            result: 0,
            socket: Some(CalledSocket {
                inode,
                cookie: None,
                namespace: None,
                kind: SocketKind::Tcp,
                is_v6: false,
                is_client: false,
                state: state.to_owned(),
                local: end(ports.0),
                remote: end(ports.1),
            }),
            before: None,
            after: None,
            sent: 0,
        }
    }

    fn sifted(choice: Choice, calls: Vec<SocketCall>) -> Vec<(u64, String)> {
        let mut meant = Meant::new(
            CallOptions {
                choice,
                is_any_kind: false,
                has_accepts: false,
            },
            false,
        );
        let mut seen = Vec::new();
        for call in calls {
            meant.sift(call, |call| {
                seen.extend(call.socket.map(|of| (of.inode, of.state)));
            });
        }
        seen
    }

    #[test]
    fn calls_before_a_socket_has_ports_wait_for_them() {
        let choice = Choice {
            ports: vec![80],
            ..Choice::default()
        };
        let calls = vec![
            call(1, "UNCONN", (0, 0)),
            call(2, "UNCONN", (0, 0)),
            call(1, "LISTEN", (80, 0)),
            call(2, "ESTAB", (4000, 443)),
            call(2, "ESTAB", (4000, 443)),
            call(1, "LISTEN", (80, 0)),
        ];
        let seen = sifted(choice, calls);
        let states = [(1, "UNCONN"), (1, "LISTEN"), (1, "LISTEN")];
        assert_eq!(seen, states.map(|(inode, state)| (inode, state.to_owned())));
    }

    #[test]
    fn listeners_and_names_are_told_from_others() {
        let listening = Choice {
            listening: true,
            ..Choice::default()
        };
        let calls = || vec![call(1, "ESTAB", (80, 9)), call(2, "LISTEN", (80, 0))];
        assert_eq!(sifted(listening, calls()), [(2, "LISTEN".to_owned())]);
        let named = |name: &str| Choice {
            names: vec![name.to_owned()],
            ..Choice::default()
        };
        assert_eq!(sifted(named("server"), calls()).len(), 2);
        assert_eq!(sifted(named("other"), calls()).len(), 0);
        let udp = Choice {
            protocols: Protocols {
                tcp: false,
                udp: true,
                unix: false,
            },
            ..Choice::default()
        };
        assert_eq!(sifted(udp, calls()).len(), 0);
    }

    #[test]
    fn what_waits_is_bounded() {
        let choice = Choice {
            ports: vec![80],
            ..Choice::default()
        };
        let mut meant = Meant::new(
            CallOptions {
                choice,
                is_any_kind: false,
                has_accepts: false,
            },
            false,
        );
        for inode in 0..MAX_WAITING as u64 + 10 {
            meant.sift(call(inode, "UNCONN", (0, 0)), |_| {});
        }
        assert_eq!(meant.waiting.len(), MAX_WAITING);
        let first = meant.waiting.front().and_then(|call| call.socket.as_ref());
        assert_eq!(
            first.map(|socket| socket.inode),
            Some(10),
            "the oldest went"
        );
    }
}
