//! Sockets as they were seen live.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Tally;
use crate::observed::sockets::{Buffers, Holder, LiveOptions, Protocol, TcpInfo, Timer};

/// A socket of this host when it was looked at last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LiveSocket {
    /// What it speaks.
    pub protocol: Protocol,
    /// The network namespace it lives in, by its inode number; `None` for ours.
    pub namespace: Option<u64>,
    /// The kernel's number for it and no other (`SO_COOKIE`).
    pub cookie: u64,
    /// Its state as `ss` writes it: `ESTAB`, `LISTEN`.
    pub state: String,
    /// Its own address; for a Unix socket its path, or `*`, and its inode.
    pub local: String,
    /// Its peer's; port 0 for a listener, `*` and its inode for a Unix socket.
    pub remote: String,
    /// Who holds it; empty where nobody does or we may not know.
    pub holders: Vec<Holder>,
    /// Who holds its other end, where that is on this host.
    pub peer: Vec<Holder>,
    /// The control group of its first holder; `None` where nobody is known.
    pub cgroup: Option<String>,
    /// The beginning of the id of the container that it is in.
    pub container: Option<String>,
    /// User id of its creator.
    pub uid: u32,
    /// Bytes not yet read, for UDP with what the kernel spends on them; for a
    /// listener the connections not yet accepted.
    pub receive_queue: u32,
    /// Bytes not yet acknowledged, not yet sent (UDP) or not yet read by the
    /// peer (Unix); for a listener the most that may wait.
    pub send_queue: u32,
    /// The timer that runs.
    pub timer: Option<Timer>,
    /// Its buffers.
    pub buffers: Option<Buffers>,
    /// Name of its congestion control.
    pub congestion: Option<String>,
    /// `tcp_info`.
    pub tcp: Option<TcpInfo>,
    /// Its options; `None` where they could not be read.
    pub options: Option<LiveOptions>,
    /// Looks at which its own stack held bytes back, of all looks.
    pub holding: Tally,
    /// Looks at which a listener's accept queue, UDP's receive buffer or a Unix
    /// socket's send buffer was full, of all looks.
    pub full: Tally,
    /// Packets dropped at it from the first look to the last, for a listener
    /// attempts to connect; `None` where there was one look or the kernel does
    /// not count.
    pub dropped: Option<u32>,
    /// What of all this costs time.
    pub remarks: Vec<String>,
}

/// A setting of the kernel, and what was seen of its effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// As `sysctl` has it, `net.core.somaxconn`.
    pub name: String,
    /// Its value, or values one space apart.
    pub value: String,
    /// The network namespace, by its inode number; `None` for ours.
    pub namespace: Option<u64>,
    /// Whether something ran into it.
    pub bearing: Bearing,
    /// What says so; `None` where nothing does.
    pub text: Option<String>,
}

/// Whether something ran into a limit while it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Bearing {
    /// Not known: nothing counts it, or there was only one look.
    Shown,
    /// Nothing did.
    Cleared,
    /// Something did.
    Evidence,
}
