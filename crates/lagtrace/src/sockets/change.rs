//! Changes of sockets between two surveys.

use std::collections::BTreeMap;
use std::fmt::Debug;

use lagtrace_core::observed::sockets::{LiveOptions, LiveSocket};
use lagtrace_core::observed::time::Timestamp;
use serde_json::json;

use crate::clock;
use crate::render::harmless;

/// The identity of a socket throughout its life: its namespace and cookie.
pub(super) type Key = (Option<u64>, u64);

/// Returns the socket's key.
pub(super) fn key(socket: &LiveSocket) -> Key {
    (socket.namespace, socket.cookie)
}

/// A change of a socket.
#[derive(Debug)]
pub(super) struct Change<'a> {
    what: What,
    socket: &'a LiveSocket,
    /// The properties that differ: name, old value, new value.
    details: Vec<(&'static str, String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Opened,
    Closed,
    Changed,
}

/// Returns the changes between two surveys, in the order of sockets.
pub(super) fn between<'a>(
    before: &'a BTreeMap<Key, LiveSocket>,
    now: &'a BTreeMap<Key, LiveSocket>,
) -> Vec<Change<'a>> {
    let plain = |what, socket| Change {
        what,
        socket,
        details: Vec::new(),
    };
    let closed = before.iter().filter(|(key, _)| !now.contains_key(key));
    let mut changes: Vec<Change<'a>> = closed.map(|(_, s)| plain(What::Closed, s)).collect();
    for (key, socket) in now {
        let Some(old) = before.get(key) else {
            changes.push(plain(What::Opened, socket));
            continue;
        };
        let details = details(old, socket);
        if !details.is_empty() {
            changes.push(Change {
                what: What::Changed,
                socket,
                details,
            });
        }
    }
    changes.retain(|change| change.socket.is_chosen);
    changes
}

/// Returns the differences that are worth a line. Values that change with every packet are left
/// out, as are `TCP_QUICKACK` and the segment size, which the kernel changes by itself.
fn details(old: &LiveSocket, new: &LiveSocket) -> Vec<(&'static str, String, String)> {
    let mut list = Vec::new();
    note(&mut list, "state", &old.state, &new.state);
    let of = |socket: &LiveSocket| socket.options.unwrap_or_default();
    if old.options.is_some() && new.options.is_some() {
        options(&mut list, &of(old), &of(new));
    }
    note(&mut list, "congestion", &old.congestion, &new.congestion);
    if let (Some(old), Some(new)) = (old.buffers, new.buffers) {
        note(&mut list, "drops", &old.drops, &new.drops);
    }
    if new.state == "LISTEN" {
        note(
            &mut list,
            "backlog",
            &old.queues.receive,
            &new.queues.receive,
        );
    }
    if let (Some(old), Some(new)) = (old.tcp, new.tcp) {
        note(
            &mut list,
            "retransmitted",
            &old.total_retrans,
            &new.total_retrans,
        );
        note(&mut list, "recovery", &old.recovery, &new.recovery);
    }
    let holders = |socket: &LiveSocket| holders(socket);
    note(&mut list, "holders", &holders(old), &holders(new));
    list
}

fn options(list: &mut Vec<(&'static str, String, String)>, old: &LiveOptions, new: &LiveOptions) {
    note(list, "TCP_NODELAY", &old.nodelay, &new.nodelay);
    note(list, "TCP_CORK", &old.cork, &new.cork);
    note(list, "SO_KEEPALIVE", &old.keepalive, &new.keepalive);
    note(
        list,
        "TCP_KEEPIDLE",
        &old.keepalive_idle_ns,
        &new.keepalive_idle_ns,
    );
    note(
        list,
        "TCP_USER_TIMEOUT",
        &old.user_timeout_ns,
        &new.user_timeout_ns,
    );
    note(
        list,
        "SO_SNDBUF set",
        &old.is_send_buffer_set,
        &new.is_send_buffer_set,
    );
    note(
        list,
        "SO_RCVBUF set",
        &old.is_receive_buffer_set,
        &new.is_receive_buffer_set,
    );
    note(
        list,
        "TCP_DEFER_ACCEPT",
        &old.defer_accept_ns,
        &new.defer_accept_ns,
    );
    note(
        list,
        "TCP_NOTSENT_LOWAT",
        &old.notsent_lowat,
        &new.notsent_lowat,
    );
    note(
        list,
        "SO_TIMESTAMPING",
        &old.timestamping,
        &new.timestamping,
    );
}

fn note<T: PartialEq + Debug>(
    list: &mut Vec<(&'static str, String, String)>,
    name: &'static str,
    old: &T,
    new: &T,
) {
    if old != new {
        list.push((name, written(old), written(new)));
    }
}

/// Formats a value, without `Some` for a value that may be unreadable.
fn written(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    let text = text
        .strip_prefix("Some(")
        .and_then(|t| t.strip_suffix(')'))
        .unwrap_or(&text);
    match text {
        "true" => "1".to_owned(),
        "false" => "0".to_owned(),
        "None" => "unknown".to_owned(),
        other => other.trim_matches('"').to_owned(),
    }
}

fn holders(socket: &LiveSocket) -> String {
    let list = socket.owner.holders.iter();
    let list = list.map(|holder| format!("{}[{}]", harmless(&holder.name), holder.pid));
    list.collect::<Vec<_>>().join(" ")
}

impl Change<'_> {
    /// Returns the line for people.
    pub(super) fn text(&self, at: Timestamp) -> String {
        let sign = match self.what {
            What::Opened => '+',
            What::Closed => '-',
            What::Changed => '~',
        };
        let LiveSocket { state, ends, .. } = self.socket;
        let [local, remote] = [ends.local(), ends.remote()].map(|end| harmless(&end));
        let details = self.details.iter();
        let details = details.map(|(name, old, new)| format!("{name} {old} → {new}"));
        let details = details.collect::<Vec<_>>().join(", ");
        let time = clock::started(Some(at.as_nanos()));
        let line = format!(
            "{time} {sign} {state} {local} {remote} {} {details}",
            holders(self.socket)
        );
        line.trim_end().to_owned()
    }

    /// Returns the line for programs.
    pub(super) fn json(&self, at: Timestamp) -> String {
        let what = match self.what {
            What::Opened => "opened",
            What::Closed => "closed",
            What::Changed => "changed",
        };
        let details = self.details.iter();
        let details: serde_json::Map<_, _> = details
            .map(|(name, old, new)| ((*name).to_owned(), json!([old, new])))
            .collect();
        json!({
            "type": "socket-change",
            "at": clock::started(Some(at.as_nanos())),
            "what": what,
            "namespace": self.socket.namespace,
            "cookie": self.socket.cookie,
            "state": self.socket.state,
            "protocol": self.socket.protocol,
            "local": self.socket.ends.local(),
            "remote": self.socket.ends.remote(),
            "holders": self.socket.owner.holders,
            "changes": details,
        })
        .to_string()
    }
}
