//! Calls that set up sockets, folded by socket; and by service, for sockets that are no longer
//! remembered one by one.

use std::collections::{BTreeMap, BTreeSet};

use core::time::Duration;

use crate::observed::syscall::{CallTally, CalledSocket, SocketCall, SocketKind};
use crate::observed::time::Timestamp;
use crate::report::Tally;

/// Maximum number of sockets remembered one by one: those with the most recent calls.
const MAX_SOCKETS: usize = 4096;
/// Maximum number of settings remembered for one socket.
const MAX_SETTINGS: usize = 64;
/// Maximum number of settings remembered for the sockets of services.
const MAX_GROUPS: usize = 1024;
/// Maximum number of callers and values remembered for each setting.
const MAX_NAMED: usize = 8;

/// The key of a socket: its inode, and for descriptors that are not sockets the process.
type SocketKey = (u64, u32);
/// The key of a service's setting: program, place and setting.
pub(crate) type GroupKey = (String, String, String);

/// All system calls on sockets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    pub(crate) sockets: BTreeMap<SocketKey, CalledHistory>,
    /// The sockets ordered by their latest call.
    order: BTreeMap<u64, SocketKey>,
    /// Settings of sockets that are no longer remembered.
    folded: BTreeMap<GroupKey, GroupHistory>,
    pub(crate) forgotten: u64,
    pub(crate) calls: u64,
    pub(crate) failed: u64,
    pub(crate) tally: Option<CallTally>,
}

/// The calls on one socket.
#[derive(Clone, Debug)]
pub(crate) struct CalledHistory {
    /// The socket after the latest call; `None` for descriptors that are not sockets.
    pub(crate) socket: Option<CalledSocket>,
    /// Name of the first program that called.
    pub(crate) program: String,
    pub(crate) calls: u64,
    pub(crate) settings: BTreeMap<String, Setting>,
    /// Number of the latest call.
    last: u64,
}

/// Settings of the sockets of one service.
#[derive(Clone, Debug)]
pub(crate) struct GroupHistory {
    pub(crate) sockets: u64,
    /// Number of calls on the socket that had the most.
    pub(crate) most_calls: u64,
    pub(crate) setting: Setting,
}

/// A setting, made any number of times.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) calls: u64,
    pub(crate) failed: u64,
    /// Number of calls that set a value other than 0, and number of calls that set 0.
    pub(crate) on: u64,
    pub(crate) off: u64,
    /// Number of calls whose value was set already, out of the calls for which that is known.
    pub(crate) unchanged: Tally,
    pub(crate) first_at: Timestamp,
    pub(crate) last_at: Timestamp,
    /// Values before the first call on each socket, where known.
    pub(crate) before: BTreeSet<String>,
    /// Values after the last call.
    pub(crate) now: BTreeSet<String>,
    pub(crate) errors: BTreeSet<&'static str>,
    /// Number of calls by name and process.
    pub(crate) callers: BTreeMap<(String, u32), u64>,
    /// The longest time from a call that set the option to a call that cleared it.
    pub(crate) longest_on: Option<Duration>,
    on_since: Option<Timestamp>,
    /// The value requested and the value in effect, where the kernel granted less.
    pub(crate) cut: Option<(i64, i64)>,
}

impl Calls {
    pub(crate) fn add_call(&mut self, call: &SocketCall) {
        self.calls += 1;
        self.failed += u64::from(call.has_failed());
        let inode = call.socket.as_ref().map_or(0, |socket| socket.inode);
        let key = (inode, if inode == 0 { call.caller.pid } else { 0 });
        let history = self.sockets.entry(key).or_insert_with(|| CalledHistory {
            socket: None,
            program: call.caller.name.clone(),
            calls: 0,
            settings: BTreeMap::new(),
            last: 0,
        });
        self.order.remove(&history.last);
        history.last = self.calls;
        self.order.insert(self.calls, key);
        history.add_call(call);
        if self.sockets.len() > MAX_SOCKETS {
            self.forget();
        }
    }

    /// Folds the socket whose latest call is the oldest.
    fn forget(&mut self) {
        let oldest = self.order.pop_first();
        if let Some(history) = oldest.and_then(|(_, key)| self.sockets.remove(&key)) {
            self.forgotten += 1;
            fold(&mut self.folded, &history);
        }
    }

