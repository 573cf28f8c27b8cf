//! Remarks on UDP sockets that lose datagrams.

use super::lost::{Loss, lost};
use crate::facts::SeenSocket;
use crate::observed::sockets::Buffers;

/// Returns the remarks on datagrams that were lost, or will be soon.
pub(super) fn remarks(seen: &SeenSocket) -> Vec<String> {
    let Some(buffers) = seen.socket.buffers else {
        return Vec::new();
    };
    let told = [dropped(seen, &buffers), filling(seen, &buffers)];
    told.into_iter().flatten().collect()
}

/// Returns the remark on dropped datagrams. The kernel counts a full receive buffer and a wrong
/// checksum with the same counter (`__udp_queue_rcv_skb()`).
fn dropped(seen: &SeenSocket, buffers: &Buffers) -> Option<String> {
    let limit = kibibytes(buffers.receive_limit);
    let loss = Loss {
        names: ["datagram", "datagrams"],
        room: &format!("its receive buffer of {limit}{}", by_hand(seen)),
        slow: "the process reads more slowly than they arrive",
        otherwise: "bursts between the samples, or datagrams with errors",
    };
    lost(seen, &loss)
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
