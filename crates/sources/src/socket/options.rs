//! All socket options that affect latency.

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::time::Duration;

use lagtrace_core::observed::sockets::LiveOptions;
use rustix::net::sockopt;

use crate::privilege::client::{Client, keeper, unexpected};
use crate::privilege::limits::MOST_SOCKETS;
use crate::privilege::message::{HeldSocket, Refusal, Reply, Request};
use crate::privilege::{HostError, ProcessHandle};

/// Flags that say that the application has set the size of the send buffer or of the receive buffer
/// (`include/uapi/linux/socket.h`).
const SOCK_SNDBUF_LOCK: u32 = 1;
const SOCK_RCVBUF_LOCK: u32 = 2;
/// `SO_BUF_LOCK` (`include/uapi/asm-generic/socket.h`), which libc does not define.
const SO_BUF_LOCK: libc::c_int = 72;

/// Options of a socket; `None` if the descriptor now refers to another socket. It is an error if
/// the process belongs to another user and `CAP_SYS_PTRACE` is missing, or if the process has closed
/// the socket.
type Outcome = Result<Option<LiveOptions>, HostError>;

/// Reads the options of sockets that processes hold, in this order.
pub(crate) fn of_all(sockets: &[HeldSocket]) -> Vec<Outcome> {
    let Some(keeper) = keeper() else {
        return of_all_here(sockets, |_| true);
    };
    // A process may always examine itself.
    let is_own = |socket: &HeldSocket| socket.pid == std::process::id();
    let others: Vec<HeldSocket> = sockets.iter().copied().filter(|s| !is_own(s)).collect();
    let asked = |some: &[HeldSocket]| ask(keeper, some);
    let mut others = others.chunks(MOST_SOCKETS).flat_map(asked);
    let unanswered = || Err(unexpected());
    let mut of = |socket: &HeldSocket| {
        if is_own(socket) {
            of_all_here(std::slice::from_ref(socket), |_| true).pop()
        } else {
            others.next()
        }
    };
    let each = sockets
        .iter()
        .map(|socket| of(socket).unwrap_or_else(unanswered));
    each.collect()
}

/// Has the keeper read the options; one element for each socket.
fn ask(keeper: &Client, sockets: &[HeldSocket]) -> Vec<Outcome> {
    let answer = keeper.ask(&Request::Options(sockets.to_vec()));
    let mut each: Vec<Outcome> = match answer {
        Ok((Reply::Options(each), _)) => {
            let error = |each: Result<_, Refusal>| each.map_err(HostError::from);
            each.into_iter().map(error).collect()
        }
        Ok(_) => Vec::new(),
        Err(error) => vec![Err(error)],
    };
    each.resize_with(sockets.len(), || Err(unexpected()));
    each
}

/// Reads the options with the privileges of this process, of those sockets that `may_read` admits.
pub(crate) fn of_all_here(
    sockets: &[HeldSocket],
    may_read: impl Fn(BorrowedFd<'_>) -> bool,
) -> Vec<Outcome> {
    // Consecutive sockets often belong to the same process.
    let mut held: Option<ProcessHandle> = None;
    let of = |socket: &HeldSocket| {
        let process = match held.take().filter(|held| held.pid() == socket.pid) {
            Some(process) => process,
            None => ProcessHandle::open(socket.pid)?,
        };
        let duplicate = held.insert(process).duplicate(socket.fd)?;
        if may_read(duplicate.as_fd()) {
            Ok(read(&duplicate, socket.cookie))
        } else {
            let what = format!("descriptor {} of process {}", socket.fd, socket.pid);
            Err(HostError::NotOurs { what })
        }
    };
    sockets.iter().map(of).collect()
}

/// Reads the options; `None` if the descriptor now refers to another socket, which has a different
/// cookie.
fn read(socket: &impl AsFd, cookie: u64) -> Option<LiveOptions> {
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
