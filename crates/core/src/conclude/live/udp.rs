//! What of a UDP socket's state loses datagrams.

use crate::facts::SeenSocket;
use crate::live::Buffers;

/// What is lost, or is about to be.
pub(super) fn remarks(seen: &SeenSocket) -> Vec<String> {
    let Some(buffers) = seen.socket.buffers else {
        return Vec::new();
    };
    let told = [dropped(seen, &buffers), filling(seen, &buffers)];
    told.into_iter().flatten().collect()
}

/// Datagrams that were thrown away. The kernel counts those that found the
/// receive buffer full and those with a wrong checksum in one
/// (`__udp_queue_rcv_skb()`): only a look at a full buffer tells which.
fn dropped(seen: &SeenSocket, buffers: &Buffers) -> Option<String> {
    let (all, looks) = (buffers.drops, seen.full);
    let limit = kibibytes(buffers.receive_limit);
    let slow = "the process reads more slowly than they come";
    Some(match seen.dropped() {
        _ if all == 0 => return None,
        Some(0) => format!(
            "{} dropped since it was opened, none of them in {} looks.",
            datagrams(all),
            looks.of
        ),
        Some(now) if looks.count > 0 => format!(
            "{} dropped while it was looked at; its receive buffer of {limit}{} was full in {} of {} looks: {slow}.",
            datagrams(now),
            by_hand(seen),
            looks.count,
            looks.of
        ),
        Some(now) => format!(
            "{} dropped while it was looked at, though its receive buffer of {limit} had room at each of {} looks: bursts between them, or datagrams with errors.",
            datagrams(now),
            looks.of
        ),
        None if looks.count > 0 => format!(
            "{} dropped since it was opened, and its receive buffer of {limit}{} is full: {slow}.",
            datagrams(all),
            by_hand(seen)
        ),
        None => format!(
            "{} dropped since it was opened; whether that goes on, -f tells.",
            datagrams(all)
        ),
    })
}

/// A buffer that has no room now, though nothing was lost yet.
fn filling(seen: &SeenSocket, buffers: &Buffers) -> Option<String> {
    let is_full = seen.socket.is_full() == Some(true);
    (is_full && buffers.drops == 0).then(|| {
        format!(
            "{} of the {} of its receive buffer{} wait to be read: what finds no room is dropped.",
            kibibytes(buffers.receive_used),
            kibibytes(buffers.receive_limit),
            by_hand(seen)
        )
    })
}

fn by_hand(seen: &SeenSocket) -> &'static str {
    let options = seen.socket.options.unwrap_or_default();
    match options.is_receive_buffer_set {
        Some(true) => " (set by hand)",
        _ => "",
    }
}

fn datagrams(count: u32) -> String {
    match count {
        1 => "1 datagram was".to_owned(),
        _ => format!("{count} datagrams were"),
    }
}

fn kibibytes(bytes: u32) -> String {
    format!("{} KiB", bytes.div_ceil(1024))
}
