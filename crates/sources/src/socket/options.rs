//! All socket options that affect latency.

use std::os::fd::{AsFd, AsRawFd as _};
use std::time::Duration;

use lagtrace_core::observed::sockets::LiveOptions;
use rustix::net::sockopt;

use crate::privilege::client::{keeper, unexpected};
use crate::privilege::message::{Reply, Request};
use crate::privilege::{HostError, ProcessHandle};

/// Flags that say that the application has set the size of the send buffer or of the receive buffer
/// (`include/uapi/linux/socket.h`).
const SOCK_SNDBUF_LOCK: u32 = 1;
const SOCK_RCVBUF_LOCK: u32 = 2;
/// `SO_BUF_LOCK` (`include/uapi/asm-generic/socket.h`), which libc does not define.
const SO_BUF_LOCK: libc::c_int = 72;

/// Reads the options of a socket that another process holds; `None` if the descriptor now refers to
/// another socket.
///
/// # Errors
/// Returns an error if the process belongs to another user and `CAP_SYS_PTRACE` is missing, or if
/// the process has closed the socket.
pub(crate) fn of(
    process: &ProcessHandle,
    fd: u32,
    cookie: u64,
) -> Result<Option<LiveOptions>, HostError> {
    if let Some(keeper) = keeper().filter(|_| !process.is_own()) {
        let pid = process.pid();
        return match keeper.ask(&Request::Options { pid, fd, cookie })? {
            (Reply::Options(options), _) => Ok(options.map(|options| *options)),
            _ => Err(unexpected()),
        };
    }
    Ok(read(&process.duplicate(fd)?, cookie))
}

/// Reads the options; `None` if the descriptor now refers to another socket, which has a different
/// cookie.
pub(crate) fn read(socket: &impl AsFd, cookie: u64) -> Option<LiveOptions> {
    if sockopt::socket_cookie(socket).ok()? != cookie {
        return None;
    }
    let tcp = |name| number(socket, libc::IPPROTO_TCP, name);
    let own = |name| number(socket, libc::SOL_SOCKET, name);
    let is_set = |bit| own(SO_BUF_LOCK).map(|locks| locks & bit != 0);
    let seconds = |seconds: u32| u64::from(seconds) * 1_000_000_000;
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let nodelay = sockopt::tcp_nodelay(socket).ok();
    Some(LiveOptions {
        nodelay,
        cork: sockopt::tcp_cork(socket).ok(),
        quickack: sockopt::tcp_quickack(socket).ok(),
        // Sockets other than TCP sockets accept the option but ignore it.
        keepalive: nodelay.and(sockopt::socket_keepalive(socket).ok()),
        keepalive_idle_ns: sockopt::tcp_keepidle(socket).ok().map(nanos),
        keepalive_interval_ns: sockopt::tcp_keepintvl(socket).ok().map(nanos),
        keepalive_count: sockopt::tcp_keepcnt(socket).ok(),
        user_timeout_ns: sockopt::tcp_user_timeout(socket)
            .ok()
            .map(|millis| u64::from(millis) * 1_000_000),
        send_buffer: own(libc::SO_SNDBUF),
        receive_buffer: own(libc::SO_RCVBUF),
        is_send_buffer_set: is_set(SOCK_SNDBUF_LOCK),
        is_receive_buffer_set: is_set(SOCK_RCVBUF_LOCK),
        defer_accept_ns: tcp(libc::TCP_DEFER_ACCEPT).map(seconds),
        notsent_lowat: tcp(libc::TCP_NOTSENT_LOWAT),
        maxseg: tcp(libc::TCP_MAXSEG),
        reuseport: sockopt::socket_reuseport(socket).ok(),
        timestamping: own(libc::SO_TIMESTAMPING),
    })
}

/// Returns the value of a numeric option that rustix does not support; `None` if the kernel or the
/// socket does not have it.
fn number(socket: &impl AsFd, level: libc::c_int, name: libc::c_int) -> Option<u32> {
    let mut value: u32 = 0;
    let mut len = size_of::<u32>() as libc::socklen_t;
    // SAFETY: `value` is valid for writing `len` bytes, and the descriptor stays open while it is
    // borrowed.
    #[allow(unsafe_code)]
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    (outcome == 0 && len as usize >= size_of::<u32>()).then_some(value)
}
