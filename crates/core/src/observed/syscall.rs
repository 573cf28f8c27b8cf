//! System calls with which programs configure their sockets, and their meaning.
//!
//! The input is what the kernel saw of one call; the output is the call in `strace`'s notation. The
//! values are another process's memory: any bytes, of any length.

mod errno;
mod names;
mod option;
mod value;

use core::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::observed::flow::Endpoint;
use crate::observed::time::Timestamp;
pub(crate) use option::SocketOption;

/// `SOL_SOCKET`.
pub(crate) const SOL_SOCKET: i32 = 1;
/// `SOL_TCP`.
pub(crate) const SOL_TCP: i32 = 6;
/// `EINPROGRESS`: a `connect` is in progress.
const EINPROGRESS: i64 = 115;

/// A completed call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SocketCall {
    /// Start time of the call.
    pub at: Timestamp,
    /// Duration of the call.
    pub took: Duration,
    /// The thread that called.
    pub caller: Caller,
    /// The descriptor passed to the call.
    pub fd: i32,
    /// The request made.
    pub request: Request,
    /// Result of the call: 0, or the negated error number.
    pub result: i64,
    /// The socket to which the descriptor referred; `None` if it was not a socket.
    pub socket: Option<CalledSocket>,
    /// The option's value in the kernel before the call; `None` if the kernel does not store it in
    /// a readable place. For `listen`, the backlog.
    pub before: Option<i64>,
    /// The option's value in the kernel after the call.
    pub after: Option<i64>,
    /// Number of bytes that the connection had sent when the call began; 0 for sockets other than
    /// TCP.
    #[serde(default)]
    pub sent: u64,
}

/// The thread that called.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Process id in the host's own namespace.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// The process's `comm`.
    pub name: String,
    /// The thread's `comm`.
    pub thread: String,
}

/// The request of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// `setsockopt`.
    SetOption {
        /// The option's level.
        level: i32,
        /// The option's number in its level.
        option: i32,
        /// The value to be set.
        value: Argument,
    },
    /// `listen`, with the maximum number of connections that may wait to be accepted.
    Listen(i32),
    /// `shutdown`, with the direction: 0 reading, 1 writing, 2 both.
    Shutdown(i32),
    /// `bind` to an address.
    Bind(Argument),
    /// `connect` to an address.
    Connect(Argument),
    /// `accept` or `accept4` that returned a connection, which is the socket of the call.
    Accept(Accepted),
}

/// The state of a listener, and the options that an accepted connection has from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Maximum number of connections that may wait for `accept`.
    pub backlog: u32,
    /// True if the listener has `TCP_DEFER_ACCEPT`.
    pub is_deferred: bool,
    /// Maximum number of pending TCP Fast Open connections; 0 without `TCP_FASTOPEN`.
    pub fastopen: u32,
    /// True if the connection has `TCP_NODELAY`.
    pub nodelay: bool,
    /// True if the connection has `TCP_CORK`.
    pub cork: bool,
    /// True if the size of the connection's send buffer is fixed (`SO_SNDBUF`).
    pub send_buffer: bool,
    /// True if the size of the connection's receive buffer is fixed (`SO_RCVBUF`).
    pub receive_buffer: bool,
}

/// Memory of the process to which a call pointed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Argument {
    /// Address of the memory.
    pub pointer: u64,
    /// Length as passed to the call.
    pub len: i32,
    /// The first bytes; empty if they could not be read.
    pub bytes: Vec<u8>,
    /// True if the memory holds a key and was therefore not read.
    pub is_secret: bool,
    /// True if the memory could be read only after the call: the process may have changed it in
    /// between.
    pub is_late: bool,
}

/// The socket of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CalledSocket {
    /// Inode of the socket; unique among live sockets.
    pub inode: u64,
    /// The kernel's unique number for the socket, if any program has requested it.
    pub cookie: Option<u64>,
    /// The network namespace of the socket, by its inode number; `None` for ours.
    pub namespace: Option<u64>,
    /// Kind of the socket.
    pub kind: SocketKind,
    /// True for an IPv6 socket, which may have an IPv4 connection.
    pub is_v6: bool,
    /// True if the kernel chose the socket's port, as it does for TCP clients.
    pub is_client: bool,
    /// State of the socket as `ss` writes it.
    pub state: String,
    /// The socket's own end; `None` if it has no ports or is not bound yet.
    pub local: Option<Endpoint>,
    /// The peer's end; `None` as long as there is no peer.
    pub remote: Option<Endpoint>,
}

/// The kind of a socket.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum SocketKind {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// A Unix socket.
    Unix,
    /// Anything else.
    Other,
}

/// Counts of the eBPF programs in the kernel, read when they are removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTally {
    /// Number of calls that were seen.
    pub calls: u64,
    /// Number of calls lost because a buffer was full.
    pub lost: u64,
}

impl SocketCall {
    /// Returns the call and its result, as `strace` writes them.
    pub fn syntax(&self) -> String {
        format!(
            "{}({}{}) = {}",
            self.name(),
            self.fd,
            self.arguments(),
            self.outcome()
        )
    }

