//! Remarks on states of a TCP socket that cost time.

use core::time::Duration;

use super::{backlog, names, unread};
use crate::cause::evidence::human;
use crate::facts::SeenSocket;
use crate::observed::sockets::{LiveSocket, Recovery};
use crate::report::{CountOf, counted};

/// A limit on sending is reported if it lasted for more than the time with unacknowledged data
/// divided by this number.
const LIMITED_SHARE: u64 = 10;
/// Minimum duration of a limit on sending that is reported, in nanoseconds.
const LIMITED_LEAST: u64 = 100_000_000;
/// Minimum number of samples that show how often a state occurs.
const MANY_LOOKS: u64 = 10;

/// Returns the remarks on states that cost time, or will soon. `listen_drops` is the number of
/// attempts to connect that the kernel dropped during the samples, at all listeners of the socket's
/// network namespace (`ListenDrops`); `None` if it was not counted.
pub(super) fn remarks(
    seen: &SeenSocket,
    peer: Option<&LiveSocket>,
    listen_drops: Option<u64>,
) -> Vec<String> {
    let (socket, holding) = (&seen.socket, seen.holding);
    let told = match socket.state {
        "LISTEN" => vec![
            backlog(socket, "further connections are dropped or have to wait"),
            refused(seen, listen_drops),
        ],
        // The drops at a connection (`sk_drops`) show nothing: each keep-alive probe and each
        // duplicate segment that arrives counts as one.
        _ => vec![
            held(socket, holding),
            unread(socket, peer),
            closed_window(socket, peer),
            repeating(socket),
            limited(socket),
        ],
    };
    told.into_iter().flatten().collect()
}

/// Returns the remark on attempts to connect that were dropped. The drops at a listener (`sk_drops`)
/// do not show this by themselves: resets of half-open connections count as drops, and with
/// `TCP_DEFER_ACCEPT` the last ACK of each handshake does (`tcp_check_req()`). `ListenDrops` counts
/// attempts only.
fn refused(seen: &SeenSocket, listen_drops: Option<u64>) -> Option<String> {
    const HARMLESS: &str =
        "or segments that are dropped without harm, such as resets before the handshake ends";
    let socket = &seen.socket;
    let (dropped, looks) = (seen.dropped(), seen.full);
    let count = dropped.unwrap_or(socket.buffers?.drops);
    if count == 0 || listen_drops == Some(0) {
        return None;
    }
    let when = match dropped {
        Some(_) => "during the samples",
        None => "since it was opened",
    };
    let drops = format!("{} {when}", counted(u64::from(count), "drop", "drops"));
    let room = format!("its accept queue of {}", socket.queues.send);
    let deferred = socket.options.and_then(|options| options.defer_accept_ns);
    let is_explained = listen_drops.is_none() && deferred > Some(0);
    if dropped.is_some() && looks.count > 0 && !is_explained {
        return Some(format!(
            "Attempts to connect were dropped: the kernel counted {drops}, and {room} was full in \
             {} of {} samples: the process accepts more slowly than they arrive.",
            looks.count, looks.of,
        ));
    }
    if is_explained {
        return None;
    }
    Some(match (dropped, listen_drops) {
        (None, _) => format!(
            "{drops}: attempts to connect that found no room, {HARMLESS}; -f shows whether \
             attempts are dropped now."
        ),
        (_, None) => format!(
            "{drops}, although {room} had free space in each of {} samples: attempts to connect in \
             bursts between the samples or at a full SYN queue, {HARMLESS}.",
            looks.of
        ),
        (_, Some(attempts)) => format!(
            "{drops}, although {room} had free space in each of {} samples; {} dropped in this \
             network namespace: in bursts between the samples, at a full SYN queue, or at another \
             listener.",
            looks.of,
            counted(
                attempts,
                "attempt to connect was",
                "attempts to connect were"
            ),
        ),
    })
}

