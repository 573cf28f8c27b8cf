//! Observed calls that set up sockets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Tally;
use crate::observed::syscall::SocketKind;

/// The results of tracing system calls on sockets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SocketCalls {
    /// Selected calls that were seen.
    pub calls: u64,
    /// Calls of `calls` that failed.
    pub failed: u64,
    /// Calls that the eBPF program selected, but lost because its buffer was full.
    pub lost: u64,
    /// The settings on the sockets of each service, the most frequent first.
    pub services: Vec<ServiceSetting>,
    /// Sockets one by one, those with the most calls first.
    pub sockets: Vec<CalledSocket>,
    /// Number of sockets that are not listed one by one.
    pub left_out: u64,
}

/// A setting made by one program on the sockets of one service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceSetting {
    /// The program, by its `comm`.
    pub program: String,
    /// The fixed end of the connections: the service's address, preceded by `→` if the program is
    /// the service's client.
    pub service: String,
    /// Sockets with this setting.
    pub sockets: u64,
    /// Number of calls on the socket with the most calls.
    pub most_calls: u64,
    /// The setting.
    pub setting: SocketSetting,
    /// Remarks on the setting.
    pub remarks: Vec<String>,
}

/// A socket and its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalledSocket {
    /// The socket's protocol; `None` where the descriptor was not a socket.
    pub protocol: Option<SocketKind>,
    /// The socket's network namespace, by its inode number; `None` for ours.
    pub namespace: Option<u64>,
    /// The inode, as named by `/proc/PID/fd`.
    pub inode: Option<u64>,
    /// The kernel's unique number of the socket (`SO_COOKIE`), if the kernel had assigned one.
    pub cookie: Option<u64>,
    /// The state, in the notation of `ss`.
    pub state: Option<String>,
    /// The local address.
    pub local: Option<String>,
    /// The peer's address.
    pub remote: Option<String>,
    /// The settings made on the socket.
    pub settings: Vec<SocketSetting>,
}

/// The calls for one setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SocketSetting {
    /// The option, `TCP_NODELAY`, or the call, `listen`.
    pub name: String,
    /// Number of calls.
    pub calls: u64,
    /// Calls that failed.
    pub failed: u64,
    /// The names of the errors of the failed calls.
    pub errors: Vec<String>,
    /// Calls that switched the option on, for options that are on or off.
    pub on: u64,
    /// Calls that switched the option off.
    pub off: u64,
    /// Calls that did not change the value, out of those for which this is known.
    pub unchanged: Tally,
    /// Time of the first call, in nanoseconds since the epoch.
    pub first_at_ns: i64,
    /// Time of the last call, in nanoseconds since the epoch.
    pub last_at_ns: i64,
    /// The values before the first call, for all sockets; empty where they are not known.
    pub before: Vec<String>,
    /// The values after the last call: the kernel's own value where known, otherwise the value that
    /// the call requested.
    pub now: Vec<String>,
    /// The longest time between switching on and switching off.
    pub longest_on_ns: Option<u64>,
    /// The processes that called.
    pub callers: Vec<SocketCaller>,
}

/// A process that made calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SocketCaller {
    /// Process id in the host's own namespace.
    pub pid: u32,
    /// The process's `comm`.
    pub name: String,
    /// Number of calls.
    pub calls: u64,
}
