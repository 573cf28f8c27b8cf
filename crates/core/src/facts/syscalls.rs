//! System calls by which programs set up their TCP connections: who set which option, and whether
//! before the connection's first data.

mod log;
mod program;

use core::time::Duration;
use std::collections::BTreeMap;

use crate::exchange::Side;
use crate::observed::flow::Endpoint;
use crate::observed::syscall::{
    Accepted, CallTally, CalledSocket, Request, SocketCall, SocketKind, SocketOption,
};
use crate::observed::time::Timestamp;
use crate::report::PicturedSocket;
use crate::stats::histogram::Distribution;
use log::CallLog;
pub(crate) use program::CallingProgram;

/// Maximum number of sockets and of listeners that are remembered: the earliest.
const MAX_SOCKETS: usize = 4096;

/// All calls that set up connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    /// Sockets by inode.
    sockets: BTreeMap<u64, CalledHistory>,
    /// Listeners by their address.
    listeners: BTreeMap<Endpoint, Listening>,
    log: CallLog,
    pub(crate) tally: Option<CallTally>,
}

/// A listener.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listening {
    /// The program that accepted or listened last.
    pub(crate) program: CallingProgram,
    /// The options when the program last accepted; `None` before that.
    pub(crate) accepted: Option<Accepted>,
    /// The backlog that `listen` requested and the one that the kernel set.
    pub(crate) listened: Option<(i64, i64)>,
}

/// The calls on one socket.
#[derive(Clone, Debug, Default)]
struct CalledHistory {
    /// The socket's own end and the peer's.
    ends: Option<(Endpoint, Endpoint)>,
    beginning: Option<Beginning>,
    settings: BTreeMap<SocketOption, Setting>,
}

/// The call that opened a connection.
#[derive(Clone, Debug)]
struct Beginning {
    at: Timestamp,
    program: CallingProgram,
    /// `None` for `connect`.
    accepted: Option<Accepted>,
}

/// The calls for one option of one socket.
#[derive(Clone, Debug)]
struct Setting {
    program: CallingProgram,
    /// The first call that switched the option on, and the bytes sent before it.
    first_on: Option<(Timestamp, u64)>,
    on_since: Option<Timestamp>,
    /// The longest time from switching on to switching off.
    longest_on: Option<Duration>,
    /// The value of the last call; 0 switches the option off.
    value: i64,
}

/// The use of one option on the connections of a service.
#[derive(Clone, Debug, Default)]
pub(crate) struct Use {
    /// Connections whose beginning was traced.
    pub(crate) connections: u64,
    /// Connections that had the option from their listener.
    pub(crate) inherited: u64,
    /// Connections on which it was switched on before the first byte was sent.
    pub(crate) early: u64,
    /// Connections on which it was switched on after data had been sent.
    pub(crate) late: u64,
    /// Connections on which it was switched off and not on again.
    pub(crate) cleared: u64,
    /// The program that set the option, or if none did, the one that opened the connections.
    pub(crate) program: CallingProgram,
    /// Time from the connection's beginning to the first call that switched the option on.
    pub(crate) after: Distribution,
    /// The longest time from switching on to switching off.
    pub(crate) longest_on: Option<Duration>,
    /// The smallest value that was set.
    pub(crate) value: Option<i64>,
}

impl Use {
    /// Returns the number of connections with the option before their first data.
    pub(crate) fn in_time(&self) -> u64 {
        self.inherited + self.early
    }

    /// Returns the number of connections that got the option at any time.
    pub(crate) fn set(&self) -> u64 {
        self.inherited + self.early + self.late
    }
}

impl Calls {
    pub(crate) fn add_call(&mut self, call: &SocketCall) {
        let Some(socket) = &call.socket else { return };
        if socket.kind != SocketKind::Tcp {
            return;
        }
        self.log.add_call(call, socket);
        if call.has_failed() {
            return;
        }
        self.listening(call, socket);
        if !self.sockets.contains_key(&socket.inode) && self.sockets.len() >= MAX_SOCKETS {
            return;
        }
        self.sockets
            .entry(socket.inode)
            .or_default()
            .add_call(call, socket);
    }

    fn listening(&mut self, call: &SocketCall, socket: &CalledSocket) {
        let Some(local) = socket.local else { return };
        if !self.listeners.contains_key(&local) && self.listeners.len() >= MAX_SOCKETS {
            return;
        }
        match call.request {
            Request::Listen(_) => {
                let listener = self.listeners.entry(local).or_default();
                listener.program = CallingProgram::from(&call.caller);
                // The kernel takes a negative backlog for a very large one.
                let asked = call.number().map(|asked| asked & i64::from(u32::MAX));
                listener.listened = asked.zip(call.after);
            }
            Request::Accept(accepted) => {
                let listener = self.listeners.entry(local).or_default();
                listener.program = CallingProgram::from(&call.caller);
                listener.accepted = Some(accepted);
            }
            _ => {}
        }
    }