/// Returns the remark on bytes that the socket's own stack holds back.
fn held(socket: &LiveSocket, holding: CountOf) -> Option<String> {
    let tcp = socket.tcp?;
    let options = socket.options.unwrap_or_default();
    let bytes = tcp.notsent_bytes.unwrap_or_default();
    if options.cork == Some(true) && bytes > 0 && bytes < tcp.snd_mss && tcp.unacked == 0 {
        return Some(format!(
            "{} wait until TCP_CORK is cleared, for at most 200 ms.",
            counted(u64::from(bytes), "byte", "bytes"),
        ));
    }
    let is_often = holding.of >= MANY_LOOKS && holding.count * 10 >= holding.of;
    // A single sample of a busy sender may fall between two steps of the kernel. Several samples or
    // the option's value must confirm that data is held.
    if options.nodelay == Some(true) || options.cork == Some(true) {
        return None;
    }
    let is_now = socket.is_holding() == Some(true) && options.nodelay == Some(false);
    if !is_often && !is_now {
        return None;
    }
    let how_often = if is_often {
        format!("in {} of {} samples", holding.count, holding.of)
    } else {
        "at this instant".to_owned()
    };
    let of_nagle = match options.nodelay {
        Some(_) => "TCP_NODELAY is off: Nagle's algorithm holds a small write",
        None => "as with Nagle's algorithm (TCP_NODELAY could not be read)",
    };
    Some(format!(
        "Data smaller than a segment was held back {how_often} until the data in flight is \
         acknowledged; {of_nagle}."
    ))
}

/// Returns the remark on a peer whose receive window is zero.
fn closed_window(socket: &LiveSocket, peer: Option<&LiveSocket>) -> Option<String> {
    let tcp = socket.tcp?;
    let waiting = tcp.notsent_bytes.filter(|&bytes| bytes > 0)?;
    (tcp.snd_wnd == Some(0)).then(|| {
        let who = names(peer).unwrap_or_else(|| "the peer".to_owned());
        format!(
            "{} wait for {who} to read: its window is closed.",
            counted(u64::from(waiting), "byte", "bytes"),
        )
    })
}

/// Returns the remark on data that the socket retransmits again and again.
fn repeating(socket: &LiveSocket) -> Option<String> {
    let tcp = socket.tcp?;
    if tcp.recovery != Recovery::Loss && tcp.retransmits == 0 {
        return None;
    }
    let next = match &socket.timer {
        Some(timer) if timer.name == "retransmission" => {
            format!(
                ", next in {}",
                human(Duration::from_nanos(timer.expires_ns))
            )
        }
        _ => String::new(),
    };
    let times = tcp.retransmits.max(1);
    Some(format!(
        "No answer for {}: retransmitted {}{next}.",
        human(Duration::from_nanos(tcp.last_ack_received_ns)),
        counted(u64::from(times), "time", "times"),
    ))
}

/// Returns the remark on the limit of the socket's sending, if the limit held long enough.
fn limited(socket: &LiveSocket) -> Option<String> {
    let tcp = socket.tcp?;
    let busy = tcp.busy_ns.filter(|&busy| busy > 0)?;
    let candidates = [
        (tcp.rwnd_limited_ns, "the peer's receive window"),
        (tcp.sndbuf_limited_ns, "its own send buffer"),
    ];
    let long = candidates.into_iter().filter_map(|(time, what)| {
        let time = time?;
        let is_long = time >= LIMITED_LEAST && time.saturating_mul(LIMITED_SHARE) >= busy;
        is_long.then_some((time, what))
    });
    let (time, what) = long.max()?;
    let set = match (what, socket.options) {
        ("its own send buffer", Some(options)) if options.is_send_buffer_set == Some(true) => {
            ", which a program set"
        }
        _ => "",
    };
    Some(format!(
        "Limited by {what}{set} for {} of the {} in which it had data to send.",
        human(Duration::from_nanos(time)),
        human(Duration::from_nanos(busy)),
    ))
}
