//! Meaning of calls for latency, in plain words.

use super::value::timeval;
use super::{Request, SOL_SOCKET, SOL_TCP, SocketCall};

const SO_SNDBUF: i32 = 7;
const SO_RCVBUF: i32 = 8;
const SO_KEEPALIVE: i32 = 9;
const SO_LINGER: i32 = 13;
const SO_REUSEPORT: i32 = 15;
const SO_RCVLOWAT: i32 = 18;
const SO_RCVTIMEO: i32 = 20;
const SO_SNDTIMEO: i32 = 21;
const SO_SNDBUFFORCE: i32 = 32;
const SO_RCVBUFFORCE: i32 = 33;
const SO_BUSY_POLL: i32 = 46;
const SO_MAX_PACING_RATE: i32 = 47;
const TCP_NODELAY: i32 = 1;
const TCP_MAXSEG: i32 = 2;
const TCP_CORK: i32 = 3;
const TCP_KEEPIDLE: i32 = 4;
const TCP_KEEPINTVL: i32 = 5;
const TCP_KEEPCNT: i32 = 6;
const TCP_SYNCNT: i32 = 7;
const TCP_DEFER_ACCEPT: i32 = 9;
const TCP_WINDOW_CLAMP: i32 = 10;
const TCP_QUICKACK: i32 = 12;
const TCP_CONGESTION: i32 = 13;
const TCP_USER_TIMEOUT: i32 = 18;
const TCP_FASTOPEN: i32 = 23;
const TCP_NOTSENT_LOWAT: i32 = 25;
const TCP_FASTOPEN_CONNECT: i32 = 30;
const TCP_TX_DELAY: i32 = 37;

/// `EBADF`, `EFAULT`, `ENOPROTOOPT` and `ENOTSOCK`.
const EBADF: i64 = 9;
const EFAULT: i64 = 14;
const ENOTSOCK: i64 = 88;
const ENOPROTOOPT: i64 = 92;

/// Returns the call's meaning; `None` if there is nothing to report.
pub(super) fn of(call: &SocketCall) -> Option<String> {
    if call.has_failed() {
        return Some(failure(call.result).to_owned());
    }
    match &call.request {
        Request::SetOption { level, option, .. } => match *level {
            SOL_SOCKET => of_socket(call, *option),
            SOL_TCP => of_tcp(call, *option),
            _ => None,
        },
        Request::Listen(_) => listen(call),
        Request::Shutdown(how) => shutdown(*how),
        Request::Bind(_) | Request::Connect(_) => None,
    }
}

/// Returns true if the call sets a boolean option.
pub(super) fn is_switch(call: &SocketCall) -> bool {
    match &call.request {
        Request::SetOption { level, option, .. } => matches!(
            (*level, *option),
            (SOL_TCP, TCP_NODELAY | TCP_CORK | TCP_QUICKACK) | (SOL_SOCKET, SO_KEEPALIVE)
        ),
        _ => false,
    }
}

/// Returns the value requested and the one that the kernel set, if the kernel set less. The kernel
/// doubles buffer sizes (`net/core/sock.c: sk_setsockopt()`); forced sizes have no limit.
pub(super) fn cut(call: &SocketCall) -> Option<(i64, i64)> {
    let (asked, got) = (call.number()?, call.after?);
    let wanted = match &call.request {
        Request::SetOption {
            level: SOL_SOCKET,
            option: SO_SNDBUF | SO_RCVBUF,
            ..
        } => unsigned(asked).saturating_mul(2),
        Request::Listen(_) => unsigned(asked),
        _ => return None,
    };
    (got < wanted && !call.has_failed()).then_some((asked, got))
}

/// Returns a requested size as the kernel reads it: a negative one is very large.
fn unsigned(asked: i64) -> i64 {
    asked & i64::from(u32::MAX)
}

fn failure(result: i64) -> &'static str {
    match result.saturating_neg() {
        EBADF => "nothing changed: no such descriptor",
        EFAULT => "nothing changed: the value could not be read",
        ENOTSOCK => "nothing changed: the descriptor is not a socket",
        ENOPROTOOPT => "nothing changed: this kind of socket does not have the option",
        _ => "nothing changed",
    }
}