    /// Returns the listener of a service, which may listen on all addresses.
    pub(crate) fn listener(&self, service: Endpoint) -> Option<&Listening> {
        let is_of = |bound: &Endpoint| {
            bound.port == service.port
                && (bound.addr == service.addr || bound.addr.is_unspecified())
        };
        let mut all = self.listeners.iter().filter(|(bound, _)| is_of(bound));
        let first = all
            .clone()
            .find(|(_, listener)| listener.listened.is_some());
        first.or_else(|| all.next()).map(|(_, listener)| listener)
    }

    /// Returns the calls on the sockets of services, to be drawn. `is_service` tells whether an
    /// address is that of a service.
    pub(crate) fn pictured(&self, is_service: impl Fn(&Endpoint) -> bool) -> Vec<PicturedSocket> {
        self.log.pictured(is_service)
    }

    /// Returns the use of an option at one end of a service's connections; `None` if the beginning
    /// of none was traced.
    pub(crate) fn uses(&self, service: Endpoint, side: Side, option: SocketOption) -> Option<Use> {
        let is_of = |history: &&CalledHistory| match (history.ends, side) {
            (Some((own, _)), Side::Server) => own == service,
            (Some((_, peer)), Side::Client) => peer == service,
            (None, _) => false,
        };
        let mut all = Use::default();
        for history in self.sockets.values().filter(is_of) {
            history.add_to(&mut all, option);
        }
        (all.connections > 0).then_some(all)
    }
}

impl CalledHistory {
    fn add_call(&mut self, call: &SocketCall, socket: &CalledSocket) {
        self.ends = socket.local.zip(socket.remote).or(self.ends);
        let begun = |accepted| Beginning {
            at: call.since(),
            program: CallingProgram::from(&call.caller),
            accepted,
        };
        match &call.request {
            Request::Accept(accepted) => {
                // The inode may have been another socket's before.
                self.settings.clear();
                self.beginning = Some(begun(Some(*accepted)));
            }
            Request::Connect(_) => self.beginning = Some(begun(None)),
            Request::SetOption {
                level,
                option,
                value,
            } => {
                let option = SocketOption::of(*level, *option);
                let set = option.and_then(|option| Some((option, option.value(value)?)));
                if let Some((option, value)) = set {
                    self.set(option, value, call);
                }
            }
            Request::Listen(_) | Request::Shutdown(_) | Request::Bind(_) => {}
        }
    }

    fn set(&mut self, option: SocketOption, value: i64, call: &SocketCall) {
        let setting = self.settings.entry(option).or_insert_with(|| Setting {
            program: CallingProgram::from(&call.caller),
            first_on: None,
            on_since: None,
            longest_on: None,
            value: 0,
        });
        if value == 0 {
            let took = setting.on_since.take().map(|since| call.at.since(since));
            setting.longest_on = setting.longest_on.max(took);
        } else {
            setting.first_on = setting.first_on.or(Some((call.at, call.sent)));
            setting.on_since = setting.on_since.or(Some(call.at));
        }
        setting.value = value;
    }

    fn add_to(&self, all: &mut Use, option: SocketOption) {
        let Some(beginning) = &self.beginning else {
            return;
        };
        if all.connections == 0 {
            all.program = beginning.program.clone();
        }
        all.connections += 1;
        let setting = self.settings.get(&option);
        let accepted = beginning.accepted.as_ref();
        let is_inherited = accepted.is_some_and(|accepted| option.is_inherited(accepted));
        let is_cleared = setting.is_some_and(|setting| setting.value == 0);
        all.cleared += u64::from(is_cleared);
        all.inherited += u64::from(is_inherited && !is_cleared);
        let Some(setting) = setting else { return };
        if all.early + all.late == 0 {
            all.program = setting.program.clone();
        }
        all.longest_on = all.longest_on.max(setting.longest_on);
        let Some((at, sent)) = setting.first_on else {
            return;
        };
        all.after.record(at.since(beginning.at));
        let lower = all
            .value
            .map_or(setting.value, |least| least.min(setting.value));
        all.value = Some(lower);
        if is_inherited && !is_cleared {
            return;
        }
        // An option that a program sets for a moment, such as TCP_CORK, counts as set.
        let is_momentary = option == SocketOption::Cork;
        if !is_cleared || is_momentary {
            all.early += u64::from(sent == 0);
            all.late += u64::from(sent > 0);
        }
    }
}

#[cfg(test)]
mod tests;
