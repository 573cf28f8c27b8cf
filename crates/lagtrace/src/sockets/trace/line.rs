//! The output line for a call.

use lagtrace_core::observed::syscall::{Request, SocketCall};
use lagtrace_core::observed::time::Timestamp;
use serde_json::json;

use crate::clock;
use crate::render::harmless;

/// Returns the line for people: the time, the caller, and the call in the notation of `strace -yy`.
pub(super) fn text(call: &SocketCall) -> String {
    let caller = &call.caller;
    let thread = if caller.tid == caller.pid {
        String::new()
    } else {
        format!("/{}", caller.tid)
    };
    format!(
        "{} {}[{}{thread}] {}",
        moment(call.at),
        harmless(&caller.name),
        caller.pid,
        call.syntax_with_socket()
    )
}

/// Returns the line for programs.
pub(super) fn json(call: &SocketCall) -> String {
    let (caller, socket) = (&call.caller, call.socket.as_ref());
    let value = match &call.request {
        Request::SetOption { value, .. } | Request::Bind(value) | Request::Connect(value) => {
            Some(value)
        }
        Request::Listen(_) | Request::Shutdown(_) | Request::Accept(_) => None,
    };
    json!({
        "type": "socket-call",
        "at": moment(call.at),
        "took_ns": u64::try_from(call.took.as_nanos()).unwrap_or(u64::MAX),
        "pid": caller.pid,
        "tid": caller.tid,
        "process": caller.name,
        "thread": caller.thread,
        "call": call.name(),
        "fd": call.fd,
        "level": call.level(),
        "option": call.level().map(|_| call.subject()),
        "value": call.value(),
        "number": call.number(),
        "length": value.map(|value| value.len),
        "is_read_late": value.is_some_and(|value| value.is_late),
        "result": call.result.max(-1),
        "error": call.error().map(|(name, _)| name),
        "before": call.before,
        "after": call.after,
        "syntax": call.syntax(),
        "protocol": socket.map(|socket| socket.kind),
        "namespace": socket.and_then(|socket| socket.namespace),
        "inode": socket.map(|socket| socket.inode),
        "cookie": socket.and_then(|socket| socket.cookie),
        "state": socket.map(|socket| socket.state.as_str()),
        "local": socket.and_then(|socket| Some(socket.local?.to_string())),
        "remote": socket.and_then(|socket| Some(socket.remote?.to_string())),
    })
    .to_string()
}

/// Formats a time with microseconds.
fn moment(at: Timestamp) -> String {
    clock::moment(at.as_nanos())
}
