//! Remarks on UDP sockets that lose datagrams.

use crate::facts::SeenSocket;
use crate::observed::sockets::Buffers;
use crate::report::counted;

/// Returns the remarks on datagrams that were lost, or will be soon.
pub(super) fn remarks(seen: &SeenSocket) -> Vec<String> {
    let Some(buffers) = seen.socket.buffers else {
        return Vec::new();
    };
    let told = [dropped(seen, &buffers), filling(seen, &buffers)];
    told.into_iter().flatten().collect()
}

/// Returns the remark on dropped datagrams. The kernel counts a full receive buffer and a wrong
/// checksum with the same counter (`__udp_queue_rcv_skb()`), so the process is accused only if a
/// sample found the buffer full.
fn dropped(seen: &SeenSocket, buffers: &Buffers) -> Option<String> {
    let (all, looks) = (buffers.drops, seen.full);
    let room = format!(
        "its receive buffer of {}{}",
        kibibytes(buffers.receive_limit),
        by_hand(seen)
    );
    let slow = "the process reads more slowly than they arrive";
    let dropped = |count: u32| {
        let count = u64::from(count);
        format!(
            "{} dropped",
            counted(count, "datagram was", "datagrams were")
        )
    };
    Some(match seen.dropped() {
        _ if all == 0 => return None,
        Some(0) => format!(
            "{} since it was opened, none of them during the {} samples.",
            dropped(all),
            looks.of
        ),
        Some(now) if looks.count > 0 => format!(
            "{} during the samples; {room} was full in {} of {} samples: {slow}.",
            dropped(now),
            looks.count,
            looks.of
        ),
        Some(now) => format!(
            "{} during the samples, although {room} had free space in each of {} samples: bursts \
             between the samples, or datagrams with errors.",
            dropped(now),
            looks.of
        ),
        None if looks.count > 0 => format!(
            "{} since it was opened, and {room} is full: {slow}.",
            dropped(all)
        ),
        None => format!(
            "{} since it was opened; -f shows whether this continues.",
            dropped(all)
        ),
    })
}

/// Returns the remark on a receive buffer that is full although no datagram was dropped yet.
fn filling(seen: &SeenSocket, buffers: &Buffers) -> Option<String> {
    let is_full = seen.socket.is_full() == Some(true);
    (is_full && buffers.drops == 0).then(|| {
        format!(
            "{} of the {} of its receive buffer{} wait to be read: datagrams that do not fit are \
             dropped.",
            kibibytes(buffers.receive_used),
            kibibytes(buffers.receive_limit),
            by_hand(seen)
        )
    })
}

fn by_hand(seen: &SeenSocket) -> &'static str {
    let options = seen.socket.options.unwrap_or_default();
    match options.is_receive_buffer_set {
        Some(true) => " (set by a program)",
        _ => "",
    }
}

fn kibibytes(bytes: u32) -> String {
    format!("{} KiB", bytes.div_ceil(1024))
}
