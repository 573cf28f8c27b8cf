//! The calls by which programs set up the sockets of a picture's services.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A socket, and the calls on it in the order of their times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PicturedSocket {
    /// The process that made the first call, by its name.
    pub program: String,
    /// The number of that process.
    pub pid: u32,
    /// The socket's address and port; `None` if it was not bound yet.
    pub local: Option<String>,
    /// The peer's address and port; `None` for a listener.
    pub remote: Option<String>,
    /// Time of the first call.
    pub start_ns: i64,
    /// The calls, the first [`PicturedSocket::MAX_CALLS`].
    pub calls: Vec<PicturedCall>,
    /// Number of later calls, which are left out.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub left_out: u64,
}

impl PicturedSocket {
    /// Maximum number of sockets in the picture.
    pub const MAX: usize = 64;
    /// Maximum number of calls on one socket in the picture.
    pub const MAX_CALLS: usize = 64;
}

/// A call on a socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PicturedCall {
    /// Time after the socket's first call.
    pub at_ns: u64,
    /// Name of the system call: `accept`, `connect`, `listen`, `setsockopt`.
    pub call: String,
    /// Name of the option that is set; `None` for other calls.
    pub option: Option<String>,
    /// The value, as `strace` writes it; for `accept` the options that the listener passed on.
    pub value: String,
    /// Number of bytes that the connection had sent before.
    pub sent: u64,
    /// Name of the error, such as `ENOPROTOOPT`; `None` if the call succeeded.
    pub error: Option<String>,
}