fn of_tcp(call: &SocketCall, option: i32) -> Option<String> {
    if option == TCP_CONGESTION {
        return Some("congestion control from now on".to_owned());
    }
    let value = call.number()?;
    let is_on = value != 0;
    let was_so = call.before == Some(i64::from(is_on));
    let text = match option {
        TCP_NODELAY if is_on && was_so => "Nagle's algorithm was off already".to_owned(),
        TCP_NODELAY if is_on => {
            "Nagle's algorithm off: small writes are sent immediately".to_owned()
        }
        TCP_NODELAY if was_so => "Nagle's algorithm was on already".to_owned(),
        TCP_NODELAY => "Nagle's algorithm on: a write smaller than a segment waits while earlier \
                        data is unacknowledged"
            .to_owned(),
        TCP_CORK if is_on && was_so => "was corked already".to_owned(),
        TCP_CORK if is_on => {
            "data smaller than a segment waits until the cork is removed, for at most 200 ms"
                .to_owned()
        }
        TCP_CORK if was_so => "was not corked".to_owned(),
        TCP_CORK => "the held data is sent".to_owned(),
        TCP_QUICKACK if is_on => "immediate ACKs, until the kernel delays them again".to_owned(),
        TCP_QUICKACK => {
            "ACKs may be delayed by 40 ms or more so that data can carry them".to_owned()
        }
        TCP_MAXSEG => format!("segments of at most {value} bytes"),
        TCP_KEEPIDLE => format!("first keep-alive probe after {value} s of idle time"),
        TCP_KEEPINTVL => format!("{value} s between keep-alive probes"),
        TCP_KEEPCNT => format!("the connection ends after {value} unanswered keep-alive probes"),
        TCP_SYNCNT => format!("a SYN is retransmitted up to {value} times"),
        TCP_DEFER_ACCEPT if is_on => format!(
            "accepted only when data arrives, or after {value} s or more: a client that waits for \
             a greeting has to wait"
        ),
        TCP_DEFER_ACCEPT => "accepted as soon as connected".to_owned(),
        TCP_WINDOW_CLAMP => format!("a receive window of at most {value} bytes"),
        TCP_USER_TIMEOUT if is_on => format!("the connection ends after {value} ms without an ACK"),
        TCP_USER_TIMEOUT => "the connection ends according to net.ipv4.tcp_retries2".to_owned(),
        TCP_FASTOPEN => format!("data in SYNs, with at most {value} such connections waiting"),
        TCP_FASTOPEN_CONNECT if is_on => "the SYN carries the first write".to_owned(),
        TCP_NOTSENT_LOWAT => format!(
            "not writable while at least {} bytes are unsent",
            u32::try_from(value).unwrap_or(u32::MAX)
        ),
        TCP_TX_DELAY => format!("every segment waits {value} µs before it is sent"),
        _ => return None,
    };
    Some(text)
}

fn of_socket(call: &SocketCall, option: i32) -> Option<String> {
    if let (SO_RCVTIMEO | SO_SNDTIMEO, Request::SetOption { value, .. }) = (option, &call.request) {
        return timeout(option == SO_RCVTIMEO, timeval(&value.bytes)?);
    }
    let value = call.number()?;
    let is_on = value != 0;
    let text = match option {
        SO_SNDBUF | SO_SNDBUFFORCE => {
            buffer(call, "wmem_max", "the data in flight stays below it")?
        }
        SO_RCVBUF | SO_RCVBUFFORCE => buffer(call, "rmem_max", "the window stays below it")?,
        SO_KEEPALIVE if is_on => "an idle connection is probed".to_owned(),
        SO_KEEPALIVE => "an idle connection is not probed".to_owned(),
        SO_LINGER => linger(call)?,
        SO_REUSEPORT if is_on => "several sockets may share the port".to_owned(),
        SO_RCVLOWAT => format!("readable only with at least {value} bytes"),
        SO_BUSY_POLL => format!("reading polls the device for {value} µs"),
        SO_MAX_PACING_RATE if value >= 0 => format!("sends at most {value} bytes per second"),
        _ => return None,
    };
    Some(text)
}

/// Describes the size that the kernel gave a buffer: twice the requested one, within its limits.
fn buffer(call: &SocketCall, limit: &str, what: &str) -> Option<String> {
    let asked = call.number()?;
    let size = match (cut(call), call.after) {
        (Some((_, got)), _) => format!("{got} bytes, because net.core.{limit} allows no more"),
        (None, Some(got)) if asked >= 0 && got > asked.saturating_mul(2) => {
            format!("{got} bytes, the minimum")
        }
        (None, Some(got)) => format!("{got} bytes, including the kernel's own overhead"),
        (None, None) => format!("{asked} bytes plus the kernel's own overhead"),
    };
    Some(format!("{size}, no longer adapted to the path: {what}"))
}

fn linger(call: &SocketCall) -> Option<String> {
    let Request::SetOption { value, .. } = &call.request else {
        return None;
    };
    let is_on = value.number()? != 0;
    let seconds = i32::from_ne_bytes(*value.bytes.get(4..)?.first_chunk()?);
    Some(match (is_on, seconds) {
        (false, _) => "close returns immediately, and unsent data is still sent".to_owned(),
        (true, 0) => "close discards unsent data and resets the connection".to_owned(),
        (true, _) => format!("close waits up to {seconds} s for unsent data"),
    })
}

fn timeout(is_reading: bool, (seconds, micros): (i64, i64)) -> Option<String> {
    let what = if is_reading { "reading" } else { "writing" };
    let millis = seconds
        .checked_mul(1000)?
        .checked_add(micros.checked_div(1000)?)?;
    Some(match (seconds, micros) {
        (0, 0) => format!("{what} waits without a limit"),
        _ => format!("{what} gives up after {millis} ms"),
    })
}

fn listen(call: &SocketCall) -> Option<String> {
    let got = call.after?;
    let why = match cut(call) {
        Some(_) => ", because net.core.somaxconn allows no more",
        None => "",
    };
    Some(format!(
        "at most {got} connections wait to be accepted{why}"
    ))
}

fn shutdown(how: i32) -> Option<String> {
    let text = match how {
        0 => "no more data is read",
        1 => "a FIN follows the unsent data; reading continues",
        2 => "a FIN follows the unsent data; no more data is read",
        _ => return None,
    };
    Some(text.to_owned())
}