    /// Returns the settings by program and place, over all sockets.
    pub(crate) fn groups(&self) -> BTreeMap<GroupKey, GroupHistory> {
        let mut groups = self.folded.clone();
        for history in self.sockets.values() {
            fold(&mut groups, history);
        }
        groups
    }
}

fn fold(groups: &mut BTreeMap<GroupKey, GroupHistory>, history: &CalledHistory) {
    for (what, setting) in &history.settings {
        let key = (history.program.clone(), history.place(), what.clone());
        if let Some(group) = groups.get_mut(&key) {
            group.sockets += 1;
            group.most_calls = group.most_calls.max(setting.calls);
            group.setting.add(setting);
        } else if groups.len() < MAX_GROUPS {
            let group = GroupHistory {
                sockets: 1,
                most_calls: setting.calls,
                setting: setting.clone(),
            };
            groups.insert(key, group);
        }
    }
}

impl CalledHistory {
    fn add_call(&mut self, call: &SocketCall) {
        self.calls += 1;
        // A closed socket no longer has addresses.
        if let Some(socket) = &call.socket
            && (socket.local.is_some() || self.socket.is_none())
        {
            self.socket = Some(socket.clone());
        }
        let what = call.subject();
        if let Some(setting) = self.settings.get_mut(&what) {
            setting.add_call(call);
        } else if self.settings.len() < MAX_SETTINGS {
            let mut setting = Setting::new(call);
            setting.add_call(call);
            self.settings.insert(what, setting);
        }
    }

    /// Returns the service that the socket belongs to, by the end that is the same for all
    /// connections.
    fn place(&self) -> String {
        let Some(socket) = &self.socket else {
            return "no socket".to_owned();
        };
        match (socket.local, socket.remote) {
            (_, Some(remote)) if socket.is_client => format!("→ {remote}"),
            // Only TCP clients can be identified; the service's port is the lower one.
            (Some(local), Some(remote))
                if local.port > remote.port && socket.kind != SocketKind::Tcp =>
            {
                format!("→ {remote}")
            }
            (Some(local), _) if socket.state == "LISTEN" => format!("listener {local}"),
            (Some(local), Some(_)) => local.to_string(),
            (Some(local), None) => format!("{local}, not connected"),
            (None, _) => format!("{}, without an address", socket.kind_name()),
        }
    }
}

impl Setting {
    fn new(call: &SocketCall) -> Self {
        Self {
            calls: 0,
            failed: 0,
            on: 0,
            off: 0,
            unchanged: Tally::default(),
            first_at: call.at,
            last_at: call.at,
            before: call
                .before
                .map(|value| value.to_string())
                .into_iter()
                .collect(),
            now: BTreeSet::new(),
            errors: BTreeSet::new(),
            callers: BTreeMap::new(),
            longest_on: None,
            on_since: None,
            cut: None,
        }
    }

    fn add_call(&mut self, call: &SocketCall) {
        self.calls += 1;
        self.last_at = self.last_at.max(call.at);
        name(&mut self.callers, (&call.caller.name, call.caller.pid), 1);
        if call.has_failed() {
            self.failed += 1;
            if self.errors.len() < MAX_NAMED {
                self.errors.extend(call.error().map(|(name, _)| name));
            }
            return;
        }
        if let Some(is_so) = call.stood_so() {
            self.unchanged.of += 1;
            self.unchanged.count += u64::from(is_so);
        }
        let now = call.after.map(|value| value.to_string());
        let asked = || call.value().trim_matches(['[', ']']).to_owned();
        self.now = BTreeSet::from([now.unwrap_or_else(asked)]);
        self.cut = call.cut().or(self.cut);
        match call.switched() {
            Some(false) => {
                self.off += 1;
                let took = self.on_since.take().map(|since| call.at.since(since));
                self.longest_on = self.longest_on.max(took);
            }
            Some(true) => {
                self.on += 1;
                self.on_since = self.on_since.or(Some(call.at));
            }
            None => {}
        }
    }

    /// Adds the settings made on another socket.
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.failed += other.failed;
        self.on += other.on;
        self.off += other.off;
        self.unchanged.count += other.unchanged.count;
        self.unchanged.of += other.unchanged.of;
        self.first_at = self.first_at.min(other.first_at);
        self.last_at = self.last_at.max(other.last_at);
        extend(&mut self.before, &other.before);
        extend(&mut self.now, &other.now);
        self.errors.extend(&other.errors);
        for ((caller, pid), calls) in &other.callers {
            name(&mut self.callers, (caller, *pid), *calls);
        }
        self.longest_on = self.longest_on.max(other.longest_on);
        self.cut = self.cut.or(other.cut);
    }
}

