//! Calls that set up sockets, as they were seen.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Tally;
use crate::observed::syscall::SocketKind;

/// What tracing the calls came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SocketCalls {
    /// Calls that were asked for and seen.
    pub calls: u64,
    /// Of those, the ones that failed.
    pub failed: u64,
    /// Calls lost for want of room, of all that the kernel's part chose.
    pub lost: u64,
    /// What was set on the sockets of each service, the most often first.
    pub services: Vec<ServiceSetting>,
    /// Sockets one by one, those with the most calls first.
    pub sockets: Vec<CalledSocket>,
    /// Sockets that are not listed one by one.
    pub left_out: u64,
}

/// One thing that one program set on the sockets of one service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceSetting {
    /// The program, by its `comm`.
    pub program: String,
    /// The end of the connections that stays: the service's address, with `→`
    /// before it where the program is its client.
    pub service: String,
    /// Sockets that it was set on.
    pub sockets: u64,
    /// Calls on the socket with the most of them.
    pub most_calls: u64,
    /// What was set.
    pub setting: SocketSetting,
    /// What is worth knowing of it.
    pub remarks: Vec<String>,
}

/// A socket and what was set on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalledSocket {
    /// What it speaks; `None` where the descriptor was no socket's.
    pub protocol: Option<SocketKind>,
    /// The network namespace it lives in, by its inode number; `None` for ours.
    pub namespace: Option<u64>,
    /// Its inode, as `/proc/PID/fd` names it.
    pub inode: Option<u64>,
    /// The kernel's number for it and no other (`SO_COOKIE`), if it had given one.
    pub cookie: Option<u64>,
    /// Its state as `ss` writes it.
    pub state: Option<String>,
    /// Its own address.
    pub local: Option<String>,
    /// Its peer's.
    pub remote: Option<String>,
    /// What was set on it.
    pub settings: Vec<SocketSetting>,
}

/// One thing that was set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SocketSetting {
    /// The option, `TCP_NODELAY`, or the call, `listen`.
    pub name: String,
    /// Calls.
    pub calls: u64,
    /// Of those, the ones that failed, and their errors by name.
    pub failed: u64,
    /// Those errors.
    pub errors: Vec<String>,
    /// Times that it was switched on, for what is on or off.
    pub on: u64,
    /// Times that it was switched off.
    pub off: u64,
    /// Times that it stood so already, where that could be seen.
    pub unchanged: Tally,
    /// When it was set first, in nanoseconds since the epoch.
    pub first_at_ns: i64,
    /// When it was set last.
    pub last_at_ns: i64,
    /// What it was before the first call, on each socket; empty where that is
    /// not known.
    pub before: Vec<String>,
    /// What it was after the last one: the kernel's own value where that is
    /// known, else what was asked for.
    pub now: Vec<String>,
    /// The longest time from being switched on to being switched off.
    pub longest_on_ns: Option<u64>,
    /// Who called.
    pub callers: Vec<SocketCaller>,
}

/// A process that called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SocketCaller {
    /// Process id in the host's own namespace.
    pub pid: u32,
    /// Its `comm`.
    pub name: String,
    /// Its calls.
    pub calls: u64,
}