    /// Returns the call and its result, with the socket behind the descriptor, as `strace -yy`
    /// writes it.
    pub fn syntax_with_socket(&self) -> String {
        let socket = self.socket.as_ref();
        let socket = socket.map_or_else(String::new, |socket| format!("<{}>", socket.label()));
        let (name, arguments) = (self.name(), self.arguments());
        format!(
            "{name}({}{socket}{arguments}) = {}",
            self.fd,
            self.outcome()
        )
    }

    /// Returns the system call's name.
    pub fn name(&self) -> &'static str {
        match self.request {
            Request::SetOption { .. } => "setsockopt",
            Request::Listen(_) => "listen",
            Request::Shutdown(_) => "shutdown",
            Request::Bind(_) => "bind",
            Request::Connect(_) => "connect",
            Request::Accept(_) => "accept",
        }
    }

    /// Returns the option's level by name; `None` for other calls.
    pub fn level(&self) -> Option<String> {
        match self.request {
            Request::SetOption { level, .. } => Some(level_name(level)),
            _ => None,
        }
    }

    /// Returns the name of the option, or the name of the call if it sets no option.
    pub fn subject(&self) -> String {
        match self.request {
            Request::SetOption { level, option, .. } => option_name(level, option),
            _ => self.name().to_owned(),
        }
    }

    /// Returns the value or direction in the call, as `strace` writes it.
    pub fn value(&self) -> String {
        match &self.request {
            Request::SetOption {
                level,
                option,
                value,
            } => value::option(*level, *option, value),
            Request::Listen(backlog) => backlog.to_string(),
            Request::Shutdown(how) => value::direction(*how),
            Request::Bind(address) | Request::Connect(address) => value::address(address),
            Request::Accept(_) => String::new(),
        }
    }

    fn arguments(&self) -> String {
        let value = self.value();
        match &self.request {
            Request::SetOption {
                level,
                option,
                value: of,
            } => format!(
                ", {}, {}, {value}, {}",
                level_name(*level),
                option_name(*level, *option),
                of.len
            ),
            Request::Bind(of) | Request::Connect(of) => format!(", {value}, {}", of.len),
            Request::Listen(_) | Request::Shutdown(_) => format!(", {value}"),
            Request::Accept(_) => String::new(),
        }
    }

    fn outcome(&self) -> String {
        match self.error() {
            Some(("ERESTARTSYS", text)) => format!("? ERESTARTSYS ({text})"),
            Some((name, text)) => format!("-1 {name} ({text})"),
            None if self.result < 0 => format!("-1 (errno {})", self.result.unsigned_abs()),
            None => self.result.to_string(),
        }
    }

    /// Returns the error's name and meaning; `None` if there was no error, or one that these calls
    /// do not return.
    pub fn error(&self) -> Option<(&'static str, &'static str)> {
        errno::error(self.result.checked_neg()?)
    }

    /// Returns true if the call failed. A `connect` in progress has not failed.
    pub fn has_failed(&self) -> bool {
        let goes_on = matches!(self.request, Request::Connect(_)) && self.result == -EINPROGRESS;
        self.result < 0 && !goes_on
    }

    /// Returns the time from which the call has an effect: `accept` may wait long for the connection
    /// that it returns.
    pub(crate) fn since(&self) -> Timestamp {
        match self.request {
            Request::Accept(_) => self.at + self.took,
            _ => self.at,
        }
    }

    /// Returns the number to which the option was set, if its value is a number.
    pub fn number(&self) -> Option<i64> {
        match &self.request {
            Request::SetOption { value, .. } => value.number(),
            Request::Listen(backlog) => Some(i64::from(*backlog)),
            _ => None,
        }
    }
}

impl Argument {
    /// Returns the first `int`, which is how the kernel reads most options.
    pub(crate) fn number(&self) -> Option<i64> {
        let bytes = self.bytes.first_chunk::<4>()?;
        Some(i64::from(i32::from_ne_bytes(*bytes)))
    }
}

impl CalledSocket {
    /// Returns the socket's label, as `strace -yy` writes it: `TCP:[127.0.0.1:80->127.0.0.1:4711]`.
    pub fn label(&self) -> String {
        let family = if self.is_v6 { "v6" } else { "" };
        let kind = match self.kind {
            SocketKind::Tcp => format!("TCP{family}"),
            SocketKind::Udp => format!("UDP{family}"),
            SocketKind::Unix => "UNIX".to_owned(),
            SocketKind::Other => "socket".to_owned(),
        };
        match (self.local, self.remote) {
            (Some(local), Some(remote)) => format!("{kind}:[{local}->{remote}]"),
            (Some(local), None) => format!("{kind}:[{local}]"),
            (None, _) => format!("{kind}:[{}]", self.inode),
        }
    }
}

fn level_name(level: i32) -> String {
    let unknown = || format!("{level:#x} /* SOL_?? */");
    names::level(level).map_or_else(unknown, str::to_owned)
}

fn option_name(level: i32, option: i32) -> String {
    let unknown = || match (names::level(level), option) {
        (None, _) => u32::from_ne_bytes(option.to_ne_bytes()).to_string(),
        (_, 0) => format!("0 /* {}_??? */", names::prefix(level)),
        _ => format!("{option:#x} /* {}_??? */", names::prefix(level)),
    };
    names::option(level, option).map_or_else(unknown, str::to_owned)
}

#[cfg(test)]
mod tests;