fn name(callers: &mut BTreeMap<(String, u32), u64>, (name, pid): (&str, u32), calls: u64) {
    let key = (name.to_owned(), pid);
    if callers.len() < MAX_NAMED || callers.contains_key(&key) {
        *callers.entry(key).or_default() += calls;
    }
}

fn extend(values: &mut BTreeSet<String>, others: &BTreeSet<String>) {
    for value in others {
        if values.len() < MAX_NAMED {
            values.insert(value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::flow::Endpoint;
    use crate::observed::syscall::{Argument, Caller, Request};

    /// A call that sets `TCP_CORK` to `value` on socket `inode` at `at` microseconds.
    fn cork(inode: u64, at: i64, value: i32) -> SocketCall {
        let end = |port| Some(Endpoint::new([127, 0, 0, 1].into(), port));
        SocketCall {
            at: Timestamp::from_nanos(at * 1000),
            took: Duration::ZERO,
            caller: Caller {
                pid: 7,
                tid: 7,
                name: "server".to_owned(),
                thread: "server".to_owned(),
            },
            fd: 3,
            request: Request::SetOption {
                level: 6,
                option: 3,
                value: Argument {
                    pointer: 1,
                    len: 4,
                    bytes: value.to_ne_bytes().to_vec(),
                    ..Argument::default()
                },
            },
            result: 0,
            socket: Some(CalledSocket {
                inode,
                cookie: None,
                namespace: None,
                kind: SocketKind::Tcp,
                is_v6: false,
                is_client: false,
                state: "ESTAB",
                local: end(80),
                remote: end(5000),
            }),
            before: Some(i64::from(value == 0)),
            after: Some(i64::from(value != 0)),
        }
    }

    #[test]
    fn what_is_set_and_cleared_is_counted_with_the_longest_time_between() {
        let mut calls = Calls::default();
        for (at, value) in [(0, 1), (50, 0), (100, 1), (300, 0), (400, 1)] {
            calls.add_call(&cork(1, at, value));
        }
        let groups = calls.groups();
        let (key, group) = groups.first_key_value().expect("one");
        assert_eq!(key.1, "127.0.0.1:80");
        let setting = &group.setting;
        assert_eq!((setting.on, setting.off), (3, 2));
        assert_eq!(setting.longest_on, Some(Duration::from_micros(200)));
        assert_eq!(setting.before, BTreeSet::from(["0".to_owned()]));
        assert_eq!(setting.now, BTreeSet::from(["1".to_owned()]));
        assert_eq!(setting.unchanged, Tally { count: 0, of: 5 });
    }

    #[test]
    fn sockets_are_forgotten_and_their_services_are_not() {
        let mut calls = Calls::default();
        let all = MAX_SOCKETS as u64 * 2;
        for inode in 1..=all {
            calls.add_call(&cork(inode, 0, 1));
            // Repeated calls on one socket keep it remembered.
            calls.add_call(&cork(1, 0, 0));
        }
        assert_eq!(calls.sockets.len(), MAX_SOCKETS);
        assert_eq!(calls.order.len(), MAX_SOCKETS);
        assert_eq!(calls.forgotten, all - MAX_SOCKETS as u64);
        assert!(calls.sockets.contains_key(&(1, 0)));
        let groups = calls.groups();
        assert_eq!(groups.len(), 1);
        let group = groups.values().next().expect("one");
        assert_eq!((group.sockets, group.setting.calls), (all, all * 2));
        assert_eq!(group.most_calls, all + 1);
    }

    #[test]
    fn a_failed_call_changes_nothing() {
        let mut calls = Calls::default();
        calls.add_call(&cork(1, 0, 1));
        calls.add_call(&SocketCall {
            result: -92,
            ..cork(1, 10, 0)
        });
        let groups = calls.groups();
        let setting = &groups.values().next().expect("one").setting;
        assert_eq!((setting.on, setting.off, setting.failed), (1, 0, 1));
        assert_eq!(setting.now, BTreeSet::from(["1".to_owned()]));
        assert_eq!(setting.errors, BTreeSet::from(["ENOPROTOOPT"]));
    }
}
