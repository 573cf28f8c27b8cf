//! Live sockets, as they were sampled.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CountOf;
use crate::observed::sockets::{Buffers, Holder, LiveOptions, Protocol, TcpInfo, Timer};

/// The latest sample of a socket of this host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LiveSocket {
    /// The protocol.
    pub protocol: Protocol,
    /// The network namespace, by its inode number; `None` for ours.
    pub namespace: Option<u64>,
    /// The kernel's unique number of the socket (`SO_COOKIE`).
    pub cookie: u64,
    /// The state, in the notation of `ss`: `ESTAB`, `LISTEN`.
    pub state: String,
    /// The local address; for a Unix socket its path, or `*`, and its inode.
    pub local: String,
    /// The peer's address: port 0 for a listener; `*` and the peer's inode for a Unix socket.
    pub remote: String,
    /// The processes that hold the socket; empty where no process holds it or we lack the
    /// permission to know.
    pub holders: Vec<Holder>,
    /// The processes that hold the socket's other end, where that end is on this host.
    pub peer: Vec<Holder>,
    /// The control group of the first holder; `None` where no holder is known.
    pub cgroup: Option<String>,
    /// The first characters of the id of the first holder's container.
    pub container: Option<String>,
    /// User id of the socket's creator.
    pub uid: u32,
    /// Bytes not yet read, for UDP including the kernel's overhead; for a listener the connections
    /// not yet accepted.
    pub receive_queue: u32,
    /// Bytes not yet acknowledged, not yet sent (UDP) or not yet read by the peer (Unix); for a
    /// listener the maximum number of connections in its accept queue.
    pub send_queue: u32,
    /// The running timer.
    pub timer: Option<Timer>,
    /// The socket buffers.
    pub buffers: Option<Buffers>,
    /// Name of the congestion control.
    pub congestion: Option<String>,
    /// `tcp_info`.
    pub tcp: Option<TcpInfo>,
    /// The socket options; `None` where they could not be read.
    pub options: Option<LiveOptions>,
    /// Samples in which this host's stack held bytes of the socket back, out of all samples.
    pub holding: CountOf,
    /// Samples in which a listener's accept queue, a UDP socket's receive buffer or a Unix socket's
    /// send buffer was full, out of all samples.
    pub full: CountOf,
    /// Packets dropped at the socket (for a listener, connection attempts) from the first sample to
    /// the last; `None` with a single sample or where the kernel does not count drops.
    pub dropped: Option<u32>,
    /// Remarks on states of the socket that cost time.
    pub remarks: Vec<String>,
}

/// A kernel setting, and its observed effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Limit")]
pub struct KernelLimit {
    /// The name used by `sysctl`, `net.core.somaxconn`.
    pub name: String,
    /// The value, or several separated by a space.
    pub value: String,
    /// The network namespace, by its inode number; `None` for ours.
    pub namespace: Option<u64>,
    /// The observed effect of the limit.
    pub bearing: Bearing,
    /// The evidence for `bearing`; `None` where there is none.
    pub text: Option<String>,
}

/// The observed effect of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Bearing {
    /// Not known: no counter covers it, or there was only one sample.
    Shown,
    /// The limit was not reached.
    Cleared,
    /// The limit was reached.
    Evidence,
}
